// Stalls that compute, in Swift: closures, generics, protocols, classes and the standard library at work.
import Foundation

// Unsafe: the stalled thread's alone.
nonisolated(unsafe) var result: UInt64 = 0

/// About a millisecond of work, which an optimizer cannot shorten.
///
/// Each loop works differently: the optimizer merges functions of the same code.
let rounds = 400_000

let computing: [String: @Sendable () -> Void] = [
  "leaf": stallLeaf, "closure": stallClosure, "genericFunction": stallGenericFunction, "protocolWitness": stallProtocol,
  "method": stallMethod, "deinitializer": stallDeinitializer, "property": stallProperty, "lazyGlobal": stallLazyGlobal,
  "inlined": stallInlined, "sortClosure": stallSortClosure, "sorting": stallSorting, "dictionary": stallDictionary,
  "text": stallText, "array": stallArray, "json": stallJSON, "recursion": stallRecursion, "structure": stallStructure,
  "extensionMethod": stallExtension, "mapClosure": stallMapClosure, "throwing": stallThrowing,
  "sameCode": stallSameCode,
]

@inline(never)
func mixWords(_ start: UInt64) -> UInt64 {
  var x = start
  for _ in 0..<rounds {
    x ^= x << 13
    x ^= x >> 7
    x ^= x << 17
  }
  return x
}

// stall leaf: running in stalls.mixWords(Swift.UInt64) -> Swift.UInt64
@inline(never)
func stallLeaf() {
  var x: UInt64 = 1
  while !isLate() { x = mixWords(x) }
  result = x
}

@inline(never)
func repeatedly(_ action: (UInt64) -> UInt64) {
  while !isLate() { result = action(result | 1) }
}

// A closure that is specialized for its caller is still the closure; without debug information its caller may be all that is
// known.
// stall closure: running in closure #1 (Swift.UInt64) -> Swift.UInt64 in stalls.stallClosure() -> ()
//   optimized nodebug: stalls.repeatedly((Swift.UInt64) -> Swift.UInt64) -> ()
@inline(never)
func stallClosure() {
  repeatedly { start in
    var x = start
    for _ in 0..<rounds {
      x ^= x << 13
      x ^= x >> 7
      x |= 1
    }
    return x
  }
}

@inline(never)
func spin<Number: FixedWidthInteger>(_ start: Number) -> Number {
  var x = start
  for _ in 0..<(rounds / 20) {
    x ^= x << 13
    x = x &+ 99
    x ^= x >> 7
  }
  return x
}

// stall genericFunction: running in stalls.spin<A where A: Swift.FixedWidthInteger>(A) -> A
@inline(never)
func stallGenericFunction() {
  var x: UInt64 = 1
  while !isLate() { x = spin(x) }
  result = x
}

protocol Shape {
  func area(_ x: UInt64) -> UInt64
}
struct Polygon: Shape {
  @inline(never)
  func area(_ start: UInt64) -> UInt64 {
    var x = start
    for _ in 0..<rounds {
      x ^= x << 13
      x = ~x
      x = x &* 5
    }
    return x
  }
}
@inline(never)
func measure(_ shape: any Shape) -> UInt64 {
  var x: UInt64 = 3
  while !isLate() { x = shape.area(x) }
  return x
}

// stall protocolWitness: running in stalls.Polygon.area(Swift.UInt64) -> Swift.UInt64
//   known by stalls.measure(stalls.Shape) -> Swift.UInt64
@inline(never)
func stallProtocol() { result = measure(Polygon()) }

class Engine {
  @inline(never)
  func turn(_ start: UInt64) -> UInt64 {
    var x = start
    for _ in 0..<rounds {
      x ^= x << 13
      x |= 1
      x = x &+ 99
    }
    return x
  }
}

// stall method: running in stalls.Engine.turn(Swift.UInt64) -> Swift.UInt64
@inline(never)
func stallMethod() {
  let engine = Engine()
  while !isLate() { result = engine.turn(result | 1) }
}

