// Transfers between memory and files.
#include "host.h"

#include <linux/io_uring.h>
#include <sys/sendfile.h>

#define MiB ((size_t)1 << 20)

static struct outcome received(int64_t result, const void *memory, size_t bytes) {
  struct outcome outcome = {result, result < 0 ? errno : 0, result < 0 ? 0 : (uint64_t)result, checksum(memory, bytes)};
  return outcome;
}

// Random bytes have no checksum that two runs share: only whether each page was filled.
static struct outcome random_bytes(ssize_t (*fill)(void *, size_t)) {
  size_t bytes = 12 * MiB, filled = 0;
  uint64_t *memory = fresh_memory(bytes);
  transfer_begins();
  ssize_t n = fill(memory, bytes);
  int error = n < 0 ? errno : 0;
  for (size_t i = 0; i < bytes / 8; i += 512) filled += memory[i] != 0;
  munmap(memory, bytes);
  return (struct outcome){n, error, filled, 0};
}
// The C library's function may draw in user mode, by the vDSO.
static ssize_t fill_getrandom(void *memory, size_t bytes) { return syscall(SYS_getrandom, memory, bytes, 0); }
static ssize_t fill_urandom(void *memory, size_t bytes) {
  int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  ssize_t n = read(file, memory, bytes);
  close(file);
  return n;
}
static struct outcome do_getrandom(void) { return random_bytes(fill_getrandom); }
static struct outcome do_urandom(void) { return random_bytes(fill_urandom); }

static struct outcome do_read_zero(void) {
  size_t bytes = 96 * MiB;
  void *memory = fresh_memory(bytes);
  int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  transfer_begins();
  struct outcome outcome = received(read(file, memory, bytes), memory, bytes);
  close(file);
  munmap(memory, bytes);
  return outcome;
}

static struct outcome reading(size_t bytes, ssize_t (*transfer)(int, char *, size_t)) {
  int file = temporary_file(bytes);
  char *memory = fresh_memory(bytes);
  transfer_begins();
  ssize_t n = transfer(file, memory, bytes);
  struct outcome outcome = received(n, memory, bytes);
  close(file);
  munmap(memory, bytes);
  return outcome;
}
static ssize_t by_read(int file, char *memory, size_t bytes) { return read(file, memory, bytes); }
static ssize_t by_pread(int file, char *memory, size_t bytes) { return pread(file, memory, bytes, 0); }
static void quarters(struct iovec *parts, char *memory, size_t bytes) {
  for (size_t i = 0; i < 4; i++) parts[i] = (struct iovec){memory + i * (bytes / 4), bytes / 4};
}
static ssize_t by_readv(int file, char *memory, size_t bytes) {
  struct iovec parts[4];
  quarters(parts, memory, bytes);
  return readv(file, parts, 4);
}
static ssize_t by_preadv(int file, char *memory, size_t bytes) {
  struct iovec parts[4];
  quarters(parts, memory, bytes);
  return preadv(file, parts, 4, 0);
}
static struct outcome do_read(void) { return reading(48 * MiB, by_read); }
static struct outcome do_pread(void) { return reading(48 * MiB, by_pread); }
static struct outcome do_readv(void) { return reading(48 * MiB, by_readv); }
static struct outcome do_preadv(void) { return reading(48 * MiB, by_preadv); }

static struct outcome writing(int file, ssize_t (*transfer)(int, char *, size_t)) {
  size_t bytes = 48 * MiB;
  char *memory = fresh_memory(bytes);
  for (size_t i = 0; i < bytes; i += 4096) memory[i] = (char)(i >> 12);
  transfer_begins();
  ssize_t n = transfer(file, memory, bytes);
  struct outcome outcome = {n, n < 0 ? errno : 0, 0, 0};
  outcome.bytes = (uint64_t)lseek(file, 0, SEEK_END);
  void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
  if (map != MAP_FAILED && outcome.bytes == bytes) outcome.checksum = checksum(map, bytes);
  if (map != MAP_FAILED) munmap(map, bytes);
  munmap(memory, bytes);
  close(file);
  return outcome;
}
static ssize_t by_write(int file, char *memory, size_t bytes) { return write(file, memory, bytes); }
static ssize_t by_pwrite(int file, char *memory, size_t bytes) { return pwrite(file, memory, bytes, 0); }
static ssize_t by_writev(int file, char *memory, size_t bytes) {
  struct iovec parts[4];
  quarters(parts, memory, bytes);
  return writev(file, parts, 4);
}
static ssize_t by_pwritev2(int file, char *memory, size_t bytes) {
  struct iovec parts[4];
  quarters(parts, memory, bytes);
  return pwritev2(file, parts, 4, 0, 0);
}
static struct outcome do_write(void) { return writing(temporary_file(0), by_write); }
static struct outcome do_pwrite(void) { return writing(temporary_file(0), by_pwrite); }
static struct outcome do_writev(void) { return writing(temporary_file(0), by_writev); }
static struct outcome do_pwritev2(void) { return writing(temporary_file(0), by_pwritev2); }
static struct outcome do_memfd_write(void) { return writing(memfd_create("matrix", MFD_CLOEXEC), by_write); }

