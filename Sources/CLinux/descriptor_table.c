#define _GNU_SOURCE
#include "descriptor_table.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "close_range.h"

#define CLOSE_RANGE_UNSHARE_FLAG (1u << 1)

static _Atomic uint32_t last_table;
static __thread uint32_t own_table __attribute__((tls_model("initial-exec")));

uint32_t clinux_descriptor_table(void) { return own_table; }

void clinux_inherit_descriptor_table(uint32_t number) { own_table = number; }

// The call is not tried on a kernel before Linux 5.9: a seccomp filter of that time may kill the process for a call that it does not know.
static bool kernel_has_close_range(void) {
  struct utsname name;
  unsigned major = 0, minor = 0;
  if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 9);
}

bool clinux_enter_own_descriptor_table(int kept) {
  if (!kernel_has_close_range()) return false;
  // Numbers above `kept` are not copied; those below it are closed in the copy.
  unsigned first = kept < 0 ? 0 : (unsigned)kept + 1;
  if (syscall(SYS_close_range, first, ~0u, CLOSE_RANGE_UNSHARE_FLAG) != 0) return false;
  if (kept > 3) syscall(SYS_close_range, 3u, (unsigned)kept - 1, 0u);
  own_table = atomic_fetch_add(&last_table, 1) + 1;
  // Every write to an epoll descriptor fails.
  int dead = epoll_create1(EPOLL_CLOEXEC);
  for (int number = 0; number <= 2; number++)
    if (number != kept && number != dead && (dead < 0 || dup3(dead, number, O_CLOEXEC) < 0)) close(number);
  if (dead > 2 || dead == kept) close(dead);
  return true;
}
