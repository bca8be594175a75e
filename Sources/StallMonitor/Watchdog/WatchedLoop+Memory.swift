import CUnwind
import StallCapture

/// A late turn that was found while there was no memory for a report.
struct HeldTurn {
  var turn: Pulse.Word
  var start: UInt64
  var frozen: UInt64 = 0
  var found: UInt64
  /// What the thread was doing then, with its stack in the capture's buffer; nil if that is not known.
  var sighting: ThreadCapture.Sighting?
}

extension WatchedLoop {
  /// Notes that the turn is late, and takes the stack into the capture's buffer; allocates nothing.
  ///
  /// `capture` is nil while its buffer holds another loop's stack. Returns whether the buffer holds this one's.
  func holdLateTurn(at now: UInt64, with capture: ThreadCapture?) -> Bool {
    guard episode == nil, held == nil, let turn = lateTurn(at: now) else { return false }
    subject.pulse.beginEpisode()
    subject.pulse.fence()
    guard subject.pulse.word == turn.word else {
      subject.pulse.cancelEpisode()
      return false
    }
    held = HeldTurn(turn: turn.word, start: turn.start, frozen: turn.frozen, found: now)
    noteUnseenTurn(turn.word)
    guard let capture, let sighting = sight(with: capture) else { return false }
    // What was read after the loop went on belongs to another moment.
    guard subject.pulse.word == turn.word, subject.pulse.episodeEnd == nil else { return false }
    held?.sighting = sighting
    return true
  }

  /// Begins the episode of the turn that is held, with what was seen then.
  func beginHeldEpisode(id: String, now: UInt64, with capture: ThreadCapture, resolver: FrameResolver) {
    guard let held else { return }
    self.held = nil
    beginEpisode(of: held, id: id, waited: now > held.found ? now - held.found : 0)
    resolver.namesFrames = namesFrames
    resolver.beginReport(isFirst: true)
    guard let sighting = held.sighting else {
      return add(Episode.Sample(activity: .unknown, cause: .unknown, stack: [], failure: .noMemory), at: held.found)
    }
    addSample(of: capture.moment(sighting), resolver: resolver, at: held.found)
  }
}
