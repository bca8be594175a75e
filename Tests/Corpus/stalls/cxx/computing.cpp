// Stalls that compute, in C++: templates, lambdas, virtual calls, exceptions, and the standard library at work.
#include "../host.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace {
std::vector<uint64_t> numbers(size_t count) {
  std::vector<uint64_t> made(count);
  uint64_t x = 88172645463325252u;
  for (auto &number : made) number = MIX(x);
  return made;
}
}  // namespace

// MARK: Functions of the program

namespace ledger {
class Account {
 public:
  NOINLINE uint64_t settle(uint64_t x) {
    for (int i = 0; i < ROUNDS; i++) MIX(x);
    return x + balance++;
  }

 private:
  uint64_t balance = 0;
};
}  // namespace ledger

// stall method: running in ledger::Account::settle(unsigned long)
STALL(method) {
  ledger::Account account;
  uint64_t x = 1;
  while (!is_late()) x = account.settle(x);
  result = x;
}

namespace {
NOINLINE uint64_t hidden_work(uint64_t x) {
  for (int i = 0; i < ROUNDS; i++) MIX(x);
  return x;
}
}  // namespace

// stall anonymous_namespace: running in (anonymous namespace)::hidden_work(unsigned long)
STALL(anonymous_namespace) {
  uint64_t x = 1;
  while (!is_late()) x = hidden_work(x);
  result = x;
}

template <typename T, int Shift>
NOINLINE T fold(T x) {
  for (int i = 0; i < ROUNDS; i++) {
    MIX(x);
    x += T(i) << Shift;
  }
  return x;
}

// stall function_template: running in unsigned long fold<unsigned long, 3>(unsigned long)
STALL(function_template) {
  uint64_t x = 1;
  while (!is_late()) x = fold<uint64_t, 3>(x);
  result = x;
}

template <typename T>
class Accumulator {
 public:
  NOINLINE void add(T x) {
    for (int i = 0; i < ROUNDS; i++) MIX(x);
    sum += x;
  }
  T sum = 1;
};

// stall class_template: running in Accumulator<unsigned long>::add(unsigned long)
STALL(class_template) {
  Accumulator<uint64_t> accumulator;
  while (!is_late()) accumulator.add(accumulator.sum | 1);
  result = accumulator.sum;
}

class Shape {
 public:
  virtual ~Shape() = default;
  virtual uint64_t area(uint64_t x) = 0;
};
class Polygon final : public Shape {
 public:
  NOINLINE uint64_t area(uint64_t x) override {
    for (int i = 0; i < ROUNDS; i++) MIX(x);
    return x;
  }
};

// stall virtual_call: running in Polygon::area(unsigned long)
STALL(virtual_call) {
  std::unique_ptr<Shape> shape = std::make_unique<Polygon>();
  uint64_t x = 1;
  while (!is_late()) x = shape->area(x);
  result = x;
}

NOINLINE uint64_t apply(const std::function<uint64_t(uint64_t)> &function, uint64_t x) {
  while (!is_late()) x = function(x);
  return x;
}

// A lambda in a std::function: the compiler may put it into the library's invoker, which has a name of the library's.
// stall lambda: running in stall_lambda()::{lambda(unsigned long)#1}::operator()(unsigned long) const
//   clang: stall_lambda()::$_0::operator()(unsigned long) const
//   gcc optimized: operator()
//   optimized nodebug: apply(std::function<unsigned long (unsigned long)> const&, unsigned long)
STALL(lambda) {
  result = apply(
      [](uint64_t x) {
        for (int i = 0; i < ROUNDS; i++) MIX(x);
        return x;
      },
      3);
}

struct Comparison {
  bool operator()(uint64_t a, uint64_t b) const {
    uint64_t x = a | 1;
    for (int i = 0; i < 20000; i++) MIX(x);
    result = x;
    return a < b;
  }
};

// The library's sorting is not the program's code: its comparison is, and without its name the function that sorts. The library calls
// the comparison from several of its functions, of which none may have half of the samples: then the stall is known by the function that sorts.
// stall sort_comparison: running in Comparison::operator()(unsigned long, unsigned long) const
//   optimized nodebug: stall_sort_comparison()
//   known by stall_sort_comparison()
//   varies
STALL(sort_comparison) {
  while (!is_late()) {
    auto values = numbers(64);
    std::sort(values.begin(), values.end(), Comparison());
  }
}

static NOINLINE uint64_t sort_numbers(std::vector<uint64_t> &values) {
  std::sort(values.begin(), values.end());
  return values.front();
}

// stall sort: running in sort_numbers(std::vector<unsigned long, std::allocator<unsigned long> >&)
STALL(sort) {
  auto values = numbers(20000);
  while (!is_late()) {
    result = sort_numbers(values);
    for (auto &value : values) MIX(value);
  }
}

static NOINLINE size_t fill_map(int count) {
  std::map<uint64_t, std::string> map;
  uint64_t x = 1;
  for (int i = 0; i < count; i++) map[MIX(x)] = "a text that is too long to be stored in place";
  return map.size();
}

// stall map: running in fill_map(int)
STALL(map) {
  while (!is_late()) result = fill_map(5000);
}

