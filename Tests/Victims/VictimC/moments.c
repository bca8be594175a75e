#define _GNU_SOURCE
#include "victim_moments.h"

#include <alloca.h>
#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP_FRAME() __asm__ volatile("" : : : "memory")

// A thread's stack lies between two free areas: below its guard page, and right above it.
#define PAGE (size_t)4096
#define ROOM (size_t)(64 * 1024)
#define STACK (size_t)(512 * 1024)
#define MEMORY (ROOM + PAGE + STACK + ROOM)

struct victim_moment_thread {
  pthread_t handle;
  enum victim_moment moment;
  void (*prepare)(void);
  void (*body)(void);
  _Atomic int id;
  _Atomic bool inside, done;
  _Atomic unsigned long rounds;
  uint64_t outermost;
  char *stack;
};

static void burn(unsigned microseconds) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000000L + (now.tv_nsec - start.tv_nsec) / 1000 < microseconds);
}

static bool next(victim_moment_thread *t) {
  atomic_fetch_add(&t->rounds, 1);
  atomic_store(&t->inside, true);
  return !atomic_load(&t->done);
}

// -- The moments

static void allocate(victim_moment_thread *t) {
  void *kept[64] = {0};
  unsigned seed = 1;
  while (next(t)) {
    for (int i = 0; i < 200; i++) {
      seed = seed * 1103515245u + 12345u;
      free(kept[seed >> 10 & 63]);
      // Small ones from the thread's cache, large ones from the arena, and some from mmap.
      size_t size = (seed >> 16 & 15) == 0 ? 200000 : seed >> 20 & 4095;
      kept[seed >> 10 & 63] = malloc(size);
      if ((seed >> 24 & 31) == 0) kept[seed >> 10 & 63] = realloc(kept[seed >> 10 & 63], 2 * size + 1);
    }
  }
  for (int i = 0; i < 64; i++) free(kept[i]);
}

