// Stalls that compute, in C: leaf functions, inlined ones, clones, recursion, and library functions that do the work.
#include "../host.h"

#include <dlfcn.h>
#include <math.h>
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <fcntl.h>

// MARK: Functions of the program

static NOINLINE uint64_t mix_words(uint64_t x) {
  for (int i = 0; i < ROUNDS; i++) MIX(x);
  return x;
}

// stall leaf_loop: running in mix_words
STALL(leaf_loop) {
  uint64_t x = 1;
  while (!is_late()) x = mix_words(x);
  result = x;
}

// Two functions on the way: only the innermost is responsible.
static NOINLINE uint64_t hash_block(uint64_t x) {
  for (int i = 0; i < ROUNDS; i++) MIX(x);
  return x + 1;
}
static NOINLINE uint64_t hash_file(uint64_t x) {
  while (!is_late()) x = hash_block(x);
  return x ^ 3;
}

// stall nested: running in hash_block
STALL(nested) { result = hash_file(7); }

// stall own_loop: running in stall_own_loop
STALL(own_loop) {
  uint64_t x = 5;
  while (!is_late()) {
    for (int i = 0; i < ROUNDS; i++) MIX(x);
  }
  result = x;
}

static ALWAYS_INLINE uint64_t add_squares(uint64_t x) {
  for (int i = 0; i < ROUNDS; i++) {
    MIX(x);
    x += (uint64_t)i * i;
  }
  return x;
}

// stall always_inlined: running in add_squares
//   nodebug: stall_always_inlined
STALL(always_inlined) {
  uint64_t x = 1;
  while (!is_late()) x = add_squares(x);
  result = x;
}

// An optimizer puts a function that is called once into its caller.
static uint64_t scale_once(uint64_t x) {
  for (int i = 0; i < ROUNDS; i++) {
    MIX(x);
    x *= 3;
  }
  return x;
}

// stall called_once: running in scale_once
//   optimized nodebug: stall_called_once
STALL(called_once) {
  uint64_t x = 1;
  while (!is_late()) x = scale_once(x);
  result = x;
}

static ALWAYS_INLINE uint64_t innermost(uint64_t x) {
  for (int i = 0; i < ROUNDS; i++) {
    MIX(x);
    x -= (uint64_t)i;
  }
  return x;
}
static ALWAYS_INLINE uint64_t in_the_middle(uint64_t x) { return innermost(x) + 1; }
static NOINLINE uint64_t outermost(uint64_t x) {
  while (!is_late()) x = in_the_middle(x);
  return x;
}

// stall inlined_twice: running in innermost
//   nodebug: outermost
STALL(inlined_twice) { result = outermost(11); }

static NOINLINE uint64_t count_calls(unsigned n) { return n < 2 ? n + 1 : count_calls(n - 1) + count_calls(n - 2); }

// stall recursion: running in count_calls
STALL(recursion) {
  unsigned n = 25;
  while (!is_late()) result = count_calls(n += result == 0);
}

static NOINLINE uint64_t deep(unsigned depth, uint64_t x) {
  volatile char room[256];
  room[depth % sizeof room] = 1;
  if (depth > 0) return deep(depth - 1, x) + (uint64_t)room[depth % sizeof room];
  while (!is_late()) {
    for (int i = 0; i < ROUNDS; i++) MIX(x);
  }
  return x;
}

// stall deep_recursion: running in deep
STALL(deep_recursion) { result = deep(300, 3); }

static NOINLINE uint64_t odd_step(unsigned n, uint64_t x);
static NOINLINE uint64_t even_step(unsigned n, uint64_t x) {
  for (int i = 0; i < 1000; i++) MIX(x);
  return n == 0 ? x : odd_step(n - 1, x) + 1;
}
static NOINLINE uint64_t odd_step(unsigned n, uint64_t x) {
  for (int i = 0; i < 1000; i++) MIX(x);
  return n == 0 ? x : even_step(n - 1, x) * 3;
}

// stall mutual_recursion: running in even_step | odd_step
//   varies
STALL(mutual_recursion) {
  uint64_t x = 9;
  while (!is_late()) x = even_step(400, x);
  result = x;
}

typedef uint64_t (*step)(uint64_t);
static NOINLINE uint64_t through_pointer(uint64_t x) {
  for (int i = 0; i < ROUNDS; i++) MIX(x);
  return x + 5;
}
static volatile step chosen = through_pointer;

// stall function_pointer: running in through_pointer
STALL(function_pointer) {
  uint64_t x = 1;
  while (!is_late()) x = chosen(x);
  result = x;
}

// A clone for the constant arguments: GCC calls it with_constants.constprop.0, and the function is with_constants.
static NOINLINE uint64_t with_constants(uint64_t x, int shift, int rounds) {
  for (int i = 0; i < rounds; i++) {
    MIX(x);
    x += (uint64_t)i << shift;
  }
  return x;
}

