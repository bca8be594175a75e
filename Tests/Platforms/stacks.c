// Threads that block in a known function, unwound by this system's C library and libunwind: each stack must be whole, and
// each function the right one. For systems that no Swift runs on. `scripts/test-platforms` builds and runs it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "CUnwind.h"
#include "capture.h"

// How long calls with a time limit block: longer where the machine is slow.
#ifndef BLOCK_MS
#define BLOCK_MS 80
#endif
#define DEPTHS 3
#define ROUNDS 2
static const int depths[DEPTHS] = {0, 1, 40};
static int ends[2], holding_file, waiting_file;
static char pipe_path[] = "/tmp/stacks-pipe.XXXXXX";
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int thread_id;

static void block_nanosleep(void) { nanosleep(&(struct timespec){0, BLOCK_MS * 1000000}, NULL); }
static void block_usleep(void) { usleep(BLOCK_MS * 1000); }
static void block_read(void) {
  char byte;
  if (read(ends[0], &byte, 1) < 0) perror("read");
}
static void block_poll(void) { poll(&(struct pollfd){.fd = -1}, 1, BLOCK_MS); }
static void block_select(void) { select(0, NULL, NULL, NULL, &(struct timeval){0, BLOCK_MS * 1000}); }
static void block_pause_like(void) { ppoll(NULL, 0, &(struct timespec){0, BLOCK_MS * 1000000}, NULL); }
static void block_semaphore(void) { sem_wait(&semaphore); }
static void block_condition(void) {
  pthread_mutex_lock(&mutex);
  pthread_cond_wait(&condition, &mutex);
  pthread_mutex_unlock(&mutex);
}
static void block_mutex(void) {
  pthread_mutex_lock(&other);
  pthread_mutex_unlock(&other);
}
// Functions of the C library that keep nothing on the stack.
static void block_syscall(void) { syscall(SYS_ppoll, NULL, 0, &(struct timespec){0, BLOCK_MS * 1000000}, NULL, 8); }
static volatile size_t area_length = 100;
__attribute__((noinline)) static void block_below_area(void) {
  volatile char area[area_length];
  area[0] = 1;
  syscall(SYS_ppoll, NULL, 0, &(struct timespec){0, BLOCK_MS * 1000000}, NULL, 8);
  area[0]++;
}
__attribute__((noinline)) static void block_flock(void) {
  flock(waiting_file, LOCK_EX);
  flock(waiting_file, LOCK_UN);
}
// Until the child runs the program, in clone3(2) or clone(2): the child waits for another to open the pipe.
static void block_spawn(void) {
  char *arguments[] = {(char *)"true", NULL};
  posix_spawn_file_actions_t actions;
  pid_t child;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, pipe_path, O_RDONLY, 0);
  if (posix_spawn(&child, "/bin/true", &actions, NULL, arguments, environ) == 0) waitpid(child, NULL, 0);
  posix_spawn_file_actions_destroy(&actions);
}
static void block_vfork(void) {
  pid_t child = vfork();
  if (child == 0) {
    nanosleep(&(struct timespec){0, BLOCK_MS * 1000000}, NULL);
    _exit(0);
  }
  if (child > 0) waitpid(child, NULL, 0);
}

static const struct {
  const char *name;
  void (*block)(void);
} leaves[] = {
    {"nanosleep", block_nanosleep}, {"usleep", block_usleep},       {"read", block_read},
    {"poll", block_poll},           {"select", block_select},       {"ppoll", block_pause_like},
    {"sem_wait", block_semaphore},  {"cond_wait", block_condition}, {"mutex", block_mutex},
    {"syscall", block_syscall},     {"flock", block_flock},         {"area", block_below_area},
    {"spawn", block_spawn},         {"vfork", block_vfork},
};
#define LEAVES (sizeof leaves / sizeof *leaves)

struct job {
  unsigned leaf;
  int depth;
};

__attribute__((noinline)) static int recurse(const struct job *job, int left) {
  volatile int here = left;
  // Of variable length, which moves the stack pointer behind the prologue.
  volatile char area[area_length * (size_t)(left + 1)];
  area[0] = 1;
  here += area[0];
  if (left > 0)
    here += recurse(job, left - 1);
  else if (leaves[job->leaf].block == block_below_area)
    // On aarch64 its caller is not found if this was a call through a pointer.
    block_below_area();
  else if (leaves[job->leaf].block == block_flock)
    // Nor here: `block_on_one_way` calls flock(2), too.
    block_flock();
  else
    leaves[job->leaf].block();
  return here;
}