static void load(victim_moment_thread *t) {
  while (next(t)) {
    // Of the C library's own package, and used by nobody.
    void *library = dlopen("libBrokenLocale.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) abort();
    dlclose(library);
  }
}

static void fork_virtually(victim_moment_thread *t) {
  while (next(t)) {
    pid_t child = vfork();
    if (child == 0) {
      struct timespec time = {0, 500000};
      clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
      _exit(0);
    }
    if (child > 0) waitpid(child, NULL, 0);
  }
}

// It waits in clone(2) until the child runs the program.
static void spawn(victim_moment_thread *t) {
  char *arguments[] = {(char *)"true", NULL};
  while (next(t)) {
    pid_t child;
    if (posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0) waitpid(child, NULL, 0);
  }
}

__attribute__((noinline)) static void below_the_handler(void) {
  burn(150);
  KEEP_FRAME();
}

static void host_handler(int number) {
  (void)number;
  below_the_handler();
  struct timespec time = {0, 50000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

// Of ROOM bytes; NULL: none any more.
static void use_alternate_stack(void *memory) {
  stack_t stack = {.ss_sp = memory, .ss_size = ROOM, .ss_flags = memory == NULL ? SS_DISABLE : 0};
  sigaltstack(&stack, NULL);
}

// On the thread's own stack, or on an alternate one.
static void handle(victim_moment_thread *t, void *alternate) {
  int number = SIGRTMIN + 3;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = host_handler;
  action.sa_flags = alternate != NULL ? SA_ONSTACK : 0;
  sigaction(alternate != NULL ? ++number : number, &action, NULL);
  if (alternate != NULL) use_alternate_stack(alternate);
  while (next(t)) pthread_kill(pthread_self(), number);
  if (alternate != NULL) use_alternate_stack(NULL);
}

static __thread sigjmp_buf before_the_crash;

static void crash_handler(int number) {
  host_handler(number);
  siglongjmp(before_the_crash, 1);
}

__attribute__((noinline)) static void call_nothing_once(void) {
  void (*volatile nothing)(void) = NULL;
  nothing();
  KEEP_FRAME();
}

uint64_t victim_caller_of_nothing(void) { return (uint64_t)(uintptr_t)call_nothing_once; }

static void call_nothing(victim_moment_thread *t, void *alternate) {
  struct sigaction action, previous;
  memset(&action, 0, sizeof action);
  action.sa_handler = crash_handler;
  action.sa_flags = alternate != NULL ? SA_ONSTACK : 0;
  sigaction(SIGSEGV, &action, &previous);
  if (alternate != NULL) use_alternate_stack(alternate);
  while (next(t)) {
    if (sigsetjmp(before_the_crash, 1) == 0) call_nothing_once();
  }
  if (alternate != NULL) use_alternate_stack(NULL);
  sigaction(SIGSEGV, &previous, NULL);
}

__attribute__((noinline)) static void fill_stack(victim_moment_thread *t) {
  char *here = __builtin_frame_address(0);
  size_t left = (size_t)(here - t->stack);
  // Without a touch: only the frames below it are in the way.
  volatile char *gap = alloca(left - 3000);
  gap[0] = 0;
  while (next(t)) burn(20);
}

static void block_signals(victim_moment_thread *t) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  while (next(t)) {
    burn(3000);
    poll(NULL, 0, 1);
  }
}

__attribute__((noinline)) static unsigned descend(victim_moment_thread *t, unsigned depth) {
  unsigned result = 0;
  if (depth == 0) {
    burn(3);
    return 0;
  }
  // Up and down between 1000 and 1400 frames, with other frames each time.
  if (depth == 400) {
    while (next(t)) result += descend(t, 1 + (unsigned)(atomic_load(&t->rounds) % 399));
  } else {
    result = descend(t, depth - 1);
  }
  KEEP_FRAME();
  return result + 1;
}

static void map_memory(victim_moment_thread *t) {
  size_t size = 64u << 20;
  char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) abort();
  while (next(t)) {
    mprotect(memory, size, PROT_READ);
    mprotect(memory, size, PROT_READ | PROT_WRITE);
  }
  munmap(memory, size);
}

// Spins as long as the 16 words from the first argument on hold the second. Copied to where nothing is known of it.
#if defined(__x86_64__)
__asm__(".text\n"
        "foreign_code:\n"
        "push %rbp\n"
        "xor %ebp, %ebp\n"
        ".rept 8\n"
        "push $0\n"
        ".endr\n"
        "1: xor %ecx, %ecx\n"
        "2: cmp %rsi, (%rdi,%rcx,8)\n"
        "jne 3f\n"
        "inc %ecx\n"
        "cmp $16, %ecx\n"
        "jne 2b\n"
        "jmp 1b\n"
        "3: add $64, %rsp\n"
        "pop %rbp\n"
        "ret\n"
        "foreign_code_end:\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        "foreign_code:\n"
        "stp x29, x30, [sp, #-16]!\n"
        "mov x29, #0\n"
        ".rept 4\n"
        "stp xzr, xzr, [sp, #-16]!\n"
        ".endr\n"
        "1: mov x2, #0\n"
        "2: ldr x3, [x0, x2, lsl #3]\n"
        "cmp x3, x1\n"
        "b.ne 3f\n"
        "add x2, x2, #1\n"
        "cmp x2, #16\n"
        "b.ne 2b\n"
        "b 1b\n"
        "3: add sp, sp, #64\n"
        "ldp x29, x30, [sp], #16\n"
        "ret\n"
        "foreign_code_end:\n");
#else
#error "No code for this architecture."
#endif
extern const char foreign_code[], foreign_code_end[];

static void run_foreign_code(victim_moment_thread *t) {
  size_t size = ROOM;
  char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint64_t *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || stack == MAP_FAILED) abort();
  memcpy(memory, foreign_code, (size_t)(foreign_code_end - foreign_code));
  __builtin___clear_cache(memory, memory + size);
  // A signal is seen by what the kernel puts onto the alternate stack for its handler.
  uint64_t untouched = 0x756e746f75636865, *end = stack + size / sizeof *stack;
  for (int i = 1; i <= 16; i++) end[-i] = untouched;
  use_alternate_stack(stack);
  next(t);
  ((void (*)(const volatile uint64_t *, uint64_t))(uintptr_t)memory)(end - 16, untouched);
  while (next(t)) burn(20);
  use_alternate_stack(NULL);
  munmap(stack, size);
  munmap(memory, size);
}

static void be_called(victim_moment_thread *t) {
  while (next(t)) t->body();
}

// -- The thread

