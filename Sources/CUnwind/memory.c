// The own process's memory.
#define _GNU_SOURCE
#include "process_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "architecture.h"

// /proc/self/mem as it was when the calling thread prepared, or -1.
// Each thread that reads has its own, because a thread may have a descriptor table of its own. The mem file of a forked
// child's parent reads the parent's memory, so the process is kept with it.
static __thread struct {
  bool is_open;
  int file;
  dev_t device;
  ino_t inode;
  pid_t process;
} memory __attribute__((tls_model("initial-exec")));

static bool file_is_ours(void) {
  struct stat status;
  return memory.is_open && memory.process == getpid() && fstat(memory.file, &status) == 0 &&
         status.st_dev == memory.device && status.st_ino == memory.inode;
}

void cunwind_memory_prepare(void) {
  if (!file_is_ours()) {
    // A descriptor that the process has closed, and perhaps given to another file, is not ours to close.
    memory.file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    struct stat status;
    memory.is_open = memory.file >= 0 && fstat(memory.file, &status) == 0;
    if (memory.is_open) memory.device = status.st_dev, memory.inode = status.st_ino, memory.process = getpid();
  }
}

void cunwind_memory_finish(void) {
  if (file_is_ours()) close(memory.file);
  memory.is_open = false;
}

// The kernel checks each page, so a page that another thread unmaps is an error code and not a fault. A filter may kill
// for process_vm_readv, and may be installed for all threads in the middle of a capture; pread is allowed wherever
// anything is.
static long read_raw(uint64_t address, void *buffer, size_t length) {
  if (memory.is_open) {
    return cunwind_raw_call(SYS_pread64, memory.file, (long)buffer, (long)length, (long)address, 0, 0);
  }
  if (prctl(PR_GET_SECCOMP) > 0) return -EPERM;
  struct iovec local = {buffer, length}, remote = {(void *)(uintptr_t)address, length};
  long self = cunwind_raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
  return cunwind_raw_call(SYS_process_vm_readv, self, (long)&local, 1, (long)&remote, 1, 0);
}

size_t cunwind_own_read(const cunwind_process *process, uint64_t address, void *buffer, size_t length) {
  (void)process;
  size_t done = 0;
  while (done < length) {
    // A read that crosses into an unreadable page stops at the page before it.
    long n = read_raw(address + done, (char *)buffer + done, length - done);
    if (n <= 0) break;
    done += (size_t)n;
  }
  return done;
}
