// Hosts with unusual stacks.
#include "host.h"

#include <alloca.h>
#include <setjmp.h>
#include <ucontext.h>

#define KiB ((size_t)1 << 10)

static void stall_often(void) {
  for (int i = 0; i < 4; i++) stall(60);
}

// -- Alternate stacks

// Memory between two pages that nobody may touch.
static char *guarded(size_t bytes) {
  char *memory = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED && mprotect(memory + 4096, bytes, PROT_READ | PROT_WRITE) == 0, "guarded memory");
  return memory + 4096;
}

static void alternate_2048(void) {
  // The upper half of a page: what does not fit writes into the lower half, and then dies.
  char *page = guarded(4096);
  stack_t small = {.ss_sp = page, .ss_size = 2048};
  say("sigaltstack: %d", sigaltstack(&small, NULL));
  watch_start();
  stall_often();
  stack_t now;
  sigaltstack(NULL, &now);
  say("kept: %d, size %zu", now.ss_sp == page, now.ss_size);
  watch_stop();
}

static volatile char sink_of_bytes;
static volatile int handled, on_own_stack;
static char *own_stack;

static void deep_handler(int signal) {
  (void)signal;
  volatile char *bytes = alloca(400 * KiB);
  for (size_t i = 0; i < 400 * KiB; i += 512) bytes[i] = (char)i;
  sink_of_bytes = bytes[512];
  compute(40);
  handled++;
}

