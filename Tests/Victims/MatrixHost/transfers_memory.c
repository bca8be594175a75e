// Transfers that change or copy much memory.
#include "host.h"

#define MiB ((size_t)1 << 20)
#define SIZE (64 * MiB)

static struct outcome plain(int64_t result, uint64_t bytes) {
  return (struct outcome){result, result < 0 ? errno : 0, bytes, 0};
}

static uint64_t resident(void *memory, size_t bytes) {
  static unsigned char pages[SIZE / 4096];
  uint64_t count = 0;
  if (mincore(memory, bytes, pages) != 0) return 0;
  for (size_t i = 0; i < bytes / 4096; i++) count += pages[i] & 1;
  return count * 4096;
}

static void *small_pages(void) {
  void *memory = fresh_memory(SIZE);
  madvise(memory, SIZE, MADV_NOHUGEPAGE);  // many faults, and so a long call
  return memory;
}

static struct outcome do_mmap_populate(void) {
  transfer_begins();
  void *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  struct outcome outcome = plain(memory == MAP_FAILED ? -1 : 0, resident(memory, SIZE));
  munmap(memory, SIZE);
  return outcome;
}
static struct outcome do_madvise_populate(void) {
  void *memory = small_pages();
  transfer_begins();
  int result = madvise(memory, SIZE, 23);  // MADV_POPULATE_WRITE
  struct outcome outcome = plain(result, resident(memory, SIZE));
  munmap(memory, SIZE);
  return outcome;
}
static struct outcome do_madvise_dontneed(void) {
  char *memory = small_pages();
  memset(memory, 1, SIZE);
  transfer_begins();
  int result = madvise(memory, SIZE, MADV_DONTNEED);
  struct outcome outcome = plain(result, resident(memory, SIZE));
  munmap(memory, SIZE);
  return outcome;
}
static struct outcome do_mlock(void) {
  void *memory = small_pages();
  transfer_begins();
  int result = mlock(memory, SIZE);
  struct outcome outcome = plain(result, resident(memory, SIZE));
  munlock(memory, SIZE);
  munmap(memory, SIZE);
  return outcome;
}
static struct outcome do_mremap(void) {
  char *memory = small_pages();
  memset(memory, 3, SIZE);
  struct outcome outcome = {0};
  transfer_begins();
  for (int i = 0; i < 20 && outcome.error == 0; i++) {
    void *target = fresh_memory(SIZE);
    void *moved = mremap(memory, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    if (moved == MAP_FAILED) outcome.error = errno;
    else memory = moved;
  }
  outcome.bytes = resident(memory, SIZE);
  outcome.checksum = checksum(memory, SIZE);
  munmap(memory, SIZE);
  return outcome;
}
static struct outcome do_mprotect(void) {
  char *memory = small_pages();
  memset(memory, 3, SIZE);
  struct outcome outcome = {0};
  transfer_begins();
  for (int i = 0; i < 20; i++) outcome.result |= mprotect(memory, SIZE, i % 2 ? PROT_READ | PROT_WRITE : PROT_READ);
  outcome.checksum = checksum(memory, SIZE);
  munmap(memory, SIZE);
  return outcome;
}

static struct outcome between_processes(long call) {
  char *from = fresh_memory(SIZE), *to = fresh_memory(SIZE);
  for (size_t i = 0; i < SIZE; i += 64) from[i] = (char)(i >> 6);
  bool is_read = call == SYS_process_vm_readv;
  struct iovec local = {is_read ? to : from, SIZE}, remote = {is_read ? from : to, SIZE};
  transfer_begins();
  ssize_t n = syscall(call, getpid(), &local, 1, &remote, 1, 0);
  struct outcome outcome = plain(n, (uint64_t)(n < 0 ? 0 : n));
  outcome.checksum = checksum(to, SIZE);
  munmap(from, SIZE);
  munmap(to, SIZE);
  return outcome;
}
static struct outcome do_process_vm_readv(void) { return between_processes(SYS_process_vm_readv); }
static struct outcome do_process_vm_writev(void) { return between_processes(SYS_process_vm_writev); }

// Copies the page tables of much memory.
static struct outcome do_fork(void) {
  char *memory = small_pages();
  memset(memory, 5, SIZE);
  struct outcome outcome = {0};
  transfer_begins();
  for (int i = 0; i < 4; i++) {
    pid_t child = fork();
    if (child == 0) _exit(memory[SIZE - 1]);
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) outcome.result++;
    outcome.bytes += (uint64_t)status;
  }
  munmap(memory, SIZE);
  return outcome;
}

const struct transfer memory_transfers[] = {
    {"mmap-populate", do_mmap_populate},
    {"madvise-populate", do_madvise_populate},
    {"madvise-dontneed", do_madvise_dontneed},
    {"mlock", do_mlock},
    {"mremap", do_mremap},
    {"mprotect", do_mprotect},
    {"process_vm_readv", do_process_vm_readv},
    {"process_vm_writev", do_process_vm_writev},
    {"fork", do_fork},
    {NULL, NULL},
};
