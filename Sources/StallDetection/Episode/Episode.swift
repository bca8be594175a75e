import StallReport

/// One stall, from the first late moment to recovery: what was seen at each sample, weighted by the time it represents.
///
/// A sample represents the time of the turn that is nearer to it than to any other sample. (Were it the time since the sample before, the
/// last one could represent half of the stall, as the intervals grow.) But what the kernel counted decides how much of the time between
/// two samples the thread was ready to run, and how much it waited: time of a kind that neither sample has shown is represented by none.
package struct Episode: Sendable {
  package let id: String
  /// The turn that is late.
  package let turn: TurnWord
  /// When the turn began.
  package let start: Instant
  /// What the loop has called in the turn, if it reports that.
  package private(set) var callouts: CalloutTimes?
  // A shorter callout is not responsible for the turn.
  private let calloutLimit: UInt64
  // Samples of one callout, which is not known to have lasted for so long.
  private var undecided: [(sample: Sample, time: Instant, weight: UInt64)] = []
  // Stacks of the first samples that are not bunched together, with the number of the callout.
  private var spacedStacks: [(callout: UInt64, stack: [StackFrame])] = []
  package private(set) var sampleCount = 0
  // Without those that followed the first one at once.
  private var plannedCount = 0
  /// Time in which the whole process was stopped, and when the last of it was detected.
  package private(set) var frozen: UInt64
  private var frozenUntil: Instant
  /// What a hypervisor took from the machine's processors, from when the turn was found late to the last sample or the end.
  package var stolen: UInt64 = 0
  /// Other tasks waited for a thread at some sample.
  package private(set) var starves = false
  /// How long the first report had to wait for memory.
  package var memoryShortage: UInt64 = 0
  package private(set) var lastSampleTime: Instant
  // How much of the duration the samples represent.
  private var represented: UInt64 = 0
  // What had been counted, and stolen, at the sample before.
  private var counted: (thread: Int32, usage: ResourceUsage)?
  private var countedStolen: UInt64 = 0
  private var candidates: [Candidate] = []
  private(set) var causeWeights: [Cause: UInt64] = [:]
  // The latest of the samples that are recorded, which gains weight until the next.
  private var latest: (sample: Sample, time: Instant)?
  /// All stacks, merged.
  package private(set) var tree = CallTree()
  // The same without names, for the tool that adds them, and which node of it is which of the tree's; both once there are names.
  private var places: CallTree?
  private var nodes: [Int?] = []
  /// The first samples, at most ``summaryLimit``.
  package private(set) var summaries: [SampleSummary] = []

  // Samples of one function, of one kind of cause, and of one thread that was waited for.
  private struct Candidate: Sendable {
    var key: String
    var kind: Cause
    var weight: UInt64
    var sample: Sample
    // When that was taken.
    var time: Instant

    init(_ sample: Sample, weight: UInt64, time: Instant) {
      (key, kind, self.weight, self.sample) = (sample.functionKey, sample.cause.kind, weight, sample)
      self.time = time
    }

    /// Adds the time of another one that it represents.
    ///
    /// The latest sample of a kind represents it: its state and its callout are the nearest to now. But not without the other threads:
    /// they are not captured each time.
    mutating func add(_ other: Candidate) {
      weight += other.weight
      if other.time > time, other.sample.isSweep || !sample.isSweep { (sample, time) = (other.sample, other.time) }
    }

    func hasFunction(of other: Candidate) -> Bool { key == other.key && kind == other.kind }

    func represents(_ other: Candidate) -> Bool {
      hasFunction(of: other) && sample.holder == other.sample.holder
    }
  }

  private static let spacedLimit = 40
  private static let candidateLimit = 32
  private static let summaryLimit = 256

  package init(
    id: String, turn: TurnWord, start: Instant, frozen: UInt64 = 0, frozenUntil: Instant = .zero,
    threshold: UInt64 = 0
  ) {
    calloutLimit = threshold / 2
    self.frozen = frozen
    self.frozenUntil = frozenUntil
    self.id = id
    self.turn = turn
    self.start = start
    lastSampleTime = start
  }

  /// How long the loop has been blocked, without the time in which the whole process was stopped.
  package func duration(at time: Instant) -> UInt64 {
    let whole = time.since(start)
    return whole > frozen ? whole - frozen : 0
  }

  /// Adds time in which the whole process was stopped, detected now.
  package mutating func addFreeze(_ duration: UInt64, at now: Instant) {
    guard duration > 0 else { return }
    frozen += duration
    frozenUntil = now
  }

  /// Adds what was seen at `time`.
  ///
  /// `isPlanned` is false of one that is taken right after the first. `callouts` is what the loop had called by then, `usage` what the kernel
  /// had counted in the turn for the sample's thread, and `beginning` what is known of the turn before that was counted.
  package mutating func add(
    _ sample: Sample, at time: Instant, isPlanned: Bool = true, callouts: CalloutTimes? = nil,
    usage: ResourceUsage? = nil, beginning: TurnBeginning? = nil
  ) {
    let interval = represent(until: time, atLeast: 1)
    var sample = sample
    sample.judge(usage)
    let shares = shares(of: interval, before: sample, usage, beginning)
    addToLatest(shares.earlier)
    lastSampleTime = time
    sampleCount += 1
    if sample.starves { starves = true }
    note(callouts, at: time, isOver: false)
    sample.calloutNumber = callouts?.count ?? 0
    if let callouts, !isLong(callouts.count, callouts, at: time) {
      // Time between samples of short callouts is as little one function's as theirs.
      let weight = shares.later + SampleShares.time(of: shares.unseen)
      if undecided.count < Self.candidateLimit { undecided.append((sample, time, weight)) }
    } else {
      record(shares.unseen, at: time)
      record(sample, at: time, weight: shares.later)
    }
    guard isPlanned else { return }
    plannedCount += 1
    if spacedStacks.count < Self.spacedLimit { spacedStacks.append((sample.calloutNumber, sample.stack)) }
  }

  /// Records the loop's callouts so far, and so which samples show a responsible callout.
  ///
  /// `usage` is what the kernel has counted for the last sample's thread, from when the turn was first seen until after `time`.
  package mutating func note(_ callouts: CalloutTimes?, at time: Instant, isOver: Bool, usage: ResourceUsage? = nil) {
    if let callouts { self.callouts = callouts }
    if isOver { addRest(until: time, usage) }
    guard let known = self.callouts, let number = undecided.first?.sample.calloutNumber else { return }
    let isLong = isLong(number, known, at: time)
    guard isLong || isOver || known.count != number else { return }
    let decided = undecided
    undecided = []
    for (sample, time, weight) in decided {
      record(isLong ? sample : sample.withoutFunction(.shortCallouts), at: time, weight: weight)
    }
  }

  /// Whether one of the callouts is known to have lasted for half of the threshold, by `time`.
  private func isLong(_ number: UInt64, _ callouts: CalloutTimes, at time: Instant) -> Bool {
    if number == callouts.count {
      return callouts.age >= calloutLimit + (time - callouts.age < frozenUntil ? frozen : 0)
    }
    return number == callouts.longestNumber && callouts.longest >= calloutLimit + frozen
  }

  private mutating func record(_ unseen: [SampleShares.Unseen], at time: Instant) {
    for part in unseen { record(.unseen(part.cause), at: time, weight: part.time, isSample: false) }
  }

  private mutating func record(_ sample: Sample, at time: Instant, weight: UInt64, isSample: Bool = true) {
    if isSample { latest = (sample, time) }
    let node = weigh(sample, weight, samples: isSample ? 1 : 0, at: isSample ? time : .zero)
    guard summaries.count < Self.summaryLimit else { return }
    summaries.append(
      SampleSummary(
        after: time.since(start), weight: weight, cause: sample.cause, wait: sample.wait, node: node,
        failure: sample.failure))
  }

  /// What of the time between two samples, or before the first one, each of them represents.
  private mutating func shares(
    of interval: UInt64, before sample: Sample, _ usage: ResourceUsage?, _ beginning: TurnBeginning?
  ) -> SampleShares {
    let earlier = undecided.last?.sample ?? latest?.sample
    let change =
      counted?.thread == sample.thread
      ? counted.flatMap { usage?.since($0.usage) } : earlier == nil ? usage : nil
    counted = sample.thread.flatMap { thread in usage.map { (thread, $0) } }
    countedStolen = stolen
    // Time for which a thread waits for a processor is counted when it has got one: it had one if it has a stack.
    let isCounted = sample.isReady == false || !sample.stack.isEmpty
    return SampleShares(
      of: interval, isFirst: earlier == nil, wasReady: earlier?.isReady, isReady: isCounted ? sample.isReady : nil,
      change, beginning: beginning)
  }

  /// Shares the time from the last sample to the end.
  private mutating func addRest(until time: Instant, _ usage: ResourceUsage?) {
    let rest = represent(until: time)
    guard undecided.isEmpty else { return addToLatest(rest) }
    let change = counted.flatMap { $0.thread == latest?.sample.thread ? usage?.since($0.usage) : nil }
    let shares = SampleShares(
      after: rest, wasReady: latest?.sample.isReady, change, stolen: stolen > countedStolen ? stolen - countedStolen : 0
    )
    addToLatest(shares.earlier)
    record(shares.unseen, at: time)
  }

  /// The part of the duration that the samples do not represent yet, as if they did from now on.
  private mutating func represent(until time: Instant, atLeast least: UInt64 = 0) -> UInt64 {
    let whole = max(duration(at: time), represented + least)
    defer { represented = whole }
    return whole - represented
  }

  /// Has the sample before represent more time.
  private mutating func addToLatest(_ time: UInt64) {
    if let last = undecided.indices.last {
      undecided[last].weight += time
    } else if let latest {
      weigh(latest.sample, time, samples: 0, at: latest.time)
      if let last = summaries.indices.last, summaries[last].after == latest.time.since(start) {
        summaries[last].weight += time
      }
    }
  }

  /// Counts time for what a sample has shown at `time`; `samples` is 0 for more time of one that has been counted.
  ///
  /// Returns the node of its stack.
  @discardableResult
  private mutating func weigh(_ sample: Sample, _ weight: UInt64, samples: Int, at time: Instant) -> Int? {
    if sample.failure != .shortCallouts { causeWeights[sample.cause, default: 0] += weight }
    let node = tree.add(sample.stack, weight: weight, samples: samples)
    let new = Candidate(sample, weight: weight, time: time)
    if let index = candidates.firstIndex(where: { $0.represents(new) }) {
      candidates[index].add(new)
    } else {
      if candidates.count == Self.candidateLimit { makeSpace() }
      candidates.append(new)
    }
    return node
  }

  /// Removes the lightest candidate: its time goes to another one of the same function, if any has that.
  private mutating func makeSpace() {
    func another(than index: Int) -> Int? {
      candidates.indices.filter { $0 != index && candidates[$0].hasFunction(of: candidates[index]) }.max(by: lighter)
    }
    let ofSharedFunctions = candidates.indices.filter { another(than: $0) != nil }
    if let lightest = ofSharedFunctions.min(by: lighter), let heir = another(than: lightest) {
      candidates[heir].weight += candidates[lightest].weight
      candidates.remove(at: lightest)
    } else if let lightest = candidates.indices.min(by: lighter) {
      candidates.remove(at: lightest)
    }
  }

  /// Names the frames of all samples, and merges what the names show to be one function.
  ///
  /// - Parameters:
  ///   - names: The frames of a stack, with their names.
  ///   - complete: Completes a sample by the names of its stack.
  package mutating func name(_ names: ([StackFrame]) -> [StackFrame], complete: (inout Sample) -> Void = { _ in }) {
    places = tree
    (tree, nodes) = tree.named { names([$0]) }
    for index in spacedStacks.indices { spacedStacks[index].stack = names(spacedStacks[index].stack) }
    var merged: [Candidate] = []
    for var candidate in candidates {
      candidate.sample.stack = names(candidate.sample.stack)
      for index in candidate.sample.threads.indices {
        candidate.sample.threads[index].stack = names(candidate.sample.threads[index].stack)
      }
      complete(&candidate.sample)
      candidate.key = candidate.sample.functionKey
      if let index = merged.firstIndex(where: { $0.represents(candidate) }) {
        merged[index].add(candidate)
      } else {
        merged.append(candidate)
      }
    }
    candidates = merged
  }

  /// Forgets the stacks: there is no space for them.
  package mutating func dropStacks() {
    let last = heaviest?.withoutFunction(.noRoom)
    (candidates, spacedStacks, summaries, tree) = ([], [], [], CallTree())
    if let last { candidates = [Candidate(last, weight: 1, time: lastSampleTime)] }
  }

  /// How much memory it takes, in bytes: an estimate.
  package var size: Int {
    let stacks = candidates.reduce(0) { $1.sample.threads.reduce($0 + $1.sample.stack.count) { $0 + $1.stack.count } }
    let frames = stacks + spacedStacks.reduce(0) { $0 + $1.stack.count } + tree.nodes.count
    return 1024 + frames * MemoryLayout<StackFrame>.stride
  }

  /// The function that a sample shows, by name.
  package func culprit(of summary: SampleSummary) -> String? {
    guard let node = summary.node, let named = nodes.isEmpty ? node : nodes[node] else { return nil }
    return Culprit.frame(of: tree.stack(of: named))?.name
  }

  /// Whether one of the samples that represent the stall's functions is such a one.
  package func hasSample(where isOne: (Sample) -> Bool) -> Bool { candidates.contains { isOne($0.sample) } }

  /// Whether the next sample includes other threads: the 1st, 2nd, 4th, 8th and so on.
  package var isSweepDue: Bool { (plannedCount + 1) & plannedCount == 0 }

  /// The sample that represents the stall: of those that show its cause, one of the responsible function with the most time.
  ///
  /// A sample with a stack is preferred. No function is responsible if the turn consisted of many
  /// short pieces of work: then the sampled functions are there by chance. Nor is one if most of the cause's time was between samples.
  package var heaviest: Sample? {
    if candidates.isEmpty { return undecided.last?.sample.withoutFunction(.shortCallouts) }
    let kind = cause.kind
    var from = candidates.indices.filter { candidates[$0].kind == kind }
    if from.isEmpty { from = Array(candidates.indices) }
    let whole = from.reduce(0) { $0 + candidates[$1].weight }
    if let unseen = from.first(where: { candidates[$0].sample.failure == .notSampled }),
      candidates[unseen].weight > whole / 2
    {
      return latest?.sample.withoutFunction(.notSampled) ?? candidates[unseen].sample
    }
    let withStack = from.filter { !candidates[$0].sample.stack.isEmpty }
    let named = withStack.isEmpty ? from : withStack
    // The function first, and then the thread that it waited for most.
    func rank(_ index: Int) -> (UInt64, UInt64) {
      let ofFunction = named.filter { candidates[$0].key == candidates[index].key }
      return (ofFunction.reduce(0) { $0 + candidates[$1].weight }, candidates[index].weight)
    }
    guard let sample = named.max(by: { rank($0) < rank($1) }).map({ candidates[$0].sample }) else { return nil }
    let stacks = spacedStacks.filter { $0.callout == sample.calloutNumber }.map(\.stack)
    return Culprit.disagree(stacks) ? sample.withoutFunction(.noCommonFunction) : sample
  }

  /// For how much of the sampled time a cause was seen; nil for none of it.
  package func weight(of cause: Cause) -> UInt64? { causeWeights[cause] }

  /// The cause that took the most time.
  package var cause: Cause {
    StallEvidence(activity: .unknown, failure: nil, usage: nil, duration: 0, shares: causeWeights).largestShare
  }

  /// All samples without names; nil if there is but one, whose stack a line has.
  package var unnamedSamples: UnnamedCallTree? { sampleCount > 1 ? UnnamedCallTree(places ?? tree) : nil }

  private func lighter(_ a: Int, _ b: Int) -> Bool { candidates[a].weight < candidates[b].weight }
}

extension Cause {
  /// The causes of a thread that is ready to run are one kind: samples of one function may have any of them.
  fileprivate var kind: Cause { isReady ? .running : self }
}
