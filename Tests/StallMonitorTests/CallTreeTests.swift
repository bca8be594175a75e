import StallReport
import Testing

@testable import StallMonitor

struct CallTreeTests {
  private func stack(_ names: String...) -> [StackFrame] { names.map { StackFrame(symbol: $0, module: "host") } }

  @Test func stacksAreMergedFromTheOutermostFrame() {
    var tree = CallTree()
    tree.add(stack("read", "load", "main"), weight: 30)
    tree.add(stack("parse", "load", "main"), weight: 60)
    tree.add(stack("idle", "main"), weight: 10)
    #expect(tree.total == 100)
    #expect(tree.nodes.count == 5)
    #expect(tree.nodes.first { $0.frame.symbol == "load" }?.weight == 90)
    #expect(tree.certainPath.path?.frames.map(\.name) == ["parse", "load", "main"])
    #expect(tree.certainPath.path?.share == 0.6)
  }

  @Test func pathEndsWhereTheTimeParts() {
    var tree = CallTree()
    for leaf in ["a", "b", "c"] { tree.add(stack(leaf, "load", "main"), weight: 10) }
    #expect(tree.certainPath.path?.frames.map(\.name) == ["load", "main"])
    #expect(tree.certainPath.path?.share == 1)
  }

  /// That half of the time was spent in one function of the system's and half in another does not
  /// make the service's own function less responsible.
  @Test func pathEndsWithTheHostsOwnCode() {
    var tree = CallTree()
    for (leaf, weight) in [("clock_gettime", UInt64(60)), ("malloc", 40)] {
      var system = StackFrame(symbol: leaf, module: "libc.so.6")
      system.owner = .system
      tree.add([system] + stack("compute", "main"), weight: weight)
    }
    #expect(tree.certainPath.path?.frames.map(\.name) == ["compute", "main"])
    #expect(tree.certainPath.path?.share == 1)
  }

  /// Functions that wait for an asynchronous call.
  private func waiting(_ names: String...) -> [StackFrame] {
    names.map {
      var frame = StackFrame(symbol: $0, module: "host")
      frame.isAsync = true
      return frame
    }
  }

  @Test func pathHasTheFunctionsThatWait() {
    var tree = CallTree()
    tree.add(stack("load", "job") + waiting("handle", "route"), weight: 90)
    tree.add(stack("load", "job") + waiting("other"), weight: 10)
    #expect(tree.certainPath.path?.frames.map(\.name) == ["load", "job", "handle", "route"])
  }

  @Test func pathOfTheCallsStaysWhereFunctionsThatWaitDiffer() {
    var tree = CallTree()
    for callers in [waiting("handle", "route"), waiting("other"), []] {
      tree.add(stack("load", "job") + callers, weight: 30)
    }
    #expect(tree.certainPath.path?.frames.map(\.name) == ["load", "job"])
    #expect(tree.certainPath.path?.share == 1)
  }

  /// Not each sample has them, so what most samples have in common is found without them.
  @Test func functionsThatWaitDoNotChangeTheCommonFunction() {
    let stacks = [stack("mix", "work", "job"), stack("hash", "work", "job"), stack("mix", "work", "job")]
    let callers = [waiting("handle", "route"), [], waiting("other")]
    var (without, with) = (CallTree(), CallTree())
    for (stack, callers) in zip(stacks, callers) {
      without.add(stack, weight: 10)
      with.add(stack + callers, weight: 10)
    }
    #expect(without.certainCommonFrame.frame?.symbol == "mix")
    #expect(with.certainCommonFrame.frame?.symbol == "mix")
    #expect(with.certainCommonFrame.isCertain)
  }

  @Test func functionThatWaitsAndRunsIsTwoNodes() {
    var tree = CallTree()
    tree.add(stack("f", "job") + waiting("f"), weight: 5)
    tree.add(stack("f"), weight: 5)
    #expect(tree.roots.count == 2)
  }

  @Test func recursionIsAFrameForEachLevel() {
    var tree = CallTree()
    tree.add(stack("f", "f", "f", "main"), weight: 5)
    #expect(tree.nodes.count == 4)
  }

  @Test func whatIsWithoutANameMayBeAnyFunctionOfItsModule() {
    func unnamed(_ offset: UInt64, in module: String = "host") -> StackFrame {
      StackFrame(module: module, offset: offset)
    }
    func isCertain(_ leaves: [StackFrame]) -> Bool {
      var tree = CallTree()
      for leaf in leaves { tree.add([leaf] + stack("work", "main"), weight: 10) }
      #expect(tree.certainCommonFrame.frame?.symbol == "work")
      return tree.certainCommonFrame.isCertain && tree.certainPath.isCertain
    }
    let (a, b, c) = (stack("a")[0], stack("b")[0], stack("c")[0])
    #expect(isCertain([a, b, c]))
    #expect(isCertain([a, b, c, unnamed(1), b, c, a]))
    #expect(!isCertain([a, b, unnamed(1)]), "it may be a or b")
    #expect(!isCertain([a, unnamed(1), unnamed(2)]))
    #expect(isCertain([a, b, unnamed(1, in: "other")]), "it is neither")
    #expect(!isCertain([a, unnamed(1, in: "other"), unnamed(2, in: "other")]))
  }

  @Test func libraryWithoutANameIsAWayOn() {
    var tree = CallTree()
    for offset: UInt64 in 1...3 {
      var library = StackFrame(module: "libc.so.6", offset: offset)
      library.owner = .system
      tree.add([library] + stack("work", "main"), weight: 10)
    }
    #expect(tree.certainCommonFrame.frame?.symbol == "work")
    #expect(tree.certainCommonFrame.isCertain)
  }

  @Test func whatHasNoSpaceIsInDoubt() {
    var tree = CallTree()
    for index in 0..<3000 { tree.add(stack("leaf \(index)", "main"), weight: 1) }
    #expect(tree.cut.samples == 0)
    #expect(tree.nodes[0].cut.samples == 3000 - CallTree.nodeLimit + 1)
    #expect(tree.certainCommonFrame.frame?.symbol == "main")
    #expect(tree.certainCommonFrame.isCertain)
    for _ in 0..<1200 { tree.add(stack("another", "main"), weight: 1) }
    #expect(!tree.certainCommonFrame.isCertain, "they may be the same")
  }

  @Test func emptyTreeHasNoPath() {
    var tree = CallTree()
    tree.add([], weight: 5)
    #expect(tree.certainPath.path == nil)
    #expect(tree.total == 0)
  }

  @Test func treeIsBounded() {
    var tree = CallTree()
    for index in 0..<3000 { tree.add(stack("leaf \(index)", "main"), weight: 1) }
    #expect(tree.nodes.count == CallTree.nodeLimit)
    #expect(tree.total == 3000)
    #expect(tree.certainPath.path?.frames.map(\.name) == ["main"])
  }
}
