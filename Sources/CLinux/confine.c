#define _GNU_SOURCE
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "close_range.h"

void clinux_close_from(int first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1 << 20) limit.rlim_cur = 1 << 20;
  for (int number = first; number < (int)limit.rlim_cur; number++) close(number);
}

int clinux_open_directory(int at, const char *path) {
  return openat(at < 0 ? AT_FDCWD : at, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool set_limit(int which, rlim_t value) {
  struct rlimit limit;
  if (getrlimit(which, &limit) != 0) return false;
  if (value < limit.rlim_max) limit.rlim_max = value;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(which, &limit) == 0;
}

bool clinux_limit_worker(size_t address_space, size_t descriptors, int niceness) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // Receiving lines has priority, and if there is not enough memory for both, the agent survives.
  setpriority(PRIO_PROCESS, 0, niceness);
  int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file >= 0) {
    (void)!write(file, "1000", 4);
    close(file);
  }
  return set_limit(RLIMIT_AS, address_space) & set_limit(RLIMIT_NOFILE, descriptors) & set_limit(RLIMIT_FSIZE, 0)
      & set_limit(RLIMIT_CORE, 0);
}

#if !__has_include(<linux/seccomp.h>)
// Swift's Static Linux SDK lacks the header. The command, which alone calls this, is not built with it.
bool clinux_forbid_other_calls(void) { return false; }
#else

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#warning "unknown audit architecture: the process that reads symbol files runs without a system-call filter"
#endif

// What memory, time and the reading of files need.
static const int allowed[] = {
#ifdef SYS_open
    // Newer architectures lack these and open(2), which is allowed below if it is for reading.
    SYS_access, SYS_readlink, SYS_stat, SYS_lstat, SYS_poll, SYS_time, SYS_getdents,
#endif
#ifdef SYS_newfstatat
    SYS_newfstatat,
#endif
#ifdef SYS_statx
    SYS_statx,
#endif
#ifdef SYS_rseq
    SYS_rseq,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_lseek, SYS_close, SYS_fstat, SYS_faccessat,
    SYS_readlinkat, SYS_getdents64, SYS_ppoll, SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise, SYS_munlock, SYS_mincore,
    SYS_futex, SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_nanosleep, SYS_clock_nanosleep, SYS_getrandom,
    SYS_getpid, SYS_gettid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrusage, SYS_sysinfo, SYS_uname,
    SYS_sched_yield, SYS_sched_getaffinity, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,
    SYS_set_robust_list, SYS_restart_syscall, SYS_exit, SYS_exit_group,
};

// Calls with an argument that decides: allowed if no bit of `mask` differs from `value` in it.
static const struct {
  int call;
  unsigned argument;
  unsigned mask, value;
} decided[] = {
#ifdef SYS_open
    {SYS_open, 1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY},
#endif
    {SYS_openat, 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY},
    {SYS_mmap, 2, PROT_EXEC, 0},
    {SYS_mprotect, 2, PROT_EXEC, 0},
    {SYS_fcntl, 1, ~0u, F_DUPFD_CLOEXEC},
};

enum { ALLOWED = sizeof allowed / sizeof *allowed, DECIDED = sizeof decided / sizeof *decided };

bool clinux_forbid_other_calls(void) {
#ifdef OWN_ARCHITECTURE
  struct sock_filter filter[8 + 2 * ALLOWED + 6 * DECIDED];
  unsigned short count = 0;
  const unsigned refuse = SECCOMP_RET_ERRNO | EPERM;
#define ADD(...) filter[count++] = (struct sock_filter)__VA_ARGS__
  ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
  ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0));
  ADD(BPF_STMT(BPF_RET | BPF_K, refuse));
  ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
  for (size_t i = 0; i < ALLOWED; i++) {
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  for (size_t i = 0; i < DECIDED; i++) {
    // The lower half of the argument, as the kernel takes an int. s390 also passes a structure to mmap(2).
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half of an argument is not its first");
    unsigned offset = (unsigned)(offsetof(struct seccomp_data, args) + 8 * decided[i].argument);
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)decided[i].call, 0, 5));
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
    ADD(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, decided[i].mask));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, decided[i].value, 0, 1));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    ADD(BPF_STMT(BPF_RET | BPF_K, refuse));
  }
  ADD(BPF_STMT(BPF_RET | BPF_K, refuse));
#undef ADD
  struct sock_fprog program = {.len = count, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
#else
  return false;
#endif
}

#endif