// stall constant_arguments: running in with_constants
STALL(constant_arguments) {
  uint64_t x = 1;
  while (!is_late()) x = with_constants(x, 3, ROUNDS);
  result = x;
}

// A clone that takes parts of its arguments: GCC calls it first_member.isra.0.
struct pair {
  uint64_t first, second;
};
static NOINLINE uint64_t first_member(const struct pair *pair, uint64_t x) {
  uint64_t add = pair->first;
  for (int i = 0; i < ROUNDS; i++) {
    MIX(x);
    x += add;
  }
  return x;
}

// stall part_of_argument: running in first_member
STALL(part_of_argument) {
  uint64_t x = 1;
  while (!is_late()) x = first_member(&(struct pair){x | 1, 2}, x);
  result = x;
}

// The optimizer moves what is unlikely away from the rest: GCC calls it rarely.cold.
static NOINLINE __attribute__((cold)) void note_rare(uint64_t x) { result = x; }
static NOINLINE uint64_t rarely(uint64_t x, volatile bool *is_rare) {
  if (__builtin_expect(*is_rare, 0)) {
    note_rare(x);
    for (int i = 0; i < ROUNDS; i++) MIX(x);
    note_rare(x);
  }
  return x;
}

// stall cold_part: running in rarely
STALL(cold_part) {
  volatile bool is_rare = true;
  uint64_t x = 1;
  while (!is_late()) x = rarely(x, &is_rare);
  result = x;
}

static NOINLINE uint64_t sum_of_arguments(int count, ...) {
  uint64_t x = 0;
  va_list arguments;
  va_start(arguments, count);
  for (int i = 0; i < count; i++) x += va_arg(arguments, uint64_t);
  va_end(arguments);
  for (int i = 0; i < ROUNDS; i++) MIX(x);
  return x;
}

// stall variadic: running in sum_of_arguments
STALL(variadic) {
  uint64_t x = 1;
  while (!is_late()) x = sum_of_arguments(3, x, x, x);
  result = x;
}

static NOINLINE uint64_t with_array(size_t count, uint64_t x) {
  volatile uint64_t words[count];
  for (size_t i = 0; i < count; i++) words[i] = x + i;
  for (int i = 0; i < ROUNDS; i++) {
    MIX(x);
    x += words[x % count];
  }
  return x;
}

// stall variable_array: running in with_array
STALL(variable_array) {
  uint64_t x = 1;
  while (!is_late()) x = with_array(100 + x % 100, x);
  result = x;
}

static NOINLINE uint64_t interpret(const unsigned char *code, size_t length, uint64_t x) {
  for (int i = 0; i < ROUNDS; i++) {
    switch (code[(size_t)i % length]) {
      case 0: x += 3; break;
      case 1: x ^= x << 13; break;
      case 2: x ^= x >> 7; break;
      case 3: x *= 5; break;
      case 4: x -= (uint64_t)i; break;
      default: MIX(x); break;
    }
  }
  return x;
}

// stall interpreter: running in interpret
STALL(interpreter) {
  static const unsigned char code[] = {0, 5, 1, 3, 2, 4, 5};
  uint64_t x = 1;
  while (!is_late()) x = interpret(code, sizeof code, x);
  result = x;
}

static NOINLINE uint64_t last_in_line(uint64_t x) {
  while (!is_late()) {
    for (int i = 0; i < ROUNDS; i++) MIX(x);
  }
  return x;
}
static NOINLINE uint64_t calls_last(uint64_t x) { return last_in_line(x | 1); }

// stall tail_call: running in last_in_line
STALL(tail_call) { result = calls_last(2); }

static jmp_buf restart;
static NOINLINE void jump_back(uint64_t x) {
  for (int i = 0; i < ROUNDS; i++) MIX(x);
  result = x;
  longjmp(restart, 1);
}

// stall long_jump: running in jump_back
STALL(long_jump) {
  setjmp(restart);
  if (!is_late()) jump_back(result | 1);
}

static void on_signal(int signal) {
  uint64_t x = (uint64_t)signal;
  while (!is_late()) {
    for (int i = 0; i < ROUNDS; i++) MIX(x);
  }
  result = x;
}

// stall signal_handler: running in on_signal
STALL(signal_handler) {
  signal(SIGUSR1, on_signal);
  raise(SIGUSR1);
}

static void on_own_stack(int signal) {
  uint64_t x = (uint64_t)signal + 1;
  while (!is_late()) {
    for (int i = 0; i < ROUNDS; i++) MIX(x);
  }
  result = x;
}

// stall signal_stack: running in on_own_stack
STALL(signal_stack) {
  static char room[1 << 16];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  require(sigaltstack(&stack, NULL) == 0, "sigaltstack");
  struct sigaction action = {.sa_handler = on_own_stack, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR2, &action, NULL);
  raise(SIGUSR2);
}

