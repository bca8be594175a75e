// Transfers through pipes.
#include "host.h"

#define MiB ((size_t)1 << 20)
#define SIZE (32 * MiB)

struct drainage {
  int pipe;
  uint64_t seen, sum;
};

static void *drain(void *argument) {
  struct drainage *drainage = argument;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  char *memory = fresh_memory(SIZE);
  for (ssize_t n; (n = read(drainage->pipe, memory + drainage->seen, SIZE - drainage->seen)) > 0;)
    drainage->seen += (size_t)n;
  drainage->sum = checksum(memory, SIZE);
  munmap(memory, SIZE);
  return NULL;
}

// One call that writes more than a pipe holds, to a reader that keeps up.
static struct outcome writing(ssize_t (*transfer)(int, char *)) {
  int ends[2];
  require(pipe2(ends, O_CLOEXEC) == 0, "pipe");
  char *memory = fresh_memory(SIZE);
  for (size_t i = 0; i < SIZE; i += 64) memory[i] = (char)(i * 13 >> 6);
  struct drainage drainage = {.pipe = ends[0]};
  pthread_t peer;
  pthread_create(&peer, NULL, drain, &drainage);
  transfer_begins();
  ssize_t n = transfer(ends[1], memory);
  int error = n < 0 ? errno : 0;
  close(ends[1]);
  pthread_join(peer, NULL);
  close(ends[0]);
  munmap(memory, SIZE);
  return (struct outcome){n, error, drainage.seen, drainage.sum};
}
static ssize_t by_write(int pipe, char *memory) { return write(pipe, memory, SIZE); }
static void quarters(struct iovec *parts, char *memory) {
  for (size_t i = 0; i < 4; i++) parts[i] = (struct iovec){memory + i * (SIZE / 4), SIZE / 4};
}
static ssize_t by_writev(int pipe, char *memory) {
  struct iovec parts[4];
  quarters(parts, memory);
  return writev(pipe, parts, 4);
}
static ssize_t by_vmsplice(int pipe, char *memory) {
  ssize_t done = 0;
  // Each call gives as many pages as the pipe takes; none may fail.
  while (done < (ssize_t)SIZE) {
    struct iovec part = {memory + done, SIZE - (size_t)done};
    ssize_t n = vmsplice(pipe, &part, 1, 0);
    if (n <= 0) break;
    done += n;
  }
  return done;
}
static ssize_t by_splice(int pipe, char *memory) {
  int file = temporary_file(0);
  for (size_t done = 0; done < SIZE;) {
    ssize_t n = write(file, memory + done, SIZE - done);
    require(n > 0, "write");
    done += (size_t)n;
  }
  off_t offset = 0;
  ssize_t done = 0;
  // Each call moves what a pipe takes; none may fail.
  while (done < (ssize_t)SIZE) {
    ssize_t n = splice(file, &offset, pipe, NULL, SIZE - (size_t)done, 0);
    if (n <= 0) break;
    done += n;
  }
  close(file);
  return done;
}
static struct outcome do_write(void) { return writing(by_write); }
static struct outcome do_writev(void) { return writing(by_writev); }
static struct outcome do_vmsplice(void) { return writing(by_vmsplice); }
static struct outcome do_splice(void) { return writing(by_splice); }

// A pipe that holds a mebibyte is filled and emptied, each by one call.
static struct outcome full_and_empty(bool by_tee) {
  int first[2], second[2];
  require(pipe2(first, O_CLOEXEC) == 0 && pipe2(second, O_CLOEXEC) == 0, "pipe");
  int size = fcntl(first[1], F_SETPIPE_SZ, (int)MiB);
  require(size == (int)MiB && fcntl(second[1], F_SETPIPE_SZ, (int)MiB) == size, "F_SETPIPE_SZ");
  char *memory = fresh_memory(MiB);
  memset(memory, 'p', MiB);
  struct outcome outcome = {0};
  transfer_begins();
  for (int i = 0; i < 40; i++) {
    ssize_t in = write(first[1], memory, MiB);
    ssize_t copied = by_tee ? tee(first[0], second[1], MiB, 0) : 0;
    ssize_t out = read(first[0], memory, MiB);
    outcome.result += in == (ssize_t)MiB && out == (ssize_t)MiB && (!by_tee || copied == (ssize_t)MiB);
    if (by_tee) outcome.bytes += (uint64_t)read(second[0], memory, MiB);
  }
  outcome.checksum = checksum(memory, MiB);
  for (int i = 0; i < 2; i++) {
    close(first[i]);
    close(second[i]);
  }
  munmap(memory, MiB);
  return outcome;
}
static struct outcome do_read(void) { return full_and_empty(false); }
static struct outcome do_tee(void) { return full_and_empty(true); }

const struct transfer pipe_transfers[] = {
    {"pipe-write", do_write},       {"pipe-writev", do_writev}, {"pipe-vmsplice", do_vmsplice},
    {"pipe-splice", do_splice}, {"pipe-read", do_read},   {"pipe-tee", do_tee},
    {NULL, NULL},
};