static void *run(void *job) {
  atomic_store(&thread_id, (int)syscall(SYS_gettid));
  recurse(job, ((struct job *)job)->depth);
  return NULL;
}

static void wake(unsigned leaf) {
  if (leaf == 2 && write(ends[1], "", 1) < 0) perror("write");
  if (leaf == 6) sem_post(&semaphore);
  if (leaf == 7) pthread_mutex_lock(&mutex), pthread_cond_signal(&condition), pthread_mutex_unlock(&mutex);
  if (leaf == 8) pthread_mutex_unlock(&other);
  if (leaf == 10) flock(holding_file, LOCK_UN);
  if (leaf == 12) close(open(pipe_path, O_WRONLY | O_CLOEXEC));
}

static void *address_of(const void *function) { return (void *)(uintptr_t)cunwind_function_start(cunwind_own_process(), (uint64_t)(uintptr_t)function); }

// Frames of this program, innermost first: the blocking function, `recurse` depth + 1 times, and `run`.
static int check(const cunwind_frame *frames, cunwind_backtrace trace, const struct job *job) {
  if (trace.end != CUNWIND_END_OUTERMOST) return printf("%s, depth %d: not whole\n", leaves[job->leaf].name, job->depth), 1;
  int own = 0, bad = 0;
  uint64_t first = (uint64_t)(uintptr_t)address_of((const void *)leaves[job->leaf].block);
  uint64_t middle = (uint64_t)(uintptr_t)address_of((const void *)recurse);
  uint64_t last = (uint64_t)(uintptr_t)address_of((const void *)run);
  cunwind_module mine, module;
  cunwind_find_module(cunwind_own_process(), (uint64_t)(uintptr_t)run, &mine);
  for (size_t i = 0; i < trace.count; i++) {
    uint64_t at = frames[i].address - frames[i].is_return_address;
    if (!cunwind_find_module(cunwind_own_process(), at, &module) || module.start != mine.start) continue;
    uint64_t expected = own == 0 ? first : own <= job->depth + 1 ? middle : last;
    bad += cunwind_function_start(cunwind_own_process(), at) != expected;
    own++;
  }
  if (bad != 0 || own != job->depth + 3) {
    printf("%s, depth %d: %d frames of this program, %d of them wrong\n", leaves[job->leaf].name, job->depth, own, bad);
    return 1;
  }
  // The innermost frame of a system call is a function that the C library exports, and not one of its own.
  Dl_info info;
  uint64_t innermost = frames[0].address - frames[0].is_return_address;
  if (job->leaf <= 5 && (!dladdr((void *)(uintptr_t)innermost, &info) ||
                         (uint64_t)(uintptr_t)info.dli_saddr != cunwind_function_start(cunwind_own_process(), innermost)))
    return printf("%s: the innermost function has no name\n", leaves[job->leaf].name), 1;
  return 0;
}

static int start_of_calls(cunwind_unwinder *unwinder);

#if defined(__aarch64__)
static int target_of(const uint32_t *call, uint64_t *target) {
  if ((*call & 0xfc000000u) != 0x94000000u) return 0;
  *target = (uint64_t)(uintptr_t)call + (uint64_t)((int64_t)((uint64_t)*call << 38) >> 36);
  return 1;
}

