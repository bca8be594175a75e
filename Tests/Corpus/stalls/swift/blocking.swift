// Stalls that wait, in Swift: Foundation's locks, GCD, Mutex, semaphores, sleeps and descriptors.
import Dispatch
import Foundation
import Synchronization

let stallTime = 0.25

let blocking: [String: @Sendable () -> Void] = [
  "threadSleep": stallThreadSleep, "closureSleep": stallClosureSleep, "genericSleep": stallGenericSleep,
  "deinitSleep": stallDeinitSleep, "lock": stallLock, "recursiveLock": stallRecursiveLock, "mutex": stallMutex,
  "semaphore": stallSemaphore, "queue": stallQueue, "group": stallGroup, "condition": stallCondition,
  "pipe": stallPipe, "process": stallProcess, "taskAndSemaphore": stallTask, "witnessSleep": stallWitnessSleep,
]

@inline(never)
func sleepWell() -> UInt64 {
  Thread.sleep(forTimeInterval: stallTime)
  return result + 1
}

// stall threadSleep: sleep in stalls.sleepWell() -> Swift.UInt64
@inline(never)
func stallThreadSleep() { result = sleepWell() }

@inline(never)
func perform(_ action: () -> UInt64) -> UInt64 { action() &+ 1 }

// stall closureSleep: sleep in closure #1 () -> Swift.UInt64 in stalls.stallClosureSleep() -> ()
//   optimized nodebug: stalls.perform(() -> Swift.UInt64) -> Swift.UInt64
@inline(never)
func stallClosureSleep() {
  result = perform {
    usleep(250_000)
    return result + 1
  }
}

@inline(never)
func retry<Value: Numeric>(_ value: Value) -> Value {
  usleep(250_000)
  return value * value
}

// stall genericSleep: sleep in stalls.retry<A where A: Swift.Numeric>(A) -> A
@inline(never)
func stallGenericSleep() { result = retry(result + 2) }

final class Connection {
  var count: UInt64 = 1
  deinit {
    usleep(250_000)
    result = count
  }
}
@inline(never)
func connect() -> Connection { Connection() }

// stall deinitSleep: sleep in stalls.Connection.deinit | stalls.Connection.__deallocating_deinit
@inline(never)
func stallDeinitSleep() {
  let connection = connect()
  result = connection.count
}

protocol Waiting {
  func wait() -> UInt64
}
struct Waiter: Waiting {
  var seed: UInt64
  @inline(never)
  func wait() -> UInt64 {
    usleep(250_000)
    return seed &+ result
  }
}
@inline(never)
func waitFor(_ waiting: any Waiting) -> UInt64 { waiting.wait() &+ 1 }

// stall witnessSleep: sleep in stalls.Waiter.wait() -> Swift.UInt64
@inline(never)
func stallWitnessSleep() { result = waitFor(Waiter(seed: result)) }

let lock = NSLock()
@inline(never)
func appendToJournal() {
  lock.lock()
  result += 1
  lock.unlock()
}

// stall lock: lock in stalls.appendToJournal() -> (), held by lock-keeper
@inline(never)
func stallLock() {
  meanwhile("lock-keeper", { lock.lock() }, { lock.unlock() })
  appendToJournal()
}

let recursiveLock = NSRecursiveLock()
@inline(never)
func updateJournal() -> UInt64 {
  recursiveLock.withLock { result &* 3 &+ 1 }
}

// stall recursiveLock: lock in stalls.updateJournal() -> Swift.UInt64, held by lock-keeper
@inline(never)
func stallRecursiveLock() {
  meanwhile("lock-keeper", { recursiveLock.lock() }, { recursiveLock.unlock() })
  result = updateJournal()
}

let balance = Mutex<UInt64>(0)
@inline(never)
func deposit() -> UInt64 {
  balance.withLock { amount in
    amount += 1
    return amount
  }
}

// stall mutex: lock in stalls.deposit() -> Swift.UInt64, held by mutex-keeper
@inline(never)
func stallMutex() {
  let taken = DispatchSemaphore(value: 0)
  let thread = Thread {
    setThreadName("mutex-keeper")
    balance.withLock { _ in
      taken.signal()
      waitUntilLate()
    }
  }
  thread.start()
  taken.wait()
  result = deposit()
}

@inline(never)
func waitForPermit(_ semaphore: DispatchSemaphore) -> UInt64 {
  semaphore.wait()
  return result + 1
}

// stall semaphore: lock in stalls.waitForPermit(Dispatch.DispatchSemaphore) -> Swift.UInt64
@inline(never)
func stallSemaphore() {
  let semaphore = DispatchSemaphore(value: 0)
  later("poster") { semaphore.signal() }
  result = waitForPermit(semaphore)
}

let queue = DispatchQueue(label: "journal")
@inline(never)
func readJournal() -> UInt64 { queue.sync { result } + 1 }

// stall queue: lock in stalls.readJournal() -> Swift.UInt64, held by queue-worker
@inline(never)
func stallQueue() {
  let begun = DispatchSemaphore(value: 0)
  queue.async {
    setThreadName("queue-worker")
    begun.signal()
    waitUntilLate()
  }
  begun.wait()
  result = readJournal()
}

@inline(never)
func waitForGroup(_ group: DispatchGroup) -> UInt64 {
  group.wait()
  return ~result &* 5
}

// stall group: lock in stalls.waitForGroup(Dispatch.DispatchGroup) -> Swift.UInt64
@inline(never)
func stallGroup() {
  let group = DispatchGroup()
  DispatchQueue.global().async(group: group) { waitUntilLate() }
  result = waitForGroup(group)
}

let condition = NSCondition()
// Unsafe: under the condition's lock.
nonisolated(unsafe) var isReady = false
@inline(never)
func waitUntilReady() {
  condition.lock()
  while !isReady { condition.wait() }
  condition.unlock()
}

// stall condition: lock in stalls.waitUntilReady() -> ()
@inline(never)
func stallCondition() {
  later("producer") {
    condition.lock()
    isReady = true
    condition.signal()
    condition.unlock()
  }
  waitUntilReady()
  result += 1
}

@inline(never)
func readRequest(_ handle: FileHandle) -> Int { handle.availableData.count + 1 }

// stall pipe: io in stalls.readRequest(__C.NSFileHandle) -> Swift.Int | stalls.readRequest(Foundation.FileHandle) -> Swift.Int
@inline(never)
func stallPipe() {
  let pipe = Pipe()
  later("writer") { pipe.fileHandleForWriting.write(Data("x".utf8)) }
  result = UInt64(readRequest(pipe.fileHandleForReading))
}

@inline(never)
func waitForChild(_ child: pid_t) -> Int32 {
  var status: Int32 = 0
  return waitpid(child, &status, 0) + status
}

// What a child does, the monitor does not know.
// stall process: lock in stalls.waitForChild(Swift.Int32) -> Swift.Int32
@inline(never)
func stallProcess() {
  var child: pid_t = 0
  var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("sleep"), strdup("0.25"), nil]
  posix_spawnp(&child, "sleep", nil, nil, &arguments, nil)
  result = UInt64(waitForChild(child))
}

@inline(never)
func blockOnTask() -> UInt64 {
  let done = DispatchSemaphore(value: 0)
  Task.detached {
    try? await Task.sleep(for: .milliseconds(250))
    done.signal()
  }
  done.wait()
  return result + 1
}

// stall taskAndSemaphore: lock in stalls.blockOnTask() -> Swift.UInt64
@inline(never)
func stallTask() { result = blockOnTask() }