static NOINLINE uint64_t count_words(const std::vector<std::string> &words) {
  std::unordered_map<std::string, uint64_t> counts;
  for (int round = 0; round < 20; round++) {
    for (auto &word : words) counts[word]++;
  }
  return counts.size();
}

// stall unordered_map: running in count_words(std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, std::allocator<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > > > const&)
STALL(unordered_map) {
  std::vector<std::string> words;
  for (int i = 0; i < 1000; i++) words.push_back("word number " + std::to_string(i * 7919 % 1000));
  while (!is_late()) result = count_words(words);
}

static NOINLINE size_t build_text(int count) {
  std::string text;
  for (int i = 0; i < count; i++) text = text + "x";
  return text.size();
}

// stall string: running in build_text(int)
STALL(string) {
  while (!is_late()) result = build_text(6000);
}

static NOINLINE size_t print_numbers(int count) {
  std::ostringstream stream;
  for (int i = 0; i < count; i++) stream << i << ' ' << i / 7.0 << '\n';
  return stream.str().size();
}

// stall stringstream: running in print_numbers(int)
STALL(stringstream) {
  while (!is_late()) result = print_numbers(2000);
}

static NOINLINE bool match_text(const std::regex &pattern, const std::string &text) {
  return std::regex_match(text, pattern);
}

// stall regex: running in match_text(std::__cxx11::basic_regex<char, std::__cxx11::regex_traits<char> > const&, std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)
STALL(regex) {
  std::regex pattern("(a|b|ab)*c");
  std::string text = "ababababababababababababababd";
  while (!is_late()) result = match_text(pattern, text);
}

class Refused {};
NOINLINE void refuse(uint64_t x) {
  if (x != 0) throw Refused();
}
NOINLINE uint64_t try_often(int count) {
  uint64_t refused = 0;
  for (int i = 0; i < count; i++) {
    try {
      refuse(static_cast<uint64_t>(i) + 1);
    } catch (const Refused &) {
      refused++;
    }
  }
  return refused;
}

// Throwing is the runtime's work, for both functions.
// stall throwing: running in try_often(int) | refuse(unsigned long)
//   varies
STALL(throwing) {
  while (!is_late()) result = try_often(1000);
}

class Graph {
 public:
  NOINLINE ~Graph() {
    uint64_t x = seed;
    while (!is_late()) {
      for (int i = 0; i < ROUNDS; i++) MIX(x);
    }
    result = x;
  }
  uint64_t seed = 5;
};

// stall destructor: running in Graph::~Graph()
STALL(destructor) {
  Graph graph;
  result = graph.seed;
}

// stall shared_release: running in Graph::~Graph()
STALL(shared_release) {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  result = graph->seed;
  graph.reset();
}

class Catalog {
 public:
  NOINLINE explicit Catalog(uint64_t x) {
    while (!is_late()) {
      for (int i = 0; i < ROUNDS; i++) MIX(x);
    }
    size = x;
  }
  uint64_t size;
};

// stall constructor: running in Catalog::Catalog(unsigned long)
STALL(constructor) { result = Catalog(3).size; }

static const Catalog &shared_catalog() {
  static const Catalog catalog(4);
  return catalog;
}

// stall static_local: running in Catalog::Catalog(unsigned long)
STALL(static_local) { result = shared_catalog().size; }

struct Money {
  uint64_t amount;
};
NOINLINE Money operator*(Money money, int factor) {
  for (int i = 0; i < ROUNDS; i++) MIX(money.amount);
  money.amount += static_cast<uint64_t>(factor);
  return money;
}

// stall operator_function: running in operator*(Money, int)
STALL(operator_function) {
  Money money{1};
  while (!is_late()) money = money * 3;
  result = money.amount;
}

template <typename Number>
static inline __attribute__((always_inline)) Number smooth(Number x) {
  for (int i = 0; i < ROUNDS; i++) {
    MIX(x);
    x ^= Number(i);
  }
  return x;
}
NOINLINE uint64_t filter_signal(uint64_t x) {
  while (!is_late()) x = smooth(x);
  return x;
}

// GCC says of an inlined function that no other file can call how it is spelled in its namespace, and not where.
// stall inlined_template: running in unsigned long smooth<unsigned long>(unsigned long)
//   gcc: smooth<long unsigned int>
//   nodebug: filter_signal(unsigned long)
STALL(inlined_template) { result = filter_signal(7); }

static NOINLINE uint64_t add_up(const std::vector<uint64_t> &values) {
  uint64_t sum = 0;
  for (int i = 0; i < 10; i++) {
    sum += std::accumulate(values.begin(), values.end(), sum, [](uint64_t a, uint64_t b) { return a * 31 + b; });
  }
  return sum;
}

// The lambda is inlined into the library's loop in an optimized build; both are in the program's function.
// stall accumulate: running in add_up(std::vector<unsigned long, std::allocator<unsigned long> > const&) | add_up(std::vector<unsigned long, std::allocator<unsigned long> > const&)::{lambda(unsigned long, unsigned long)#1}::operator()(unsigned long, unsigned long) const
//   clang: add_up(std::vector<unsigned long, std::allocator<unsigned long> > const&)::$_0::operator()(unsigned long, unsigned long) const
//   gcc optimized: operator()
//   varies
STALL(accumulate) {
  auto values = numbers(20000);
  while (!is_late()) result = add_up(values);
}