// A thread at `pc`, that has been called by the instruction in front of `link` with the stack pointer `sp`, and has pushed `depth` bytes.
static int check_called(cunwind_unwinder *unwinder, uint64_t pc, uint64_t link, uint64_t sp, uint64_t frame_pointer, uint64_t depth) {
  static cunwind_frame frames[256];
  cunwind_snapshot snapshot;
  if (!cunwind_snapshot_claim(cunwind_own_process())) return puts("no snapshot"), 1;
  if (!cunwind_snapshot_read(cunwind_own_process(), sp - depth, 0, &snapshot)) return cunwind_snapshot_release(cunwind_own_process()), puts("no snapshot"), 1;
  memset(snapshot.registers, 0, sizeof snapshot.registers);
  snapshot.registers[CUNWIND_STACK_POINTER] = sp - depth;
  snapshot.registers[CUNWIND_PROGRAM_COUNTER] = pc;
  snapshot.registers[CUNWIND_LINK] = link;
  snapshot.registers[CUNWIND_FRAME_POINTER] = frame_pointer;
  snapshot.known = (1ull << CUNWIND_REGISTERS) - 1;
  cunwind_backtrace trace = cunwind_unwind(unwinder, &snapshot, frames, 256);
  cunwind_snapshot_release(cunwind_own_process());
  // An entry of a linkage table is left out.
  size_t caller = pc == 0 ? 1 : 0;
  if (trace.end == CUNWIND_END_OUTERMOST && !trace.approximate && trace.count > caller + 1 && frames[caller].address == link &&
      frames[caller].stack_pointer == sp &&
      cunwind_function_start(cunwind_own_process(), frames[caller + 1].address - 1) == (uint64_t)(uintptr_t)address_of((const void *)start_of_calls))
    return 0;
  return printf("called at %llx from %llx: wrong stack of %zu frames\n", (unsigned long long)pc, (unsigned long long)link, trace.count), 1;
}

// At each instruction of a linkage table's entry, of the table's first entry, and where no code is.
__attribute__((noinline)) static int check_entries(cunwind_unwinder *unwinder, int *checked) {
  uint64_t sp, frame_pointer, entry = 0, link = 0, first = 0, at;
  int bad = 0;
  __asm__ volatile("mov %0, sp\n mov %1, x29" : "=r"(sp), "=r"(frame_pointer));
  // Never called, so that the entry still leads to the first one.
  if (unwinder == NULL) abort();
  for (const uint32_t *code = (const uint32_t *)(uintptr_t)check_entries; entry == 0; code++)
    if (target_of(code, &at) && cunwind_function_start(cunwind_own_process(), at) != at) entry = at, link = (uint64_t)(uintptr_t)(code + 1);
  for (at = entry;; at += 4) {
    uint32_t code = *(const uint32_t *)(uintptr_t)at;
    bad += check_called(unwinder, at, link, sp, frame_pointer, 0), ++*checked;
    if ((code & 0xfffffc1fu) == 0xd61f0000u) break;
    if ((code & 0x9f00001fu) == 0x90000010u) first = (at & ~0xfffull) + ((uint64_t)((int64_t)((uint64_t)code << 40) >> 45) * 4 + (code >> 29 & 3)) * 4096;
    if ((code & 0xffc003ffu) == 0xf9400211u) first = *(const uint64_t *)(uintptr_t)(first + (code >> 10 & 0xfff) * 8);
  }
  cunwind_module mine, module;
  cunwind_find_module(cunwind_own_process(), entry, &mine);
  if (cunwind_find_module(cunwind_own_process(), first, &module) && module.start == mine.start) {
    uint64_t depth = 0;
    for (at = first;; at += 4) {
      uint32_t code = *(const uint32_t *)(uintptr_t)at;
      bad += check_called(unwinder, at, link, sp, frame_pointer, depth), ++*checked;
      if (code == 0xa9bf7bf0u) depth = 16;
      if ((code & 0xfffffc1fu) == 0xd61f0000u) break;
    }
  }
  bad += check_called(unwinder, 0, link, sp, frame_pointer, 0), ++*checked;
  return bad;
}

__attribute__((noinline)) static int start_of_calls(cunwind_unwinder *unwinder) {
  int checked = 0, bad = check_entries(unwinder, &checked);
  printf("%d places in linkage tables and without code, %d of them wrong\n", checked, bad);
  return bad;
}
#else
static int start_of_calls(cunwind_unwinder *unwinder) { return (void)unwinder, 0; }
#endif

// -- The end of a stack

static cunwind_unwinder *own_unwinder;