static struct outcome copying(size_t bytes, ssize_t (*transfer)(int, int, size_t)) {
  int source = temporary_file(bytes), target = temporary_file(0);
  transfer_begins();
  ssize_t n = transfer(source, target, bytes);
  struct outcome outcome = {n, n < 0 ? errno : 0, (uint64_t)lseek(target, 0, SEEK_END), 0};
  void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, target, 0);
  if (map != MAP_FAILED && outcome.bytes == bytes) outcome.checksum = checksum(map, bytes);
  if (map != MAP_FAILED) munmap(map, bytes);
  close(source);
  close(target);
  return outcome;
}
static ssize_t by_sendfile(int source, int target, size_t bytes) { return sendfile(target, source, NULL, bytes); }
static ssize_t by_copy_file_range(int source, int target, size_t bytes) {
  return copy_file_range(source, NULL, target, NULL, bytes, 0);
}
// As a copying program does, which continues after a short count; the number of calls shows it.
static ssize_t by_pieces(int source, int target, size_t bytes) {
  static char piece[1 << 16];
  ssize_t calls = 0;
  for (size_t done = 0; done < bytes; calls++) {
    ssize_t n = read(source, piece, sizeof piece);
    if (n <= 0 || write(target, piece, (size_t)n) != n) return -1;
    done += (size_t)n;
  }
  return calls;
}
static ssize_t by_splice(int source, int target, size_t bytes) {
  int ends[2];
  require(pipe2(ends, O_CLOEXEC) == 0, "pipe");
  ssize_t size = fcntl(ends[1], F_SETPIPE_SZ, 1 << 18), done = 0;
  while (size > 0 && done < (ssize_t)bytes) {
    ssize_t in = splice(source, NULL, ends[1], NULL, (size_t)size, 0);
    if (in <= 0 || splice(ends[0], NULL, target, NULL, (size_t)in, 0) != in) break;
    done += in;
  }
  close(ends[0]);
  close(ends[1]);
  return done;
}
static struct outcome do_sendfile(void) { return copying(24 * MiB, by_sendfile); }
static struct outcome do_copy_file_range(void) { return copying(64 * MiB, by_copy_file_range); }
static struct outcome do_pieces(void) { return copying(64 * MiB, by_pieces); }
static struct outcome do_splice(void) { return copying(64 * MiB, by_splice); }

static struct outcome plain(int result) { return (struct outcome){result, result < 0 ? errno : 0, 0, 0}; }

static struct outcome do_fallocate(void) {
  int file = temporary_file(0);
  transfer_begins();
  struct outcome outcome = plain(fallocate(file, 0, 0, (off_t)(128 * MiB)));
  struct stat status;
  fstat(file, &status);
  outcome.bytes = (uint64_t)status.st_blocks * 512;
  close(file);
  return outcome;
}
static struct outcome shrinking(bool by_truncate) {
  int file = temporary_file(0);
  require(fallocate(file, 0, 0, (off_t)(128 * MiB)) == 0 || errno == EINTR, "fallocate");
  transfer_begins();
  int result = by_truncate ? ftruncate(file, 0)
                           : fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)(128 * MiB));
  struct outcome outcome = plain(result);
  struct stat status;
  fstat(file, &status);
  outcome.bytes = (uint64_t)status.st_blocks * 512;
  close(file);
  return outcome;
}
static struct outcome do_ftruncate(void) { return shrinking(true); }
static struct outcome do_punch_hole(void) { return shrinking(false); }