// MARK: The C library's functions, which call back or do the work themselves

static int compare_slowly(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a | 1, y = *(const uint64_t *)b | 1;
  for (int i = 0; i < 20000; i++) {
    MIX(x);
    MIX(y);
  }
  result = x ^ y;
  return (*(const uint64_t *)a > *(const uint64_t *)b) - (*(const uint64_t *)a < *(const uint64_t *)b);
}

// stall qsort_callback: running in compare_slowly
STALL(qsort_callback) {
  static uint64_t words[64];
  while (!is_late()) {
    for (size_t i = 0; i < 64; i++) words[i] = i * 0x9E3779B97F4A7C15u;
    qsort(words, 64, sizeof *words, compare_slowly);
  }
}

static void initialize_slowly(void) {
  uint64_t x = 17;
  while (!is_late()) {
    for (int i = 0; i < ROUNDS; i++) MIX(x);
  }
  result = x;
}

// stall once: running in initialize_slowly
STALL(once) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, initialize_slowly);
}

static char blocks[2][1 << 20];
static NOINLINE void copy_blocks(void) {
  for (int i = 0; i < 40; i++) {
    memcpy(blocks[i & 1], blocks[~i & 1], sizeof blocks[0]);
    result = (uint64_t)blocks[1][result % sizeof blocks[0]];
  }
}

// stall memcpy: running in copy_blocks
STALL(memcpy) {
  while (!is_late()) copy_blocks();
}

static NOINLINE size_t measure_text(const char *text) {
  size_t length = 0;
  for (int i = 0; i < 40; i++) {
    length += strlen(text);
    __asm__ volatile("" ::: "memory");
  }
  return length;
}

// stall strlen: running in measure_text
STALL(strlen) {
  memset(blocks[0], 'x', sizeof blocks[0] - 1);
  while (!is_late()) result = measure_text(blocks[0]);
}

static NOINLINE void match_lines(const regex_t *pattern, const char *text) {
  for (int i = 0; i < 20; i++) result = (uint64_t)regexec(pattern, text, 0, NULL, 0);
}

// stall regexec: running in match_lines
STALL(regexec) {
  regex_t pattern;
  require(regcomp(&pattern, "(a|aa)+[0-9]*b$", REG_EXTENDED) == 0, "regcomp");
  while (!is_late()) match_lines(&pattern, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac");
}

static NOINLINE double sum_of_sines(double x) {
  for (int i = 0; i < 30000; i++) x += sin(x) * exp(-x * x);
  return x;
}

// stall libm: running in sum_of_sines
STALL(libm) {
  double x = 1;
  while (!is_late()) x = sum_of_sines(x);
  result = (uint64_t)x;
}

static NOINLINE void format_numbers(void) {
  char text[400];
  for (int i = 0; i < 500; i++) {
    snprintf(text, sizeof text, "%.17g %.300f", (double)i / 7, (double)i / 3);
    result = (uint64_t)text[7];
  }
}

// stall snprintf: running in format_numbers
STALL(snprintf) {
  while (!is_late()) format_numbers();
}

static NOINLINE void allocate_and_free(void) {
  void *volatile memory[256];
  for (int round = 0; round < 50; round++) {
    for (size_t i = 0; i < 256; i++) memory[i] = malloc(5000 + i * 64);
    for (size_t i = 0; i < 256; i += 2) free(memory[i]);
    for (size_t i = 1; i < 256; i += 2) free(memory[i]);
  }
}

// stall malloc: running in allocate_and_free
STALL(malloc) {
  while (!is_late()) allocate_and_free();
}

static NOINLINE void load_and_unload(void) {
  for (int i = 0; i < 5; i++) {
    void *library = dlopen("libutil.so.1", RTLD_NOW);
    require(library != NULL, "dlopen");
    dlclose(library);
  }
}

// stall dlopen: running in load_and_unload
STALL(dlopen) {
  while (!is_late()) load_and_unload();
}

// MARK: The kernel, which works for the thread

static NOINLINE void read_zeros(int file, char *block, size_t size) {
  for (int i = 0; i < 10; i++) require(read(file, block, size) == (ssize_t)size, "read");
}

// stall kernel_work: running in read_zeros
STALL(kernel_work) {
  int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  while (!is_late()) read_zeros(file, blocks[0], sizeof blocks[0]);
}

static NOINLINE void touch_pages(size_t size) {
  char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "mmap");
  madvise(memory, size, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < size; i += 4096) memory[i] = 1;
  // Not as the last call, which the optimizer makes a jump: then the caller has called munmap.
  require(munmap(memory, size) == 0, "munmap");
}

// stall page_faults: running in touch_pages
STALL(page_faults) {
  while (!is_late()) touch_pages(4 << 20);
}
