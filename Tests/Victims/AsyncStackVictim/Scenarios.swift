import Dispatch
import Glibc

/// Each starts a task that ends in ``keepThread()``.
///
/// A function whose name begins with `await` is one that waits when the stack is taken.
let scenarios: [String: @Sendable () -> Void] = [
  "actor": { Task { await awaitRoute(3) } },
  "plain": { Task { await awaitPlain() } },
  "inlined": { Task { await awaitInlined() } },
  "resumed": { Task { await awaitResumed() } },
  "async-let": { Task { await withAsyncLet() } },
  "group": { Task { await withGroup() } },
  "stream": { Task { await awaitStream() } },
  "continuation": { Task { await awaitContinuation() } },
  "throwing": { Task { try await awaitThrowing() } },
  "generic": { Task { _ = await awaitGeneric([1, 2, 3]) } },
  "generic-buffer": { Task { await awaitOpaque(Wide()) } },
  "witness": { Task { await awaitWitness(Service()) } },
  "closure": { Task { await awaitClosure { await awaitInClosure() } } },
  "main-actor": { Task { await awaitMainActor() } },
  "recursion": { Task { _ = await recurse(200) } },
  "immediate": { Task.immediate { await awaitPlain() } },
  "detached": { Task.detached(priority: .background) { await awaitPlain() } },
  "bottom": { Task { keepThread() } },
  "local": { Task { await awaitLocal() } },
  "nested": { Task { await awaitNested() } },
  "no-task": { DispatchQueue.global().async { keepThread() } },
]

// MARK: An actor

actor Store {
  private var count = 0

  func load(_ key: Int) async -> Int {
    count += key
    keepThread()
    return count
  }
}

let store = Store()

@inline(never)
func awaitRoute(_ key: Int) async {
  print("", terminator: "")
  if await awaitHandle(key) > 3 { print("", terminator: "") }
}

@inline(never)
func awaitHandle(_ key: Int) async -> Int { await store.load(key) + 1 }

// MARK: Functions

@inline(never)
func awaitPlain() async {
  await keepDirectly()
  print("", terminator: "")
}

@inline(never)
func keepDirectly() async { keepThread() }

/// Says in which line it waits, and in which the function does that is inlined into it.
@inline(never)
func awaitInlined() async {
  print("line awaitInlined", #line + 1)
  await awaitInside()
  print("", terminator: "")
}

@inline(__always)
func awaitInside() async {
  print("line awaitInside", #line + 1)
  await keepDirectly()
  print("", terminator: "")
}

@inline(never)
func awaitResumed() async {
  await resumeAndKeep()
  print("", terminator: "")
}

/// Keeps the thread after an earlier call.
@inline(never)
func resumeAndKeep() async {
  await Task.yield()
  await shortCall()
  keepThread()
  await shortCall()
}

@inline(never)
func shortCall() async { print("", terminator: "") }

@inline(never)
func awaitThrowing() async throws {
  do { try await throwingKeep() } catch { print("", terminator: "") }
}

@inline(never)
func throwingKeep() async throws {
  keepThread()
  throw CancellationError()
}

@inline(never)
func awaitGeneric<Items: Collection & Sendable>(_ items: Items) async -> Items.Element? where Items.Element: Sendable {
  let first = await keepGeneric(items, items.first)
  return first ?? items.first
}

@inline(never)
func keepGeneric<Items: Collection & Sendable, Value: Sendable>(_ items: Items, _ value: Value) async -> Value {
  let copy = value
  await shortCall()
  let other = copy
  keepThread()
  return items.isEmpty ? copy : other
}

/// A value of a size that its generic users do not know.
struct Wide: Sendable {
  var numbers = (1, 2, 3, 4, 5, 6, 7, 8)
}

@inline(never)
@_semantics("optimize.sil.specialize.generic.never")
func awaitOpaque<Value: Sendable>(_ value: Value) async {
  let result = await keepOpaque(value) {
    keepThread()
    return value
  }
  print(result)
}

/// Has memory of the task for values while the thread is kept, where other functions have had their contexts.
@inline(never)
@_semantics("optimize.sil.specialize.generic.never")
func keepOpaque<Value: Sendable>(_ value: Value, _ make: () -> Value) async -> Value {
  await shortOpaque(value)
  await shortOpaque(value)
  let made = make()
  await shortOpaque(made)
  return made
}

@inline(never)
@_semantics("optimize.sil.specialize.generic.never")
func shortOpaque<Value: Sendable>(_ value: Value) async {
  await shortCall()
  print(value, terminator: "")
}

protocol Handler: Sendable {
  func serve(_ number: Int) async -> Int
}

struct Service: Handler {
  func serve(_ number: Int) async -> Int {
    keepThread()
    return number
  }
}

@inline(never)
func awaitWitness(_ handler: any Handler) async {
  if await handler.serve(3) > 3 { print("", terminator: "") }
}

@inline(never)
func awaitClosure(_ body: @Sendable () async -> Void) async {
  await body()
  print("", terminator: "")
}

@inline(never)
func awaitInClosure() async {
  await keepDirectly()
  print("", terminator: "")
}

@inline(never)
func recurse(_ depth: Int) async -> Int {
  if depth == 0 { keepThread() }
  return depth == 0 ? 0 : await recurse(depth - 1) + 1
}

@inline(never)
func awaitNested() async {
  await beginNested()
  print("", terminator: "")
}

/// Runs another task before it returns.
@inline(never)
func beginNested() async { runAtOnce() }

@inline(never)
func runAtOnce() {
  Task.immediate { await awaitPlain() }
  print("", terminator: "")
}

// MARK: The library's

@inline(never)
func withAsyncLet() async {
  async let value = awaitHandle(4)
  print(await value)
}

@inline(never)
func withGroup() async {
  await withTaskGroup(of: Int.self) { group in
    group.addTask { await awaitHandle(5) }
    for await value in group { print(value) }
  }
}

@inline(never)
func awaitStream() async {
  let stream = AsyncStream<Int> { $0.yield(1) }
  for await value in stream { await awaitElement(value) }
}

@inline(never)
func awaitElement(_ value: Int) async {
  await keepDirectly()
  print(value)
}

@inline(never)
func awaitContinuation() async {
  let value = await withCheckedContinuation { continuation in
    keepThread()
    continuation.resume(returning: 3)
  }
  print(value)
}

enum Names {
  @TaskLocal static var request = "none"
}

@inline(never)
func awaitLocal() async {
  await Names.$request.withValue("one") { await awaitPlain() }
  print("", terminator: "")
}

@inline(never)
func awaitMainActor() async {
  await keepMainActor()
  print("", terminator: "")
}

@MainActor
@inline(never)
func keepMainActor() async { keepThread() }