// SA_ONSTACK without an alternate stack means the normal stack, which is large.
static void deep_handler_without_alternate_stack(void) {
  struct sigaction action = {.sa_handler = deep_handler, .sa_flags = SA_ONSTACK | SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  watch_start();
  for (int i = 0; i < 4; i++) {
    turn_begin();
    compute(20);
    raise(SIGUSR1);
    compute(20);
    turn_end();
    pause_for(3);
  }
  say("handled: %d", handled);
  watch_stop();
}

static void own_stack_handler(int signal) {
  (void)signal;
  char here;
  on_own_stack += &here > own_stack && &here < own_stack + 64 * KiB;
  compute(50);
  handled++;
}

static void handler_on_its_alternate_stack(void) {
  watch_start();
  own_stack = guarded(64 * KiB);
  stack_t stack = {.ss_sp = own_stack, .ss_size = 64 * KiB};
  say("sigaltstack: %d", sigaltstack(&stack, NULL));
  struct sigaction action = {.sa_handler = own_stack_handler, .sa_flags = SA_ONSTACK | SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  for (int i = 0; i < 4; i++) {
    turn_begin();
    raise(SIGUSR1);
    turn_end();
    pause_for(3);
  }
  sigaltstack(NULL, &stack);
  say("handled: %d, on the host's stack: %d, kept: %d", handled, on_own_stack, stack.ss_sp == own_stack);
  watch_stop();
}

// Installs one, computes, takes it off and unmaps it: what was there before has no meaning any more.
static void alternate_stacks_come_and_go(void) {
  watch_start();
  int failures = 0;
  for (int i = 0; i < 12; i++) {
    turn_begin();
    char *memory = mmap(NULL, 64 * KiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory, .ss_size = 64 * KiB}, off = {.ss_flags = SS_DISABLE};
    failures += sigaltstack(&stack, NULL) != 0;
    compute(25);
    failures += sigaltstack(&off, NULL) != 0;
    munmap(memory, 64 * KiB);
    compute(25);
    turn_end();
    pause_for(3);
  }
  say("failures: %d", failures);
  watch_stop();
}

static void query_at_start(void) {
  stack_t before, other;
  require(sigaltstack(NULL, &before) == 0, "sigaltstack");
  say("before: flags %d", before.ss_flags);
  watch_start();
  // As a runtime does that brings its own only where there is none.
  char *memory = guarded(64 * KiB);
  stack_t stack = {.ss_sp = memory, .ss_size = 64 * KiB};
  say("sigaltstack: %d", sigaltstack(&stack, &other));
  stall_often();
  stack_t off = {.ss_flags = SS_DISABLE};
  say("taken off: %d", sigaltstack(&off, NULL));
  sigaltstack(NULL, &other);
  say("after: flags %d", other.ss_flags);
  stall_often();
  watch_stop();
}

static sigjmp_buf recovery;
static volatile int overflows;

static void recover(int signal) {
  (void)signal;
  siglongjmp(recovery, 1);
}

__attribute__((noinline)) static int overflow(int depth) {
  volatile char bytes[1024];
  bytes[0] = (char)depth;
  return depth < 0 ? 0 : overflow(depth + 1) + bytes[0];
}

static void *recover_from_overflows(void *ignored) {
  watch_thread("overflowing");
  char *memory = guarded(64 * KiB);
  stack_t stack = {.ss_sp = memory, .ss_size = 64 * KiB};
  sigaltstack(&stack, NULL);
  for (int i = 0; i < 4; i++) {
    turn_begin();
    compute(30);
    if (sigsetjmp(recovery, 1) == 0) overflow(1);
    else overflows++;
    compute(30);
    turn_end();
    pause_for(3);
  }
  return ignored;
}

static void recovered_overflow(void) {
  struct sigaction action = {.sa_handler = recover, .sa_flags = SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL);
  watch_start();
  run_thread(recover_from_overflows);
  say("overflows: %d", overflows);
  watch_stop();
}

// -- Coroutines

static ucontext_t caller, coroutine;

static void coroutine_main(void) {
  for (int i = 0; i < 3; i++) compute(60);
}

static void run_coroutine(char *stack, size_t bytes) {
  for (int i = 0; i < 3; i++) {
    getcontext(&coroutine);
    coroutine.uc_stack = (stack_t){.ss_sp = stack, .ss_size = bytes};
    coroutine.uc_link = &caller;
    makecontext(&coroutine, coroutine_main, 0);
    turn_begin();
    swapcontext(&caller, &coroutine);
    turn_end();
    pause_for(3);
  }
  say("coroutine ended");
}

// Maps a stack of 64 KiB whose end lies `distance` below `top`, and nothing readable between.
static char *stack_below(uintptr_t top, size_t distance) {
  uintptr_t start = (top - distance - 64 * KiB) & ~(uintptr_t)4095;
  char *stack = mmap((void *)start, 64 * KiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                     -1, 0);
  require(stack == (char *)start, "a stack below another one");
  char *guard = mmap(stack + 64 * KiB, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  require(guard == stack + 64 * KiB, "a guard page");
  return stack;
}

static void coroutine_below_the_main_stack(void) {
  char here;
  char *stack = stack_below((uintptr_t)&here, 32768 * KiB);
  watch_start();
  run_coroutine(stack, 64 * KiB);
  watch_stop();
}

static void *run_coroutine_below(void *ignored) {
  char *end = (char *)(((uintptr_t)&end - 4096 * KiB) & ~(uintptr_t)4095);
  watch_thread("coroutines");
  // The lower half of this thread's own stack, with a guard page above.
  require(mprotect(end + 64 * KiB, 4096, PROT_NONE) == 0, "a guard page");
  run_coroutine(end, 64 * KiB);
  require(mprotect(end + 64 * KiB, 4096, PROT_READ | PROT_WRITE) == 0, "a guard page");
  return ignored;
}

static void coroutine_in_a_thread_stack(void) {
  watch_start();
  run_thread(run_coroutine_below);
  watch_stop();
}

static void coroutine_on_the_heap(void) {
  char *stack = malloc(64 * KiB);
  watch_start();
  run_coroutine(stack, 64 * KiB);
  free(stack);
  watch_stop();
}

// -- Little left

static uintptr_t stack_low;

__attribute__((noinline)) static int descend(int depth) {
  volatile char bytes[256];
  bytes[0] = (char)depth;
  if ((uintptr_t)&bytes - stack_low < 3000) {
    compute(60);
    return 1;
  }
  return descend(depth + 1) + bytes[0] - bytes[0];
}

static void *descend_to_the_end(void *ignored) {
  pthread_attr_t attributes;
  void *low;
  size_t size;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  stack_low = (uintptr_t)low;
  watch_thread("deep");
  int reached = 0;
  for (int i = 0; i < 4; i++) {
    turn_begin();
    reached += descend(0);
    turn_end();
    pause_for(3);
  }
  say("reached: %d", reached);
  return ignored;
}

static void run_with_stack(size_t bytes, void *(*body)(void *)) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_t thread;
  require(pthread_create(&thread, &attributes, body, NULL) == 0, "pthread_create");
  pthread_join(thread, NULL);
}

static void deep_recursion(void) {
  // The first call of a function binds it, which takes more than what will be left.
  compute(1);
  watch_start();
  run_with_stack(256 * KiB, descend_to_the_end);
  watch_stop();
}

static void *small_loop(void *ignored) {
  watch_thread("small");
  stall_often();
  return ignored;
}

// The first loop that is watched: everything that is done once is done on the small stack.
static void stack_of_16_kib(void) {
  watch_start_without_loop();
  run_with_stack(16 * KiB, small_loop);
  say("joined");
  watch_stop();
}

const struct scenario stack_hosts[] = {
    {"alternate-stack-of-2048-bytes", alternate_2048},
    {"deep-handler-without-alternate-stack", deep_handler_without_alternate_stack},
    {"handler-on-its-alternate-stack", handler_on_its_alternate_stack},
    {"alternate-stacks-come-and-go", alternate_stacks_come_and_go},
    {"alternate-stack-queried-at-start", query_at_start},
    {"recovered-stack-overflow", recovered_overflow},
    {"coroutine-below-the-main-stack", coroutine_below_the_main_stack},
    {"coroutine-in-a-thread-stack", coroutine_in_a_thread_stack},
    {"coroutine-on-the-heap", coroutine_on_the_heap},
    {"recursion-to-3000-bytes-left", deep_recursion},
    {"loop-on-a-stack-of-16-kib", stack_of_16_kib},
    {NULL, NULL},
};