// Unwinds a thread of which only these registers are known, and the stack from `sp` on.
static cunwind_backtrace unwind_at(uint64_t pc, uint64_t sp, uint64_t frame_pointer, uint64_t link, cunwind_frame frames[256]) {
  cunwind_snapshot snapshot;
  cunwind_backtrace trace = {.end = CUNWIND_END_LIMIT};
  if (!cunwind_snapshot_claim(cunwind_own_process())) return trace;
  if (cunwind_snapshot_read(cunwind_own_process(), sp, 0, &snapshot)) {
    memset(snapshot.registers, 0, sizeof snapshot.registers);
    snapshot.registers[CUNWIND_PROGRAM_COUNTER] = pc;
    snapshot.registers[CUNWIND_STACK_POINTER] = sp;
    snapshot.registers[CUNWIND_FRAME_POINTER] = frame_pointer;
#if defined(__aarch64__)
    snapshot.registers[CUNWIND_LINK] = link;
#else
    (void)link;
#endif
    snapshot.known = (1ull << CUNWIND_REGISTERS) - 1;
    trace = cunwind_unwind(own_unwinder, &snapshot, frames, 256);
  }
  cunwind_snapshot_release(cunwind_own_process());
  return trace;
}

// The place of a frame of `function`; 0 if the stack has none.
static size_t place_of(const cunwind_frame *frames, cunwind_backtrace trace, const void *function) {
  for (size_t i = 1; i < trace.count; i++)
    if (cunwind_function_start(cunwind_own_process(), frames[i].address - frames[i].is_return_address) == (uint64_t)(uintptr_t)address_of(function)) return i;
  return 0;
}

static int is_wrong(const char *what, int is_right, cunwind_backtrace trace) {
  if (!is_right) printf("%s: wrong stack of %zu frames, end %d\n", what, trace.count, trace.end);
  return !is_right;
}

static _Atomic int ends_wrong;
static uint64_t stale_link;
__attribute__((noinline)) static int check_ends(void);

// In the system call by which a handler returns, when the kernel has restored the link, and neither
// the program counter nor the stack pointer. The link leads to a function that has returned before.
static void check_signal_return(int number, siginfo_t *information, void *context) {
  (void)number;
#if defined(__aarch64__)
  uint64_t frame = (uint64_t)(uintptr_t)information, in_call = 8;
  (void)context;
#else
  uint64_t frame = (uint64_t)(uintptr_t)context, in_call = 9;
  (void)information;
#endif
  static cunwind_frame frames[256];
  uint64_t pc = (uint64_t)(uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)) + in_call;
  cunwind_backtrace trace = unwind_at(pc, frame, 0, stale_link, frames);
  int is_right = trace.end == CUNWIND_END_OUTERMOST && !trace.approximate && trace.count > 2 && !frames[1].is_return_address &&
                 place_of(frames, trace, (const void *)check_ends) > 1;
  atomic_fetch_add(&ends_wrong, is_wrong("in the return of a handler", is_right, trace));
}

// Code of a module that is gone, called by a function whose return address is 0. The caller is a
// guess, and so is the end.
static void check_zero_behind_guess(void) {
  static cunwind_frame frames[256];
  static uint64_t stack[256];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *gone = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(gone, page);
  memset(stack, 0, sizeof stack);
  stack[0] = stale_link;
  cunwind_backtrace trace =
      unwind_at((uint64_t)(uintptr_t)gone + 64, (uint64_t)(uintptr_t)stack, (uint64_t)(uintptr_t)(stack + 128), stale_link, frames);
  int is_right = trace.end == CUNWIND_END_LOST && trace.approximate && trace.count == 2 && frames[1].address == stale_link;
  atomic_fetch_add(&ends_wrong, is_wrong("a zero after a guess", is_right, trace));
}

// Calls a function with 0 in the frame pointer's register, which it could use for something else.
void call_with_zero(void (*function)(void));
#if defined(__aarch64__)
__asm__(".text\n.globl call_with_zero\n.type call_with_zero, %function\ncall_with_zero:\n.cfi_startproc\n"
        "hint #34\nstp x29, x30, [sp, #-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset x29, -16\n.cfi_offset x30, -8\n"
        "mov x29, #0\nblr x0\nldp x29, x30, [sp], #16\n.cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\nret\n"
        ".cfi_endproc\n.size call_with_zero, . - call_with_zero\n");
#else
__asm__(".text\n.globl call_with_zero\n.type call_with_zero, @function\ncall_with_zero:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\nxor %ebp, %ebp\ncall *%rdi\npop %rbp\n.cfi_def_cfa_offset 8\n"
        ".cfi_restore %rbp\nret\n.cfi_endproc\n.size call_with_zero, . - call_with_zero\n");
