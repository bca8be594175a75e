#include "CxxThrow.h"

#include <ctime>
#include <stdexcept>

namespace {

struct Counter {
  int &count;
  ~Counter() { count++; }
};

__attribute__((noinline)) int descend(int depth, int &count) {
  Counter counter{count};
  if (depth == 0) throw std::runtime_error("in flight");
  int result = descend(depth - 1, count) + 1;
  __asm__ volatile("" : : : "memory");
  return result;
}

// Of processor time: other processes do not count.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

}  // namespace

extern "C" double throws_per_second(double seconds) {
  double start = now(), passed = 0;
  long thrown = 0;
  int destroyed = 0;
  while (passed < seconds) {
    for (int i = 0; i < 100; i++) {
      try {
        descend(10, destroyed);
      } catch (const std::runtime_error &) {
        thrown++;
      }
    }
    passed = now() - start;
  }
  return static_cast<double>(thrown) / passed;
}
