// Stalls that wait, in C++: the standard library's threads, locks and futures.
#include "../host.h"

#include <chrono>
#include <condition_variable>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

static constexpr std::chrono::milliseconds stall_time(STALL_MS);

namespace backend {
NOINLINE int wait_a_while() {
  std::this_thread::sleep_for(stall_time);
  return 1;
}
}  // namespace backend

// stall sleep_for: sleep in backend::wait_a_while()
STALL(sleep_for) { result = static_cast<uint64_t>(backend::wait_a_while()); }

class Journal {
 public:
  NOINLINE void append() {
    std::lock_guard<std::mutex> guard(mutex);
    lines++;
  }
  static void keep(void *journal) { static_cast<Journal *>(journal)->mutex.lock(); }
  static void release(void *journal) { static_cast<Journal *>(journal)->mutex.unlock(); }
  std::mutex mutex;
  volatile int lines = 0;
};

// stall mutex: lock in Journal::append(), held by journal-keeper
STALL(mutex) {
  static Journal journal;
  meanwhile("journal-keeper", Journal::keep, Journal::release, &journal);
  journal.append();
}

class Cache {
 public:
  NOINLINE int read() {
    std::shared_lock<std::shared_mutex> guard(mutex);
    return entries + 1;
  }
  static void keep(void *cache) { static_cast<Cache *>(cache)->mutex.lock(); }
  static void release(void *cache) { static_cast<Cache *>(cache)->mutex.unlock(); }
  std::shared_mutex mutex;
  volatile int entries = 0;
};

// stall shared_mutex: lock in Cache::read(), held by cache-writer
STALL(shared_mutex) {
  static Cache cache;
  meanwhile("cache-writer", Cache::keep, Cache::release, &cache);
  result = static_cast<uint64_t>(cache.read());
}

static std::mutex mutex;
static std::condition_variable condition;
static bool is_ready;
static void make_ready(void *) {
  std::lock_guard<std::mutex> guard(mutex);
  is_ready = true;
  condition.notify_all();
}
static NOINLINE int wait_until_ready() {
  std::unique_lock<std::mutex> guard(mutex);
  condition.wait(guard, [] { return is_ready; });
  return 1;
}

// stall condition_variable: lock in wait_until_ready()
STALL(condition_variable) {
  later("producer", make_ready, nullptr);
  result = static_cast<uint64_t>(wait_until_ready());
}

static NOINLINE int take_answer(std::future<int> &answer) { return answer.get() + 1; }

// stall future: lock in take_answer(std::future<int>&), held by answerer
STALL(future) {
  auto answer = std::async(std::launch::async, [] {
    pthread_setname_np(pthread_self(), "answerer");
    std::this_thread::sleep_for(stall_time);
    return 41;
  });
  result = static_cast<uint64_t>(take_answer(answer));
}

static NOINLINE int wait_for_promise(std::future<void> &future) {
  future.wait();
  return 1;
}

// stall promise: lock in wait_for_promise(std::future<void>&)
STALL(promise) {
  static std::promise<void> promise;
  auto future = promise.get_future();
  later("promiser", [](void *) { promise.set_value(); }, nullptr);
  result = static_cast<uint64_t>(wait_for_promise(future));
}

static NOINLINE int answer_slowly() {
  std::this_thread::sleep_for(stall_time);
  return 7;
}

// An answer that nobody has begun to work out is worked out by the thread that asks.
// stall deferred_future: sleep in answer_slowly()
STALL(deferred_future) {
  auto answer = std::async(std::launch::deferred, answer_slowly);
  result = static_cast<uint64_t>(answer.get());
}

static NOINLINE int join_importer(std::thread &thread) {
  thread.join();
  return thread.joinable() + 1;
}

// stall thread_join: lock in join_importer(std::thread&), held by importer
STALL(thread_join) {
  std::thread thread([] {
    pthread_setname_np(pthread_self(), "importer");
    std::this_thread::sleep_for(stall_time);
  });
  result = static_cast<uint64_t>(join_importer(thread));
}

class Connection {
 public:
  NOINLINE ~Connection() {
    std::this_thread::sleep_for(stall_time);
    result = 1;
  }
};

// stall shared_release_sleep: sleep in Connection::~Connection()
STALL(shared_release_sleep) {
  auto connection = std::make_shared<Connection>();
  result = static_cast<uint64_t>(connection.use_count());
  connection.reset();
}

static int ends[2];
static void write_line(void *) { require(write(ends[1], "line\n", 5) == 5, "write"); }
static NOINLINE size_t read_command() {
  std::string line;
  std::getline(std::cin, line);
  return line.size();
}

// stall getline: io in read_command()
STALL(getline) {
  require(pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == 0, "pipe");
  later("writer", write_line, nullptr);
  result = read_command();
}

template <typename Action>
NOINLINE int with_retries(Action action) {
  int count = 0;
  while (!is_late()) count += action();
  return count;
}

// The lambda is what sleeps; a compiler that inlines it without debug information leaves the template. GCC says of a lambda that it
// inlined that it is an operator().
// stall lambda_sleep: sleep in stall_lambda_sleep()::{lambda()#1}::operator()() const
//   clang: stall_lambda_sleep()::$_0::operator()() const
//   gcc optimized: operator()
//   gcc optimized nodebug: int with_retries<stall_lambda_sleep()::{lambda()#1}>(stall_lambda_sleep()::{lambda()#1})
//   clang optimized nodebug: int with_retries<stall_lambda_sleep()::$_0>(stall_lambda_sleep()::$_0)
STALL(lambda_sleep) {
  result = static_cast<uint64_t>(with_retries([] {
    usleep(20000);
    return 1;
  }));
}

static std::once_flag once;
static NOINLINE void load_settings() {
  std::this_thread::sleep_for(stall_time);
  result = 1;
}

// stall call_once: sleep in load_settings()
STALL(call_once) {
  std::call_once(once, load_settings);
  result++;
}