#endif

__attribute__((noinline)) static void check_zero_frame_pointer(void) {
  static cunwind_frame frames[256];
  uint64_t pc, sp, frame_pointer;
#if defined(__aarch64__)
  __asm__ volatile("adr %0, .\n mov %1, sp\n mov %2, x29" : "=r"(pc), "=r"(sp), "=r"(frame_pointer));
#else
  __asm__ volatile("lea 0(%%rip), %0\n mov %%rsp, %1\n mov %%rbp, %2" : "=r"(pc), "=r"(sp), "=r"(frame_pointer));
#endif
  cunwind_backtrace trace = unwind_at(pc, sp, frame_pointer, 0, frames);
  int is_right = trace.end == CUNWIND_END_OUTERMOST && !trace.approximate && place_of(frames, trace, (const void *)call_with_zero) == 1 &&
                 place_of(frames, trace, (const void *)check_ends) == 2;
  atomic_fetch_add(&ends_wrong, is_wrong("a caller whose frame pointer is 0", is_right, trace));
}

// -- Code that was patched

#if defined(__aarch64__)
// Has no unwind table, and a `nop` in its beginning, as functions of the vDSO have that the kernel patches.
void call_behind_nop(void (*function)(void));
__asm__(".text\n.globl call_behind_nop\n.type call_behind_nop, %function\ncall_behind_nop:\n"
        "hint #25\nstp x29, x30, [sp, #-32]!\nmov x29, sp\nstr x19, [sp, #16]\nmov x19, x0\nnop\nstr xzr, [sp, #24]\n"
        "blr x19\nldr x19, [sp, #16]\nldp x29, x30, [sp], #32\nhint #29\nret\n.size call_behind_nop, . - call_behind_nop\n");

static int patched_wrong;
__attribute__((noinline)) static int check_patched(void);

__attribute__((noinline)) static void check_caller(void) {
  static cunwind_frame frames[256];
  uint64_t pc, sp, frame_pointer;
  __asm__ volatile("adr %0, .\n mov %1, sp\n mov %2, x29" : "=r"(pc), "=r"(sp), "=r"(frame_pointer));
  cunwind_backtrace trace = unwind_at(pc, sp, frame_pointer, 0, frames);
  uint64_t into_caller = trace.count > 1 ? frames[1].address - (uint64_t)(uintptr_t)call_behind_nop : 0;
  int is_right = trace.end == CUNWIND_END_OUTERMOST && !trace.approximate && into_caller == 32 &&
                 place_of(frames, trace, (const void *)check_patched) == 2;
  patched_wrong = is_wrong("a caller with a nop in its beginning", is_right, trace);
}

__attribute__((noinline)) static int check_patched(void) {
  call_behind_nop(check_caller);
  printf("1 caller with patched code, %d of them wrong\n", patched_wrong);
  return patched_wrong;
}
#else
static int check_patched(void) { return 0; }
#endif

// -- Two ways to one call

static volatile int takes_second_way;
static uint64_t behind_first_call;

__attribute__((noinline)) static void on_the_way(volatile int *where) {
  if (*where == 3) behind_first_call = (uint64_t)(uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0));
}

// A value that the compiler makes here and not before.
#define KEPT_HERE(value) __asm__ volatile("" : "+r"(value))

// Blocks in its first call, whose argument is not what the instructions in front of it put there; that of the second could be anything.
__attribute__((noinline)) static void block_on_one_way(int last) {
  volatile int where = 1;
  int operation;
  if (takes_second_way) {
    on_the_way(&where);
    operation = LOCK_EX;
    KEPT_HERE(operation);
  } else {
    where = 2;
    on_the_way(&where);
    operation = LOCK_SH;
    KEPT_HERE(operation);
  }
  flock(waiting_file, operation);
  where = 3;
  on_the_way(&where);
  flock(waiting_file, last);
}

static void *run_one_way(void *ignored) {
  atomic_store(&thread_id, (int)syscall(SYS_gettid));
  block_on_one_way(LOCK_UN);
  return ignored;
}

