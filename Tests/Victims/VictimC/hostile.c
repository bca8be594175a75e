#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "VictimC.h"

int victim_poll_letting_in(int number, unsigned milliseconds) {
  sigset_t set, none;
  sigemptyset(&none);
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_kill(pthread_self(), number);
  struct timespec timeout = {0, (long)milliseconds * 1000000};
  int result = ppoll(NULL, 0, &timeout, &none);
  return result < 0 ? -errno : result;
}

static ucontext_t outside, inside;
static unsigned inside_ms;

static void compute_inside(void) {
  victim_c_compute(inside_ms);
  swapcontext(&inside, &outside);
}

// Below each stack that is made here: a page that cannot be touched, and below that space for
// another stack.
#define ROOM_BELOW ((size_t)64 << 10)

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

bool victim_compute_on_a_stack_below(unsigned milliseconds) {
  pthread_attr_t attributes;
  void *lowest;
  size_t own;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
  pthread_attr_getstack(&attributes, &lowest, &own);
  pthread_attr_destroy(&attributes);
  getcontext(&inside);
  inside.uc_stack.ss_sp = (char *)lowest - page_size() - ROOM_BELOW;
  inside.uc_stack.ss_size = ROOM_BELOW, inside.uc_link = &outside;
  inside_ms = milliseconds;
  makecontext(&inside, compute_inside, 0);
  return swapcontext(&outside, &inside) == 0;
}

static void *run_body(void *body) {
  ((void (*)(void))body)();
  return NULL;
}

bool victim_run_on_a_stack_of(size_t size, void (*body)(void)) {
  size_t below = ROOM_BELOW + page_size();
  char *memory = mmap(NULL, below + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + ROOM_BELOW, page_size(), PROT_NONE) != 0) return false;
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  bool made = pthread_attr_setstack(&attributes, memory + below, size) == 0 &&
              pthread_create(&thread, &attributes, run_body, (void *)body) == 0;
  pthread_attr_destroy(&attributes);
  if (made) pthread_join(thread, NULL);
  munmap(memory, below + size);
  return made;
}

void victim_compute_near_the_end_of_the_stack(unsigned milliseconds, size_t left) {
  // The loader looks its functions up in the first call, on this stack.
  victim_c_compute(1);
  pthread_attr_t attributes;
  void *lowest;
  size_t size;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  volatile char here;
  size_t depth = (size_t)((char *)&here - (char *)lowest);
  if (depth > left + 512) memset(alloca(depth - left - 512), 0, 64);
  victim_c_compute(milliseconds);
}

int victim_set_alternate_stack(size_t size) {
  stack_t stack = {.ss_sp = malloc(size), .ss_size = size};
  return sigaltstack(&stack, NULL);
}

static size_t handler_bytes;

static void large_handler(int number) {
  (void)number;
  volatile char *bytes = alloca(handler_bytes);
  for (size_t i = 0; i < handler_bytes; i += 1024) bytes[i] = 1;
}

void victim_run_handler_on_stack(size_t bytes) {
  handler_bytes = bytes;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = large_handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR2, &action, NULL);
  pthread_kill(pthread_self(), SIGUSR2);
}

static sigset_t real_time_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  for (int number = SIGRTMIN; number <= SIGRTMAX; number++) sigaddset(&set, number);
  return set;
}

void victim_block_real_time_signals(void) {
  sigset_t set = real_time_signals();
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int victim_read_real_time_signals(unsigned milliseconds, int *sent) {
  sigset_t set = real_time_signals();
  int descriptor = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), arrived = 0;
  *sent = 0;
  for (int round = 0; round < 8; round++) {
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
      union sigval value = {.sival_int = round};
      if (pthread_sigqueue(pthread_self(), number, value) == 0) ++*sent;
    }
    victim_c_compute(milliseconds / 8);
  }
  struct signalfd_siginfo info;
  while (read(descriptor, &info, sizeof info) == sizeof info) arrived++;
  close(descriptor);
  return arrived;
}
