#include "VictimCxx.h"

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

}  // namespace

extern "C" int victim_cxx_throw(void) {
  int count = 0;
  try {
    descend(10, count);
  } catch (const std::runtime_error &) {
    return count;
  }
  return -1;
}

extern "C" void victim_cxx_throw_once(void) { (void)victim_cxx_throw(); }