// Starts a thread whose body sets `thread_id` and blocks, and captures it.
static int start_and_capture(cunwind_unwinder *unwinder, void *(*body)(void *), void *argument, pthread_t *thread,
                             cunwind_frame frames[256], cunwind_backtrace *trace) {
  atomic_store(&thread_id, 0);
  if (pthread_create(thread, NULL, body, argument) != 0) abort();
  while (atomic_load(&thread_id) == 0) usleep(1000);
  usleep(10000);
  return capture(unwinder, atomic_load(&thread_id), frames, 256, trace);
}

static int check_ways(cunwind_unwinder *unwinder) {
  static cunwind_frame frames[256];
  int wrong = 0;
  for (takes_second_way = 0; takes_second_way < 2; takes_second_way++) {
    block_on_one_way(LOCK_UN);
    cunwind_backtrace trace;
    pthread_t thread;
    flock(holding_file, LOCK_EX);
    int captured = start_and_capture(unwinder, run_one_way, NULL, &thread, frames, &trace);
    flock(holding_file, LOCK_UN);
    pthread_join(thread, NULL);
    // A stack that says so may be short or inexact.
    int is_right = captured == MOVED || trace.approximate || trace.end != CUNWIND_END_OUTERMOST ||
                   (place_of(frames, trace, (const void *)block_on_one_way) == 1 && frames[1].address < behind_first_call);
    wrong += is_wrong("two ways to one call", is_right, trace);
  }
  printf("2 ways to one call, %d of them wrong\n", wrong);
  return wrong;
}

// -- What an earlier call has left on the stack

__attribute__((noinline)) static void lock_at_once(void) {
  flock(waiting_file, LOCK_EX);
  flock(waiting_file, LOCK_UN);
}
__attribute__((noinline)) static void call_lock_at_once(void) {
  lock_at_once();
  __asm__ volatile("");
}

// Its frame is as large as those of both functions above, and the lower half is not written to: there lies the return address of
// `lock_at_once`, which passed the same arguments.
__attribute__((noinline)) static void block_above_rest(void) {
  volatile char area[16];
  __asm__ volatile("" : : "r"(area));
  flock(waiting_file, LOCK_EX);
  flock(waiting_file, LOCK_UN);
}

static void *run_above_rest(void *ignored) {
  call_lock_at_once();
  flock(holding_file, LOCK_EX);
  atomic_store(&thread_id, (int)syscall(SYS_gettid));
  block_above_rest();
  return ignored;
}

static int check_rest(cunwind_unwinder *unwinder) {
  static cunwind_frame frames[256];
  cunwind_backtrace trace = {.end = CUNWIND_END_LOST};
  pthread_t thread;
  int captured = start_and_capture(unwinder, run_above_rest, NULL, &thread, frames, &trace);
  flock(holding_file, LOCK_UN);
  pthread_join(thread, NULL);
  // A stack that says so may be short or inexact.
  int is_right = captured == MOVED || trace.approximate || trace.end != CUNWIND_END_OUTERMOST ||
                 (place_of(frames, trace, (const void *)block_above_rest) == 1 && place_of(frames, trace, (const void *)run_above_rest) == 2);
  int wrong = is_wrong("the rest of an earlier call", is_right, trace);
  printf("1 stack above the rest of an earlier call, %d of them wrong\n", wrong);
  return wrong;
}

// -- Callers that use the frame pointer for something else

#if defined(__x86_64__)
// Calls a function with `value` in the frame pointer's register, and these arguments.
void call_keeping(uint64_t value, void (*function)(void), uint64_t first, void (*second)(void));
__asm__(".text\n.globl call_keeping\n.type call_keeping, @function\ncall_keeping:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\nmov %rdi, %rbp\nmov %rsi, %rax\nmov %rdx, %rdi\nmov %rcx, %rsi\n"
        "call *%rax\npop %rbp\n.cfi_def_cfa_offset 8\n.cfi_restore %rbp\nret\n.cfi_endproc\n.size call_keeping, . - call_keeping\n");

// Of its callers, the inner one has a number there, and the outer one an address on the stack, which is no frame's.
static void *run_below_kept(void *ignored) {
  volatile uint64_t words[16] = {0};
  atomic_store(&thread_id, (int)syscall(SYS_gettid));
  call_keeping((uint64_t)(uintptr_t)&words[4], (void (*)(void))call_keeping, 5, block_below_area);
  return words[0] == 0 ? ignored : NULL;
}