static void *moment_main(void *argument) {
  victim_moment_thread *t = argument;
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  if (t->prepare != NULL) t->prepare();
  t->outermost = (uint64_t)(uintptr_t)__builtin_return_address(0);
  atomic_store(&t->id, gettid());
  switch (t->moment) {
    case VICTIM_MALLOC: allocate(t); break;
    case VICTIM_DLOPEN: load(t); break;
    case VICTIM_VFORK: fork_virtually(t); break;
    case VICTIM_SPAWN: spawn(t); break;
    case VICTIM_HANDLER: handle(t, NULL); break;
    case VICTIM_HANDLER_ON_A_STACK_BELOW: handle(t, t->stack - PAGE - ROOM); break;
    case VICTIM_HANDLER_ON_A_STACK_ABOVE: handle(t, t->stack + STACK); break;
    case VICTIM_CALL_OF_NOTHING: call_nothing(t, NULL); break;
    case VICTIM_CALL_OF_NOTHING_WITH_A_STACK_BELOW: call_nothing(t, t->stack - PAGE - ROOM); break;
    case VICTIM_CALL_OF_NOTHING_WITH_A_STACK_ABOVE: call_nothing(t, t->stack + STACK); break;
    case VICTIM_FULL_STACK: fill_stack(t); break;
    case VICTIM_SIGNALS_BLOCKED: block_signals(t); break;
    case VICTIM_DEEP: descend(t, 1400); break;
    case VICTIM_MAPPING: map_memory(t); break;
    case VICTIM_FOREIGN_CODE: run_foreign_code(t); break;
    case VICTIM_BODY: be_called(t); break;
  }
  KEEP_FRAME();
  return NULL;
}

victim_moment_thread *victim_moment_start(enum victim_moment moment, void (*prepare)(void), void (*body)(void)) {
  victim_moment_thread *t = calloc(1, sizeof *t);
  t->moment = moment, t->prepare = prepare, t->body = body;
  char *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  mprotect(memory + ROOM, PAGE, PROT_NONE);
  t->stack = memory + ROOM + PAGE;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, t->stack, STACK);
  pthread_create(&t->handle, &attributes, moment_main, t);
  pthread_attr_destroy(&attributes);
  while (!atomic_load(&t->inside)) usleep(100);
  return t;
}

int victim_moment_id(const victim_moment_thread *thread) { return atomic_load(&thread->id); }
uint64_t victim_moment_outermost(const victim_moment_thread *thread) { return thread->outermost; }

unsigned long victim_moment_stop(victim_moment_thread *t) {
  atomic_store(&t->done, true);
  pthread_join(t->handle, NULL);
  unsigned long rounds = atomic_load(&t->rounds);
  munmap(t->stack - PAGE - ROOM, MEMORY);
  free(t);
  return rounds;
}

// -- Threads that come and go

struct victim_crowd {
  pthread_t handle;
  size_t count;
  _Atomic bool done;
  _Atomic int ids[64];
};

struct member {
  victim_crowd *crowd;
  size_t index;
};

static void *member_main(void *argument) {
  struct member *m = argument;
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  atomic_store(&m->crowd->ids[m->index], gettid());
  burn(300);
  poll(NULL, 0, 1);
  return NULL;
}

static void *crowd_main(void *argument) {
  victim_crowd *crowd = argument;
  while (!atomic_load(&crowd->done)) {
    pthread_t handles[64];
    struct member members[64];
    for (size_t i = 0; i < crowd->count; i++) {
      members[i] = (struct member){crowd, i};
      pthread_create(&handles[i], NULL, member_main, &members[i]);
    }
    for (size_t i = 0; i < crowd->count; i++) pthread_join(handles[i], NULL);
  }
  return NULL;
}

victim_crowd *victim_crowd_start(size_t count) {
  victim_crowd *crowd = calloc(1, sizeof *crowd);
  crowd->count = count < 64 ? count : 64;
  pthread_create(&crowd->handle, NULL, crowd_main, crowd);
  for (size_t i = 0; i < crowd->count; i++) {
    while (atomic_load(&crowd->ids[i]) == 0) usleep(100);
  }
  return crowd;
}

int victim_crowd_id(victim_crowd *crowd, size_t index) { return atomic_load(&crowd->ids[index % crowd->count]); }

void victim_crowd_stop(victim_crowd *crowd) {
  atomic_store(&crowd->done, true);
  pthread_join(crowd->handle, NULL);
  free(crowd);
}

// -- For single defects

__attribute__((noinline)) static long read_below_a_megabyte(int descriptor) {
  volatile char *gap = alloca(1 << 20);
  char byte = 0;
  gap[0] = 0;
  long result = read(descriptor, &byte, 1);
  KEEP_FRAME();
  return result + gap[0];
}

__attribute__((noinline)) static long first_caller(int descriptor, uint64_t *caller) {
here:
  *caller = (uint64_t)(uintptr_t)&&here;
  long result = read_below_a_megabyte(descriptor);
  KEEP_FRAME();
  return result;
}

