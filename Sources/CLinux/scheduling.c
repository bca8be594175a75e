#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"

// The shortest that the kernel grants.
#define SLICE_NS 100000

// struct sched_attr of sched_setattr(2), version 0: glibc 2.36 does not declare it, and the kernel's header collides with <sched.h>.
struct attributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;
  uint64_t deadline;
  uint64_t period;
};

void clinux_thread_waits(long *sleeps, long *disk_faults, long *faults) {
  struct rusage usage = {0};
  getrusage(RUSAGE_THREAD, &usage);
  *sleeps = usage.ru_nvcsw;
  *disk_faults = usage.ru_majflt;
  *faults = usage.ru_minflt;
}

void clinux_request_short_slice(bool under_filter) {
  if (!under_filter && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0) return;
  struct attributes attributes = {0};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime = SLICE_NS;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}