static int check_kept(cunwind_unwinder *unwinder) {
  static cunwind_frame frames[256];
  const void *expected[] = {(const void *)block_below_area, (const void *)call_keeping, (const void *)call_keeping,
                            (const void *)run_below_kept};
  const size_t count = sizeof expected / sizeof *expected;
  cunwind_backtrace trace = {.end = CUNWIND_END_LOST};
  pthread_t thread;
  int captured = start_and_capture(unwinder, run_below_kept, NULL, &thread, frames, &trace);
  pthread_join(thread, NULL);
  size_t first = place_of(frames, trace, expected[0]), right = 0;
  while (right < count && first + right < trace.count &&
         cunwind_function_start(cunwind_own_process(), frames[first + right].address - 1) == (uint64_t)(uintptr_t)address_of(expected[right]))
    right++;
  int wrong = is_wrong("callers that use the frame pointer", captured == MOVED || (right == count && trace.end == CUNWIND_END_OUTERMOST), trace);
  printf("1 stack below callers that use the frame pointer, %d of them wrong\n", wrong);
  return wrong;
}
#else
static int check_kept(cunwind_unwinder *unwinder) { return (void)unwinder, 0; }
#endif

// Keeps its own return address, so that the caller has one behind a call through a pointer.
__attribute__((noinline)) static void note_link(void) { stale_link = (uint64_t)(uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)); }

__attribute__((noinline)) static int check_ends(void) {
  void (*volatile note)(void) = note_link;
  note();
  struct sigaction action = {.sa_sigaction = check_signal_return, .sa_flags = SA_SIGINFO};
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  check_zero_behind_guess();
  call_with_zero(check_zero_frame_pointer);
  printf("3 ends of stacks, %d of them wrong\n", atomic_load(&ends_wrong));
  return atomic_load(&ends_wrong);
}

int main(void) {
  const char *problem = cunwind_load();
  if (problem != NULL) return puts(problem), 2;
  cunwind_memory_prepare();
  cunwind_unwinder *unwinder = cunwind_unwinder_create(cunwind_own_process());
  int bad = 0, captures = 0;
  if (pipe(ends) != 0) return 1;
  char path[] = "/tmp/stacks.XXXXXX";
  holding_file = mkstemp(path);
  waiting_file = open(path, O_RDWR | O_CLOEXEC);
  unlink(path);
  if (holding_file < 0 || waiting_file < 0) return 1;
  close(mkstemp(pipe_path));
  unlink(pipe_path);
  if (mkfifo(pipe_path, 0600) != 0) return 1;
  sem_init(&semaphore, 0, 0);
  for (int by_list = 0; by_list < 2; by_list++) {
    cunwind_use_module_list(by_list);
    for (unsigned leaf = 0; leaf < LEAVES; leaf++)
      for (int depth = 0; depth < DEPTHS; depth++) {
        int round = 0;
        for (int tries = 0; round < ROUNDS && tries < 10 * ROUNDS; tries++) {
          struct job job = {leaf, depths[depth]};
          pthread_t thread;
          if (leaf == 8) pthread_mutex_lock(&other);
          if (leaf == 10) flock(holding_file, LOCK_EX);
          static cunwind_frame frames[256];
          cunwind_backtrace trace;
          int captured = start_and_capture(unwinder, run, &job, &thread, frames, &trace);
          if (captured != MOVED) bad += captured == FAILED || check(frames, trace, &job), captures++, round++;
          wake(leaf);
          pthread_join(thread, NULL);
        }
        if (round < ROUNDS) printf("%s, depth %d: not blocked for long enough to be captured\n", leaves[leaf].name, depths[depth]);
      }
  }
  unlink(pipe_path);
  printf("%d stacks, %d of them wrong\n", captures, bad);
  bad += start_of_calls(unwinder);
  own_unwinder = unwinder;
  bad += check_ends();
  bad += check_patched();
  bad += check_ways(unwinder);
  bad += check_rest(unwinder);
  bad += check_kept(unwinder);
  return bad != 0 || captures != 2 * (int)LEAVES * DEPTHS * ROUNDS;
}