__attribute__((noinline)) static long second_caller(int descriptor, uint64_t *caller) {
here:
  *caller = (uint64_t)(uintptr_t)&&here;
  long result = read_below_a_megabyte(descriptor) + 1;
  KEEP_FRAME();
  return result - 1;
}

long victim_read_far_below(int descriptor, bool second, uint64_t *caller) {
  long result = second ? second_caller(descriptor, caller) : first_caller(descriptor, caller);
  KEEP_FRAME();
  return result;
}

__attribute__((noinline, used)) long victim_read_below_a_gap(int descriptor, size_t gap) {
  volatile char *below = alloca(gap);
  char byte = 0;
  below[0] = 0;
  long result = read(descriptor, &byte, 1);
  KEEP_FRAME();
  return result + below[0];
}

// What a compiler may do that needs one more register.
#if defined(__x86_64__)
__asm__(".text\n"
        ".type number_in_frame_pointer,@function\n"
        "number_in_frame_pointer:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset rbp, -16\n"
        "mov $0x1234, %ebp\n"
        "call victim_read_below_a_gap\n"
        "after_the_call:\n"
        "pop %rbp\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size number_in_frame_pointer, . - number_in_frame_pointer\n"
        ".type number_in_frame_pointer_and_a_pointer,@function\n"
        "number_in_frame_pointer_and_a_pointer:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset rbp, -16\n"
        "mov $0x1234, %ebp\n"
        "call *%rdx\n"
        "after_the_call_of_a_pointer:\n"
        "pop %rbp\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size number_in_frame_pointer_and_a_pointer, . - number_in_frame_pointer_and_a_pointer\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".type number_in_frame_pointer,@function\n"
        "number_in_frame_pointer:\n"
        ".cfi_startproc\n"
        "stp x29, x30, [sp, #-16]!\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset x29, -16\n"
        ".cfi_offset x30, -8\n"
        "mov x29, #0x1234\n"
        "bl victim_read_below_a_gap\n"
        "after_the_call:\n"
        "ldp x29, x30, [sp], #16\n"
        ".cfi_restore x29\n"
        ".cfi_restore x30\n"
        ".cfi_def_cfa_offset 0\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size number_in_frame_pointer, . - number_in_frame_pointer\n"
        ".type number_in_frame_pointer_and_a_pointer,@function\n"
        "number_in_frame_pointer_and_a_pointer:\n"
        ".cfi_startproc\n"
        "stp x29, x30, [sp, #-16]!\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset x29, -16\n"
        ".cfi_offset x30, -8\n"
        "mov x29, #0x1234\n"
        "blr x2\n"
        "after_the_call_of_a_pointer:\n"
        "ldp x29, x30, [sp], #16\n"
        ".cfi_restore x29\n"
        ".cfi_restore x30\n"
        ".cfi_def_cfa_offset 0\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size number_in_frame_pointer_and_a_pointer, . - number_in_frame_pointer_and_a_pointer\n");
#else
#error "No code for this architecture."
#endif
long number_in_frame_pointer(int descriptor, size_t gap);
long number_in_frame_pointer_and_a_pointer(int descriptor, size_t gap, long (*function)(int, size_t));
extern const char after_the_call[], after_the_call_of_a_pointer[];

long victim_read_below_a_number(int descriptor, size_t gap, uint64_t *caller) {
  *caller = (uint64_t)(uintptr_t)after_the_call;
  long result = number_in_frame_pointer(descriptor, gap);
  KEEP_FRAME();
  return result;
}

// Calls itself, and leaves its frames below the stack.
__attribute__((noinline)) static unsigned long leave_frames(unsigned depth) {
  unsigned long below = depth > 0 ? leave_frames(depth - 1) : 0;
  KEEP_FRAME();
  return below + depth;
}

long victim_read_below_old_frames(int descriptor, size_t gap, uint64_t *caller) {
  *caller = (uint64_t)(uintptr_t)after_the_call_of_a_pointer;
  leave_frames(40);
  long result = number_in_frame_pointer_and_a_pointer(descriptor, gap, victim_read_below_a_gap);
  KEEP_FRAME();
  return result;
}

bool victim_child_says(bool (*body)(void)) {
  pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

bool victim_is_dumpable(void) { return prctl(PR_GET_DUMPABLE) == 1; }

bool victim_forbid_process_vm_readv(bool kill) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}
