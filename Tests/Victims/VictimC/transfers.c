#define _GNU_SOURCE
#include "victim_transfers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "VictimC.h"

#define RANDOM_BYTES ((size_t)64 << 20)
#define FILE_BYTES ((size_t)256 << 20)
#define SEND_BYTES ((size_t)100 << 20)

static int memory_file(size_t size) {
  int file = memfd_create("victim", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, (off_t)size) != 0) return -1;
  return file;
}

static long missing(size_t wanted, ssize_t got) { return got < 0 ? -1 : (long)(wanted - (size_t)got); }

// The C library's function may draw in user mode, by the vDSO.
static long draw(unsigned times) {
  char *bytes = malloc(RANDOM_BYTES);
  if (bytes == NULL) return -1;
  long lost = 0;
  for (unsigned i = 0; i < times && lost == 0; i++) lost = missing(RANDOM_BYTES, syscall(SYS_getrandom, bytes, RANDOM_BYTES, 0));
  free(bytes);
  return lost;
}

static long copy(unsigned times, int by_range) {
  int from = memory_file(FILE_BYTES), to = memory_file(0);
  long lost = from < 0 || to < 0 ? -1 : 0;
  for (unsigned i = 0; i < times && lost == 0; i++) {
    off_t at = 0, start = 0;
    if (ftruncate(to, 0) != 0 || lseek(to, 0, SEEK_SET) != 0) lost = -1;
    ssize_t got = by_range ? copy_file_range(from, &at, to, &start, FILE_BYTES, 0) : sendfile(to, from, &at, FILE_BYTES);
    if (lost == 0) lost = missing(FILE_BYTES, got);
  }
  close(from);
  close(to);
  return lost;
}

static void *drain(void *socket) {
  char *bytes = malloc(1 << 20);
  while (bytes != NULL && read((int)(intptr_t)socket, bytes, 1 << 20) > 0) {}
  free(bytes);
  close((int)(intptr_t)socket);
  return NULL;
}

static long send_all(unsigned times) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), sender = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  pthread_t reader;
  char *bytes = calloc(1, SEND_BYTES);
  if (bytes == NULL || bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
      connect(sender, (struct sockaddr *)&address, length) != 0)
    return -1;
  int receiver = accept(listener, NULL, NULL);
  pthread_create(&reader, NULL, drain, (void *)(intptr_t)receiver);
  long lost = 0;
  for (unsigned i = 0; i < times && lost == 0; i++) {
    victim_c_compute(30);
    lost = missing(SEND_BYTES, send(sender, bytes, SEND_BYTES, MSG_NOSIGNAL));
  }
  close(sender);
  pthread_join(reader, NULL);
  close(listener);
  free(bytes);
  return lost;
}

long victim_transfer_run(enum victim_transfer transfer, unsigned times) {
  switch (transfer) {
  case VICTIM_TRANSFER_RANDOM: return draw(times);
  case VICTIM_TRANSFER_SENDFILE: return copy(times, 0);
  case VICTIM_TRANSFER_COPY_FILE_RANGE: return copy(times, 1);
  case VICTIM_TRANSFER_SEND: return send_all(times);
  }
  return -1;
}
