// Transfers over sockets, with a peer on a thread of its own that blocks all signals.
#include "host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/sendfile.h>

#define MiB ((size_t)1 << 20)

struct pair {
  int mine, theirs;
  size_t bytes;
  uint64_t seen, sum;
  pthread_t peer;
};

static void *drain(void *argument) {
  struct pair *pair = argument;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  char *memory = fresh_memory(pair->bytes);
  for (ssize_t n; (n = read(pair->theirs, memory + pair->seen, pair->bytes - pair->seen)) > 0;) pair->seen += (size_t)n;
  pair->sum = checksum(memory, pair->bytes);
  munmap(memory, pair->bytes);
  return NULL;
}

static void *feed(void *argument) {
  struct pair *pair = argument;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  char *memory = fresh_memory(pair->bytes);
  for (size_t i = 0; i < pair->bytes; i += 64) memory[i] = (char)(i * 31 >> 6);
  while (pair->seen < pair->bytes) {
    ssize_t n = write(pair->theirs, memory + pair->seen, pair->bytes - pair->seen);
    if (n <= 0) break;
    pair->seen += (size_t)n;
  }
  munmap(memory, pair->bytes);
  shutdown(pair->theirs, SHUT_WR);
  return NULL;
}

// Some milliseconds of copying between two waits: a thread that waits more often is known to be in a call.
static void enlarge(struct pair *pair) {
  int bytes = (int)(6 * MiB);
  if (setsockopt(pair->mine, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
    setsockopt(pair->mine, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  if (setsockopt(pair->theirs, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
    setsockopt(pair->theirs, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

static void connect_tcp(struct pair *pair) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0, "listen");
  getsockname(listener, (struct sockaddr *)&address, &length);
  pair->mine = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(connect(pair->mine, (struct sockaddr *)&address, length) == 0, "connect");
  pair->theirs = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  require(pair->theirs >= 0, "accept");
  close(listener);
  enlarge(pair);
}

static void connect_unix(struct pair *pair) {
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  pair->mine = ends[0];
  pair->theirs = ends[1];
  enlarge(pair);
}

typedef ssize_t operation(int, char *, size_t);

static struct outcome sending(void (*connect)(struct pair *), operation *send, size_t bytes) {
  struct pair pair = {.bytes = bytes};
  connect(&pair);
  char *memory = fresh_memory(bytes);
  for (size_t i = 0; i < bytes; i += 64) memory[i] = (char)(i * 17 >> 6);
  pthread_create(&pair.peer, NULL, drain, &pair);
  transfer_begins();
  ssize_t n = send(pair.mine, memory, bytes);
  int error = n < 0 ? errno : 0;
  shutdown(pair.mine, SHUT_WR);
  pthread_join(pair.peer, NULL);
  close(pair.mine);
  close(pair.theirs);
  munmap(memory, bytes);
  return (struct outcome){n, error, pair.seen, pair.sum};
}

static struct outcome receiving(void (*connect)(struct pair *), operation *receive, size_t bytes) {
  struct pair pair = {.bytes = bytes};
  connect(&pair);
  char *memory = fresh_memory(bytes);
  pthread_create(&pair.peer, NULL, feed, &pair);
  transfer_begins();
  ssize_t n = receive(pair.mine, memory, bytes);
  int error = n < 0 ? errno : 0;
  struct outcome outcome = {n, error, 0, checksum(memory, bytes)};
  // What a call that ended early has left: the peer waits for it.
  for (char rest[4096]; read(pair.mine, rest, sizeof rest) > 0;) {}
  pthread_join(pair.peer, NULL);
  outcome.bytes = pair.seen;
  close(pair.mine);
  close(pair.theirs);
  munmap(memory, bytes);
  return outcome;
}

static ssize_t by_send(int socket, char *memory, size_t bytes) { return send(socket, memory, bytes, 0); }
static ssize_t by_sendto(int socket, char *memory, size_t bytes) { return sendto(socket, memory, bytes, 0, NULL, 0); }
static ssize_t by_write(int socket, char *memory, size_t bytes) { return write(socket, memory, bytes); }
static void quarters(struct iovec *parts, char *memory, size_t bytes) {
  for (size_t i = 0; i < 4; i++) parts[i] = (struct iovec){memory + i * (bytes / 4), bytes / 4};
}
static ssize_t by_writev(int socket, char *memory, size_t bytes) {
  struct iovec parts[4];
  quarters(parts, memory, bytes);
  return writev(socket, parts, 4);
}
static ssize_t by_sendmsg(int socket, char *memory, size_t bytes) {
  struct iovec parts[4];
  quarters(parts, memory, bytes);
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 4};
  return sendmsg(socket, &message, 0);
}
static ssize_t by_sendmmsg(int socket, char *memory, size_t bytes) {
  struct iovec parts[4];
  struct mmsghdr messages[4] = {0};
  quarters(parts, memory, bytes);
  for (int i = 0; i < 4; i++) messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
  int sent = sendmmsg(socket, messages, 4, 0);
  ssize_t total = 0;
  for (int i = 0; i < sent; i++) total += messages[i].msg_len;
  return sent == 4 ? total : sent;
}
static ssize_t by_sendfile(int socket, char *memory, size_t bytes) {
  int file = temporary_file(0);
  for (size_t done = 0; done < bytes;) {
    ssize_t n = write(file, memory + done, bytes - done);
    require(n > 0, "write");
    done += (size_t)n;
  }
  off_t offset = 0;
  ssize_t n = sendfile(socket, file, &offset, bytes);
  close(file);
  return n;
}
static ssize_t by_recv(int socket, char *memory, size_t bytes) { return recv(socket, memory, bytes, MSG_WAITALL); }
static ssize_t by_recvmsg(int socket, char *memory, size_t bytes) {
  struct iovec parts[4];
  quarters(parts, memory, bytes);
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 4};
  return recvmsg(socket, &message, MSG_WAITALL);
}

static struct outcome tcp_send(void) { return sending(connect_tcp, by_send, 48 * MiB); }
static struct outcome tcp_sendto(void) { return sending(connect_tcp, by_sendto, 48 * MiB); }
static struct outcome tcp_write(void) { return sending(connect_tcp, by_write, 48 * MiB); }
static struct outcome tcp_writev(void) { return sending(connect_tcp, by_writev, 48 * MiB); }
static struct outcome tcp_sendmsg(void) { return sending(connect_tcp, by_sendmsg, 32 * MiB); }
static struct outcome tcp_sendmmsg(void) { return sending(connect_tcp, by_sendmmsg, 48 * MiB); }
static struct outcome tcp_sendfile(void) { return sending(connect_tcp, by_sendfile, 48 * MiB); }
static struct outcome tcp_recv(void) { return receiving(connect_tcp, by_recv, 48 * MiB); }
static struct outcome tcp_recvmsg(void) { return receiving(connect_tcp, by_recvmsg, 48 * MiB); }
static struct outcome unix_send(void) { return sending(connect_unix, by_send, 48 * MiB); }
static struct outcome unix_write(void) { return sending(connect_unix, by_write, 48 * MiB); }
static struct outcome unix_writev(void) { return sending(connect_unix, by_writev, 48 * MiB); }
static struct outcome unix_sendmsg(void) { return sending(connect_unix, by_sendmsg, 48 * MiB); }
static struct outcome unix_recv(void) { return receiving(connect_unix, by_recv, 48 * MiB); }

const struct transfer socket_transfers[] = {
    {"tcp-send", tcp_send},         {"tcp-sendto", tcp_sendto},
    {"tcp-write", tcp_write},       {"tcp-writev", tcp_writev},
    {"tcp-sendmsg", tcp_sendmsg},   {"tcp-sendmmsg", tcp_sendmmsg},
    {"tcp-sendfile", tcp_sendfile}, {"tcp-recv-waitall", tcp_recv},
    {"tcp-recvmsg-waitall", tcp_recvmsg},
    {"unix-send", unix_send},       {"unix-write", unix_write},
    {"unix-writev", unix_writev},   {"unix-sendmsg", unix_sendmsg},
    {"unix-recv-waitall", unix_recv},
    {NULL, NULL},
};
