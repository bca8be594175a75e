#include "files.h"

#include <sys/syscall.h>
#include <unistd.h>

// Swift's Static Linux SDK lacks the header. The command, which alone calls this, is not built with it.
#if __has_include(<linux/stat.h>)
#include <linux/stat.h>

int64_t clinux_birth_time(int descriptor) {
  struct statx facts;
  // AT_EMPTY_PATH, for _GNU_SOURCE alone, with which musl declares the same structure.
  if (syscall(SYS_statx, descriptor, "", 0x1000, STATX_BTIME, &facts) != 0) return 0;
  return facts.stx_mask & STATX_BTIME ? facts.stx_btime.tv_sec : 0;
}
#else
int64_t clinux_birth_time(int descriptor) {
  (void)descriptor;
  return 0;
}
#endif