final class Graph {
  var seed: UInt64 = 5
  deinit {
    var x = seed
    while !isLate() {
      for _ in 0..<rounds {
        x ^= x << 13
        x ^= x >> 7
        x = x &+ 99
        x = x &* 5
      }
    }
    result = x
  }
}
@inline(never)
func makeGraph() -> Graph { Graph() }

// stall deinitializer: running in stalls.Graph.deinit | stalls.Graph.__deallocating_deinit
@inline(never)
func stallDeinitializer() {
  let graph = makeGraph()
  result = graph.seed
}

struct Catalog {
  var seed: UInt64
  var size: UInt64 {
    @inline(never) get {
      var x = seed
      for _ in 0..<rounds {
        x ^= x << 13
        x ^= x >> 7
        x = ~x
        x |= 1
      }
      return x
    }
  }
}

// stall property: running in stalls.Catalog.size.getter : Swift.UInt64
@inline(never)
func stallProperty() {
  var catalog = Catalog(seed: 3)
  while !isLate() { catalog.seed = catalog.size }
  result = catalog.seed
}

let table: UInt64 = loadTable()
@inline(never)
func loadTable() -> UInt64 {
  var x: UInt64 = 9
  while !isLate() { x = mixWords(x) }
  return x
}

// stall lazyGlobal: running in stalls.mixWords(Swift.UInt64) -> Swift.UInt64
@inline(never)
func stallLazyGlobal() { result = table }

@inline(__always)
func smooth(_ start: UInt64) -> UInt64 {
  var x = start
  for i in 0..<rounds {
    x ^= x << 13
    x = x &* 5
    x ^= x >> 7
    x = ~x
    x = x &+ UInt64(truncatingIfNeeded: i)
  }
  return x
}

// stall inlined: running in stalls.smooth(Swift.UInt64) -> Swift.UInt64
//   nodebug: stalls.stallInlined() -> ()
@inline(never)
func stallInlined() {
  var x: UInt64 = 1
  while !isLate() { x = smooth(x) }
  result = x
}

@inline(never)
func sortSlowly(_ words: [UInt64]) -> [UInt64] {
  words.sorted { a, b in mixWords(a | 1) & 1 == 0 ? a < b : a <= b }
}

// stall sortClosure: running in stalls.mixWords(Swift.UInt64) -> Swift.UInt64
@inline(never)
func stallSortClosure() {
  let words = (0..<20).map { UInt64($0) &* 0x9E37_79B9_7F4A_7C15 }
  while !isLate() { result = sortSlowly(words)[0] }
}

@inline(never)
func sortTexts(_ texts: [String]) -> Int { texts.sorted()[0].count }

// stall sorting: running in stalls.sortTexts(Swift.Array<Swift.String>) -> Swift.Int
@inline(never)
func stallSorting() {
  let texts = (0..<4000).map { "text number \(($0 &* 7919) % 4000)" }
  while !isLate() { result = UInt64(sortTexts(texts)) }
}

@inline(never)
func countWords(_ words: [String]) -> Int {
  var counts: [String: Int] = [:]
  for word in words { counts[word, default: 0] += 1 }
  return counts.count
}

// stall dictionary: running in stalls.countWords(Swift.Array<Swift.String>) -> Swift.Int
@inline(never)
func stallDictionary() {
  let words = (0..<5000).map { "word number \(($0 &* 7919) % 3000)" }
  while !isLate() { result = UInt64(countWords(words)) }
}

@inline(never)
func buildText(_ count: Int) -> Int {
  var text = ""
  for i in 0..<count { text += "é\(i)" }
  return text.uppercased().utf8.count
}

// stall text: running in stalls.buildText(Swift.Int) -> Swift.Int
@inline(never)
func stallText() {
  while !isLate() { result = UInt64(buildText(5000)) }
}

@inline(never)
func insertAtFront(_ count: Int) -> Int {
  var words: [UInt64] = []
  for i in 0..<count { words.insert(UInt64(i), at: 0) }
  return words.count
}

// stall array: running in stalls.insertAtFront(Swift.Int) -> Swift.Int
@inline(never)
func stallArray() {
  while !isLate() { result = UInt64(insertAtFront(8000)) }
}

@inline(never)
func parse(_ data: Data) -> Int { ((try? JSONSerialization.jsonObject(with: data)) as? [Any])?.count ?? 0 }

