import LoopEngine

/// Whose turn it is: by the tokens of users and units, and by the memory that lines on their way may take.
extension Ingest {
  /// Lines of one unit in a turn: at most this many that were read before, and then this many that are read now.
  static let turnLines = 8
  static let shortestWait: Duration = .milliseconds(10)

  // MARK: Tokens

  /// Whether a connection may be read: it has a token, and no other one of its unit was first.
  func hasTurn(_ connection: Connection) -> Bool {
    connection.share.refill(policy)
    return connection.share.waiting.isEmpty && connection.share.hasToken
  }

  /// Reads nothing of a connection until its unit has its turn.
  func hold(_ connection: Connection) {
    guard !connection.isHeld, connection.isOpen else { return }
    let (unit, user) = (connection.share, connection.share.user)
    complainOfRate(connection)
    connection.pause()
    connection.isHeld = true
    if unit.waiting.isEmpty, !user.waiting.contains(where: { $0 === unit }) { user.waiting.append(unit) }
    unit.waiting.append(connection)
    scheduleTurns(of: user)
  }

  private func complainOfRate(_ connection: Connection) {
    let peer = connection.process.peer
    let isUnit = !connection.share.bucket.hasToken
    let limit = isUnit ? policy.linesPerSecond : policy.userLinesPerSecond
    clientLog.say(
      .warning, .clientContained, of: peer.owner, about: "rate-\(peer.complaintKey)",
      isUnit
        ? "\(peer.description) sends more than \(Int(limit)) lines per second (limits.lines_per_second): it is slowed down to that rate"
        : "user \(peer.owner) sends more than \(Int(limit)) lines per second (limits.user_lines_per_second): \(peer.description) is slowed down"
    )
  }

  private func scheduleTurns(of user: UserShare) {
    guard user.timer == nil, !user.waiting.isEmpty else { return }
    let wait = user.waiting.map { unit in
      max(
        unit.bucket.time(until: Self.tokensOfTurn(policy.linesPerSecond), rate: policy.linesPerSecond),
        user.bucket.time(until: Self.tokensOfTurn(policy.userLinesPerSecond), rate: policy.userLinesPerSecond))
    }.min()
    let (ingest, weak) = (UncheckedReference(self), UncheckedReference(user))
    user.timer = loop.perform(after: max(wait ?? .zero, Self.shortestWait), name: "read delayed services") { _ in
      guard let user = weak.object else { return }
      user.timer = nil
      ingest.object?.giveTurns(to: user)
    }
  }

  /// What is worth a wake-up: a turn's lines, or those of 20 ms.
  private static func tokensOfTurn(_ rate: Double) -> Double { max(1, min(Double(turnLines), rate / 50)) }

  /// Takes lines of a user's waiting units in turn, until no unit has a token.
  private func giveTurns(to user: UserShare) {
    // Each unit that has none steps back once.
    var stepped = 0
    while stepped < user.waiting.count {
      let unit = user.waiting.removeFirst()
      guard !unit.waiting.isEmpty else { continue }
      user.waiting.append(unit)
      unit.refill(policy)
      guard unit.hasToken else {
        stepped += 1
        continue
      }
      stepped = 0
      giveTurn(to: unit)
    }
    user.waiting.removeAll { $0.waiting.isEmpty }
    scheduleTurns(of: user)
  }

  private func giveTurn(to unit: UnitShare) {
    let connection = unit.waiting.removeFirst()
    connection.isHeld = false
    guard connection.isOpen else { return }
    takeHeld(of: connection, limit: Self.turnLines)
    guard connection.isOpen else { return }
    if connection.holdsLines {
      // First again, so that there is only one such of a unit, however many wait.
      connection.isHeld = true
      unit.waiting.insert(connection, at: 0)
    } else if hasRoom(for: connection) {
      readOnce(connection, upTo: Self.turnLines)
      guard connection.isOpen else { return }
      if connection.holdsLines {
        connection.isHeld = true
        unit.waiting.insert(connection, at: 0)
      } else {
        connection.resume(on: loop)
      }
    } else {
      wait(connection)
    }
    mark(connection)
    endIfDue(connection.process)
  }

  // MARK: Memory

  /// Whether lines of a connection may be added to those in progress.
  ///
  /// A user may have as many bytes in progress as are free, a unit as many as are left of its
  /// user's half. Unlike ``SharedAllowance``, this asks before the next line's length is known: the
  /// last line may exceed it. `fraction` is asked for where reading is to begin again.
  func hasRoom(for connection: Connection, fraction: Int = 1) -> Bool {
    !lacksShare(connection, fraction: fraction) && connection.outstandingBytes < policy.memory / 16 / fraction
  }

  func lacksShare(_ connection: Connection, fraction: Int = 1) -> Bool {
    let (unit, user) = (connection.share, connection.share.user)
    return user.queuedBytes * fraction >= policy.memory - queuedBytes
      || unit.queuedBytes * fraction >= policy.memory / 2 - user.queuedBytes
  }

  /// Stops reading a connection until lines in progress have been written.
  func wait(_ connection: Connection) {
    let peer = connection.process.peer
    connection.pause()
    waitingForRoom[connection.number] = connection
    let lacksShare = lacksShare(connection)
    clientLog.say(
      .warning, .clientContained, of: peer.owner,
      about: "memory-\(lacksShare ? "\(peer.owner)" : "\(peer.owner)-\(connection.number)")",
      lacksShare
        ? "the outputs are not accepting writes, and \(connection.share.user.queuedBytes >> 10) KiB of user \(peer.owner) are queued (limits.memory): its services keep their reports for now"
        : "\(peer.description) has \(connection.outstandingBytes >> 10) KiB queued: the agent reads no more from it until they are written"
    )
  }

  func resumeWaiting() {
    guard !waitingForRoom.isEmpty else { return }
    for (number, connection) in waitingForRoom where hasRoom(for: connection, fraction: 2) {
      waitingForRoom[number] = nil
      if connection.holdsLines { hold(connection) } else { connection.resume(on: loop) }
    }
  }

  /// Accounts for the beginning of a line; false if its user has too much of them.
  func accountUnfinished(_ connection: Connection) -> Bool {
    let bytes = connection.rest.count
    let difference = bytes - connection.unfinishedBytes
    guard difference > 0 else {
      releaseUnfinished(of: connection, keeping: bytes)
      return true
    }
    guard unfinishedBytes.take(difference, for: connection.share.user.owner, limit: policy.memory / 2) else {
      return false
    }
    connection.unfinishedBytes = bytes
    return true
  }

  func releaseUnfinished(of connection: Connection, keeping bytes: Int = 0) {
    unfinishedBytes.add(bytes - connection.unfinishedBytes, for: connection.share.user.owner)
    connection.unfinishedBytes = bytes
  }
}