// A file on the disk, in the working directory.
static int disk_file(size_t bytes) {
  int file = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  require(file >= 0, "a file in the working directory");
  char *memory = fresh_memory(bytes);
  memset(memory, 'x', bytes);
  require(pwrite(file, memory, bytes, 0) == (ssize_t)bytes || errno == 0, "pwrite");
  munmap(memory, bytes);
  return file;
}
static struct outcome on_disk(int (*transfer)(int, size_t)) {
  size_t bytes = 8 * MiB;
  int file = disk_file(bytes);
  transfer_begins();
  struct outcome outcome = plain(transfer(file, bytes));
  outcome.bytes = (uint64_t)lseek(file, 0, SEEK_END);
  close(file);
  return outcome;
}
static int by_fsync(int file, size_t bytes) { return bytes == 0 ? 0 : fsync(file); }
static int by_sync_file_range(int file, size_t bytes) {
  return sync_file_range(file, 0, (off_t)bytes,
                         SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}
static int by_msync(int file, size_t bytes) {
  char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  memset(map, 'y', bytes);
  int result = msync(map, bytes, MS_SYNC);
  munmap(map, bytes);
  return result;
}
static int by_readahead(int file, size_t bytes) {
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  return (int)readahead(file, 0, bytes);
}
static struct outcome do_fsync(void) { return on_disk(by_fsync); }
static struct outcome do_sync_file_range(void) { return on_disk(by_sync_file_range); }
static struct outcome do_msync(void) { return on_disk(by_msync); }
static struct outcome do_readahead(void) { return on_disk(by_readahead); }

// A small ring of its own: one read, submitted and awaited by one call.
static ssize_t by_io_uring(int file, char *memory, size_t bytes) {
  struct io_uring_params parameters = {0};
  int ring = (int)syscall(SYS_io_uring_setup, 1, &parameters);
  if (ring < 0) return 0;  // not permitted here
  // Of these, the array of indices comes last. Linux 5.10 maps no more than there is.
  size_t size = parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned);
  char *queues = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
  struct io_uring_sqe *entry = mmap(NULL, sizeof *entry, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
  require(queues != MAP_FAILED && entry != MAP_FAILED, "io_uring");
  *entry = (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = file, .addr = (uintptr_t)memory, .len = (unsigned)bytes};
  ((unsigned *)(queues + parameters.sq_off.array))[0] = 0;
  __atomic_store_n((unsigned *)(queues + parameters.sq_off.tail), 1, __ATOMIC_RELEASE);
  long submitted = syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
  int result = ((struct io_uring_cqe *)(queues + parameters.cq_off.cqes))[0].res;
  munmap(entry, sizeof *entry);
  munmap(queues, size);
  close(ring);
  return submitted == 1 ? result : -1;
}
static struct outcome do_io_uring(void) { return reading(48 * MiB, by_io_uring); }

// The directory is made once: the entries of each call must be those of an uninterrupted one.
static struct outcome do_getdents(void) {
  enum { FILES = 6000 };
  char path[] = "/dev/shm/matrix-XXXXXX", name[64];
  require(mkdtemp(path) != NULL, "a directory in /dev/shm");
  int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int i = 0; i < FILES; i++) {
    snprintf(name, sizeof name, "entry-with-a-rather-long-name-%05d", i);
    close(openat(directory, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  }
  size_t bytes = 2 * MiB;
  void *memory = fresh_memory(bytes);
  struct outcome outcome = {0};
  transfer_begins();
  for (int i = 0; i < 20; i++) {
    lseek(directory, 0, SEEK_SET);
    long n = syscall(SYS_getdents64, directory, memory, bytes);
    if (n < 0) outcome.error = errno;
    outcome.bytes += n < 0 ? 0 : (uint64_t)n;
    outcome.result = outcome.result == 0 || outcome.result == n ? n : -1;
  }
  for (int i = 0; i < FILES; i++) {
    snprintf(name, sizeof name, "entry-with-a-rather-long-name-%05d", i);
    unlinkat(directory, name, 0);
  }
  munmap(memory, bytes);
  close(directory);
  rmdir(path);
  return outcome;
}

const struct transfer file_transfers[] = {
    {"getrandom", do_getrandom},
    {"read-urandom", do_urandom},
    {"read-zero", do_read_zero},
    {"read-tmpfs", do_read},
    {"pread-tmpfs", do_pread},
    {"readv-tmpfs", do_readv},
    {"preadv-tmpfs", do_preadv},
    {"write-tmpfs", do_write},
    {"pwrite-tmpfs", do_pwrite},
    {"writev-tmpfs", do_writev},
    {"pwritev2-tmpfs", do_pwritev2},
    {"write-memfd", do_memfd_write},
    {"sendfile-to-file", do_sendfile},
    {"copy_file_range", do_copy_file_range},
    {"copy-in-pieces", do_pieces},
    {"splice-files", do_splice},
    {"fallocate", do_fallocate},
    {"fallocate-punch-hole", do_punch_hole},
    {"ftruncate", do_ftruncate},
    {"fsync", do_fsync},
    {"sync_file_range", do_sync_file_range},
    {"msync", do_msync},
    {"readahead", do_readahead},
    {"io_uring-read", do_io_uring},
    {"getdents", do_getdents},
    {NULL, NULL},
};
