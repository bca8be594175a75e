// Stalls in functions whose names are the difficulty, in C++20: coroutines, constraints, long names.
#include "../host.h"

#include <concepts>
#include <coroutine>
#include <string>
#include <tuple>
#include <utility>

namespace {
struct Task {
  struct promise_type {
    Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> handle;
};

// What resumes coroutines, as an event loop does: it is not responsible for what they do.
NOINLINE void run_ready(Task task) {
  task.handle.resume();
  task.handle.destroy();
  result = result + 1;
}
}  // namespace

namespace app {
NOINLINE Task sleep_in_request(std::string request) {
  usleep(STALL_MS * 1000);
  result = request.size();
  co_return;
}

NOINLINE Task compute_in_request(uint64_t x) {
  while (!is_late())
    for (int i = 0; i < ROUNDS; i++) MIX(x);
  result = x;
  co_return;
}

NOINLINE Task suspend_before_sleep(std::string request) {
  co_await std::suspend_always{};
  usleep(STALL_MS * 1000);
  result = request.size();
  co_await std::suspend_always{};
  result = result + 1;
}
}  // namespace app

NOINLINE Task login(int user) {
  usleep(STALL_MS * 1000);
  result = uint64_t(user);
  co_return;
}

NOINLINE Task upload(int user) {
  usleep(STALL_MS * 1000);
  result = uint64_t(user) * 2;
  co_return;
}

// stall coroutine_sleep: sleep in app::sleep_in_request(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >)
STALL(coroutine_sleep) { run_ready(app::sleep_in_request("x")); }

// stall coroutine_running: running in app::compute_in_request(unsigned long)
STALL(coroutine_running) { run_ready(app::compute_in_request(1)); }

// stall coroutine_resumed: sleep in app::suspend_before_sleep(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >)
STALL(coroutine_resumed) {
  Task task = app::suspend_before_sleep("x");
  task.handle.resume();
  task.handle.resume();
  task.handle.destroy();
}

// stall coroutine_login: sleep in login(int)
STALL(coroutine_login) { run_ready(login(1)); }

// stall coroutine_upload: sleep in upload(int)
STALL(coroutine_upload) { run_ready(upload(1)); }

// MARK: Constraints

// No two bodies are alike: the compiler would make one function of them.

template <typename T>
concept Countable = std::integral<T> && sizeof(T) == 8;

template <Countable T>
NOINLINE T count_constrained(T x) {
  for (int i = 0; i < ROUNDS; i++) MIX(x);
  return x + 1;
}

// stall concept: running in unsigned long count_constrained<unsigned long>(unsigned long)
STALL(concept) {
  uint64_t x = 1;
  while (!is_late()) x = count_constrained(x);
  result = x;
}

template <typename T>
  requires std::integral<T> && (sizeof(T) > 4)
NOINLINE T count_required(T x) {
  for (int i = 0; i < ROUNDS; i++) MIX(x);
  return x + 2;
}

// stall requires_clause: running in unsigned long count_required<unsigned long>(unsigned long)
STALL(requires_clause) {
  uint64_t x = 1;
  while (!is_late()) x = count_required(x);
  result = x;
}

NOINLINE auto count_abbreviated(std::integral auto x) {
  for (int i = 0; i < ROUNDS; i++) MIX(x);
  return x + 3;
}

// stall abbreviated_template: running in auto count_abbreviated<unsigned long>(unsigned long)
STALL(abbreviated_template) {
  uint64_t x = 1;
  while (!is_late()) x = count_abbreviated(x);
  result = x;
}

template <auto Rounds>
struct Counter {
  NOINLINE static uint64_t count(uint64_t x) {
    for (int i = 0; i < Rounds; i++) MIX(x);
    return x + 4;
  }
};

// stall value_template: running in Counter<400000>::count(unsigned long)
STALL(value_template) {
  uint64_t x = 1;
  while (!is_late()) x = Counter<400000>::count(x);
  result = x;
}

auto generic = []<typename T>(T x) __attribute__((noinline)) {
  for (int i = 0; i < ROUNDS; i++) MIX(x);
  return x + 5;
};

// stall generic_lambda: running in auto generic::{lambda(auto:1)#1}::operator()<unsigned long>(generic) const
STALL(generic_lambda) {
  uint64_t x = 1;
  while (!is_late()) x = generic(x);
  result = x;
}
