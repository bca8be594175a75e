// statx(2), which glibc shows for _GNU_SOURCE alone. It can go when Swift's Glibc module shows it.
#ifndef CLINUX_FILES_H
#define CLINUX_FILES_H

#include <fcntl.h>
#include <linux/stat.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/// When a file was made, in seconds since 1970; 0 where its file system does not keep that.
static inline int64_t clinux_birth_time(int descriptor) {
  struct statx facts;
  // AT_EMPTY_PATH is hidden in the same way.
  if (syscall(SYS_statx, descriptor, "", 0x1000, STATX_BTIME, &facts) != 0) return 0;
  return facts.stx_mask & STATX_BTIME ? facts.stx_btime.tv_sec : 0;
}

#endif