// stall json: running in stalls.parse(Foundation.Data) -> Swift.Int | stalls.parse(FoundationEssentials.Data) -> Swift.Int
@inline(never)
func stallJSON() {
  let text = "[" + (0..<1000).map { "{\"number\": \($0), \"text\": \"value \($0)\"}" }.joined(separator: ",") + "]"
  let data = Data(text.utf8)
  while !isLate() { result = UInt64(parse(data)) }
}

@inline(never)
func countCalls(_ n: UInt64) -> UInt64 { n < 2 ? n + 1 : countCalls(n - 1) &+ countCalls(n - 2) }

// stall recursion: running in stalls.countCalls(Swift.UInt64) -> Swift.UInt64
@inline(never)
func stallRecursion() {
  while !isLate() { result = countCalls(25 + result & 1) }
}

struct Money {
  var amount: UInt64
  @inline(never)
  static func * (money: Money, factor: UInt64) -> Money {
    var x = money.amount
    for _ in 0..<rounds {
      x ^= x << 13
      x = x &* 5
      x = ~x
      x ^= x >> 7
    }
    return Money(amount: x &+ factor)
  }
}

// stall structure: running in static stalls.Money.* infix(stalls.Money, Swift.UInt64) -> stalls.Money
@inline(never)
func stallStructure() {
  var money = Money(amount: 1)
  while !isLate() { money = money * 3 }
  result = money.amount
}

extension String {
  @inline(never)
  func digest(_ start: UInt64) -> UInt64 {
    var x = start
    for _ in 0..<rounds {
      x ^= x << 13
      x = x &* 5
      x |= 1
      x = ~x
    }
    return x
  }
}

// stall extensionMethod: running in (extension in stalls):Swift.String.digest(Swift.UInt64) -> Swift.UInt64
@inline(never)
func stallExtension() {
  while !isLate() { result = "text".digest(result | 1) }
}

@inline(never)
func transform(_ words: [UInt64]) -> [UInt64] {
  words.map { start in
    var x = start | 1
    for _ in 0..<rounds {
      x ^= x << 13
      x = x &+ 99
      x = x &* 5
      x = ~x
    }
    return x
  }
}

// The closure is inlined into the library's map, and both into the function.
// stall mapClosure: running in closure #1 (Swift.UInt64) -> Swift.UInt64 in stalls.transform(Swift.Array<Swift.UInt64>) -> Swift.Array<Swift.UInt64>
//   optimized nodebug: stalls.transform(Swift.Array<Swift.UInt64>) -> Swift.Array<Swift.UInt64>
@inline(never)
func stallMapClosure() {
  while !isLate() { result = transform([1, 2, result])[0] }
}

struct Refused: Error {}
@inline(never)
func refuse(_ start: UInt64) throws -> UInt64 {
  let x = mixWords(start)
  if x & 1 == 0 { throw Refused() }
  return x
}

// stall throwing: running in stalls.mixWords(Swift.UInt64) -> Swift.UInt64
@inline(never)
func stallThrowing() {
  while !isLate() { result = ((try? refuse(result | 1)) ?? 7) | 1 }
}

@inline(never)
func firstCopy(_ start: UInt64) -> UInt64 {
  var x = start
  for _ in 0..<rounds { x = (x &* 7) ^ (x >> 9) ^ 3 }
  return x
}
@inline(never)
func secondCopy(_ start: UInt64) -> UInt64 {
  var x = start
  for _ in 0..<rounds { x = (x &* 7) ^ (x >> 9) ^ 3 }
  return x
}

// Of merged functions it is not known which one ran, so their caller is responsible; where the optimizer does not mark them, it is
// the other one (Tests/Corpus/fingerprints says so).
// stall sameCode: running in stalls.secondCopy(Swift.UInt64) -> Swift.UInt64
//   optimized: stalls.stallSameCode() -> ()
//   optimized: stalls.firstCopy(Swift.UInt64) -> Swift.UInt64
@inline(never)
func stallSameCode() {
  if result == 1 { result = firstCopy(3) }
  while !isLate() { result = secondCopy(result | 2) }
}
