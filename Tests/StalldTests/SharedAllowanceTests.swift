import Testing

@testable import stalld

struct SharedAllowanceTests {
  @Test("the first owner gets half, the second a quarter, and some always remains")
  func shares() {
    var allowance = SharedAllowance<String>()
    func take(all owner: String) -> Int {
      var count = 0
      while allowance.take(for: owner, limit: 100) { count += 1 }
      return count
    }
    #expect(["a", "b", "c", "d"].map { take(all: $0) } == [50, 25, 13, 6])
    #expect(allowance.total == 94 && allowance.taken["b"] == 25)
    #expect(take(all: "a") == 0)
  }

  @Test func amountThatIsTooMuchIsNotTaken() {
    var allowance = SharedAllowance<String>()
    func isTaken(_ amount: Int, for owner: String) -> Bool { allowance.take(amount, for: owner, limit: 100) }
    #expect(!isTaken(101, for: "a"))
    #expect(allowance == SharedAllowance())
    #expect(isTaken(50, for: "a"))
    #expect(!isTaken(51, for: "b"))
    #expect(isTaken(50, for: "b"))
  }

  @Test func correctionIsNeverBelowNothing() {
    var allowance = SharedAllowance<String>()
    allowance.add(10, for: "a")
    allowance.add(5, for: "b")
    allowance.add(-20, for: "a")
    #expect(allowance.taken == ["b": 5] && allowance.total == 5)
  }
}
