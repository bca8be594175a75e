#define _GNU_SOURCE
#include "victim_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned duration_ms = VICTIM_CALL_MS;
#define MS duration_ms
#define NS (MS * 1000000L)
// Larger than any pipe's or socket's buffer, so that the call blocks in the middle of its transfer.
#define LARGE (4u << 20)

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// When the call itself began: preparing is not part of it.
static __thread double began;
#define BEGIN() (began = now_ms(), errno = 0)

// -- A peer that acts while the caller blocks

struct peer {
  pthread_t thread;
  void (*act)(struct peer *);
  int descriptor;
  size_t bytes;
  void *object;
};

static void *peer_main(void *argument) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  struct timespec delay = {0, NS};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
  struct peer *peer = argument;
  peer->act(peer);
  return NULL;
}

static void peer_start(struct peer *peer) { pthread_create(&peer->thread, NULL, peer_main, peer); }
static void peer_end(struct peer *peer) {
  int kept = errno;
  pthread_join(peer->thread, NULL);
  errno = kept;
}

static void act_write(struct peer *peer) {
  char *bytes = calloc(1, peer->bytes);
  for (size_t done = 0; done < peer->bytes;) {
    ssize_t n = write(peer->descriptor, bytes + done, peer->bytes - done);
    if (n <= 0) break;
    done += (size_t)n;
  }
  free(bytes);
}

static void act_read(struct peer *peer) {
  char *bytes = malloc(1 << 16);
  for (size_t done = 0; done < peer->bytes;) {
    ssize_t n = read(peer->descriptor, bytes, 1 << 16);
    if (n <= 0) break;
    done += (size_t)n;
    usleep(200);  // the caller blocks many times in one call
  }
  free(bytes);
}

static void close_kept(int a, int b) {
  int kept = errno;
  if (a >= 0) close(a);
  if (b >= 0) close(b);
  errno = kept;
}

// -- Waiting for time

static long call_nanosleep(void) {
  struct timespec t = {0, NS};
  BEGIN();
  return nanosleep(&t, NULL);
}
static long call_clock_nanosleep(void) {
  struct timespec t = {0, NS};
  BEGIN();
  return clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}
static long call_clock_nanosleep_absolute(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_nsec += NS;
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  BEGIN();
  return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}
static long call_usleep(void) {
  BEGIN();
  return usleep(MS * 1000);
}
static long call_sleep(void) {
  BEGIN();
  return sleep(1);
}
static long call_poll(void) {
  BEGIN();
  return poll(NULL, 0, MS);
}
static long call_ppoll(void) {
  struct timespec t = {0, NS};
  BEGIN();
  return ppoll(NULL, 0, &t, NULL);
}
static long call_select(void) {
  struct timeval t = {0, MS * 1000};
  BEGIN();
  return select(0, NULL, NULL, NULL, &t);
}
static long call_pselect(void) {
  struct timespec t = {0, NS};
  BEGIN();
  return pselect(0, NULL, NULL, NULL, &t, NULL);
}
static long call_epoll_wait(void) {
  int epoll = epoll_create1(0);
  struct epoll_event event;
  BEGIN();
  long result = epoll_wait(epoll, &event, 1, MS);
  close_kept(epoll, -1);
  return result;
}
static long call_epoll_pwait(void) {
  int epoll = epoll_create1(0);
  struct epoll_event event;
  BEGIN();
  long result = epoll_pwait(epoll, &event, 1, MS, NULL);
  close_kept(epoll, -1);
  return result;
}
static long call_epoll_pwait2(void) {
  int epoll = epoll_create1(0);
  struct epoll_event event;
  struct timespec t = {0, NS};
  BEGIN();
  long result = epoll_pwait2(epoll, &event, 1, &t, NULL);
  close_kept(epoll, -1);
  return result;
}

// -- Waiting for a signal

static sigset_t just(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  return set;
}
static long call_sigtimedwait(void) {
  sigset_t set = just(SIGUSR2);
  struct timespec t = {0, NS};
  BEGIN();
  return sigtimedwait(&set, NULL, &t);
}
static void act_signal(struct peer *peer) { pthread_kill(*(pthread_t *)peer->object, SIGUSR2); }
static long call_sigwaitinfo(void) {
  sigset_t set = just(SIGUSR2);
  pthread_t self = pthread_self();
  struct peer peer = {.act = act_signal, .object = &self};
  peer_start(&peer);
  BEGIN();
  long result = sigwaitinfo(&set, NULL);
  peer_end(&peer);
  return result;
}
static long call_signalfd_read(void) {
  sigset_t set = just(SIGUSR2);
  int descriptor = signalfd(-1, &set, 0);
  pthread_t self = pthread_self();
  struct peer peer = {.act = act_signal, .object = &self};
  struct signalfd_siginfo info;
  peer_start(&peer);
  BEGIN();
  long result = read(descriptor, &info, sizeof info);
  peer_end(&peer);
  close_kept(descriptor, -1);
  return result;
}

// -- Waiting for another thread

static long call_sem_timedwait(void) {
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += NS;
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  BEGIN();
  return sem_timedwait(&semaphore, &t);
}
static void act_post(struct peer *peer) { sem_post(peer->object); }
static long call_sem_wait(void) {
  static sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  struct peer peer = {.act = act_post, .object = &semaphore};
  peer_start(&peer);
  BEGIN();
  long result = sem_wait(&semaphore);
  peer_end(&peer);
  return result;
}
static long call_futex_timeout(void) {
  uint32_t word = 0;
  struct timespec t = {0, NS};
  BEGIN();
  return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
}
static long call_futex_bitset(void) {
  uint32_t word = 0;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_nsec += NS;
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  BEGIN();
  return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &t, NULL, FUTEX_BITSET_MATCH_ANY);
}
struct held {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  sem_t taken;
};
static void *hold(void *argument) {
  struct held *held = argument;
  pthread_mutex_lock(&held->mutex);
  sem_post(&held->taken);
  struct timespec t = {0, NS};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
  pthread_mutex_unlock(&held->mutex);
  return NULL;
}
static long lock_held(int protocol) {
  struct held held;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setprotocol(&attributes, protocol);
  pthread_mutex_init(&held.mutex, &attributes);
  sem_init(&held.taken, 0, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, hold, &held);
  while (sem_wait(&held.taken) != 0) {}
  BEGIN();
  long result = pthread_mutex_lock(&held.mutex);
  int kept = errno;
  pthread_mutex_unlock(&held.mutex);
  pthread_join(thread, NULL);
  errno = kept;
  return result;
}
static long call_mutex(void) { return lock_held(PTHREAD_PRIO_NONE); }
static long call_mutex_inheriting(void) { return lock_held(PTHREAD_PRIO_INHERIT); }
static long call_condition_timed(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += NS;
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  pthread_mutex_lock(&mutex);
  BEGIN();
  long result = pthread_cond_timedwait(&condition, &mutex, &t);
  pthread_mutex_unlock(&mutex);
  return result;
}
static void *sleeper(void *argument) {
  (void)argument;
  struct timespec t = {0, NS};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
  return NULL;
}
static long call_join(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, sleeper, NULL);
  BEGIN();
  return pthread_join(thread, NULL);
}

// -- System V and POSIX messages

static long call_semtimedop(void) {
  int set = semget(IPC_PRIVATE, 1, 0600);
  struct sembuf take = {0, -1, 0};
  struct timespec t = {0, NS};
  BEGIN();
  long result = semtimedop(set, &take, 1, &t);
  int kept = errno;
  semctl(set, 0, IPC_RMID);
  errno = kept;
  return result;
}
static void act_semop(struct peer *peer) {
  struct sembuf give = {0, 1, 0};
  semop(peer->descriptor, &give, 1);
}
static long call_semop(void) {
  int set = semget(IPC_PRIVATE, 1, 0600);
  struct sembuf take = {0, -1, 0};
  struct peer peer = {.act = act_semop, .descriptor = set};
  peer_start(&peer);
  BEGIN();
  long result = semop(set, &take, 1);
  peer_end(&peer);
  int kept = errno;
  semctl(set, 0, IPC_RMID);
  errno = kept;
  return result;
}
struct message {
  long type;
  char text[64];
};
static void act_msgsnd(struct peer *peer) {
  struct message message = {1, "x"};
  msgsnd(peer->descriptor, &message, sizeof message.text, 0);
}
static long call_msgrcv(void) {
  int queue = msgget(IPC_PRIVATE, 0600);
  struct peer peer = {.act = act_msgsnd, .descriptor = queue};
  struct message message;
  peer_start(&peer);
  BEGIN();
  long result = msgrcv(queue, &message, sizeof message.text, 0, 0);
  peer_end(&peer);
  int kept = errno;
  msgctl(queue, IPC_RMID, NULL);
  errno = kept;
  return result;
}
static void act_msgrcv(struct peer *peer) {
  struct message message;
  msgrcv(peer->descriptor, &message, sizeof message.text, 0, 0);
}
static long call_msgsnd(void) {
  int queue = msgget(IPC_PRIVATE, 0600);
  struct message message = {1, "x"};
  while (msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT) == 0) {}
  struct peer peer = {.act = act_msgrcv, .descriptor = queue};
  peer_start(&peer);
  BEGIN();
  long result = msgsnd(queue, &message, sizeof message.text, 0);
  peer_end(&peer);
  int kept = errno;
  msgctl(queue, IPC_RMID, NULL);
  errno = kept;
  return result;
}
static long call_mq_timedreceive(void) {
  struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 64};
  char name[64], text[64];
  snprintf(name, sizeof name, "/victim-%d", getpid());
  mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
  mq_unlink(name);
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += NS;
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  BEGIN();
  long result = mq_timedreceive(queue, text, sizeof text, NULL, &t);
  close_kept(queue, -1);
  return result;
}

// -- Pipes, sockets and files

static long pipe_read(size_t bytes, bool vectored) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  struct peer peer = {.act = act_write, .descriptor = ends[1], .bytes = bytes};
  char buffer[64];
  struct iovec vector = {buffer, sizeof buffer};
  peer_start(&peer);
  BEGIN();
  long result = vectored ? readv(ends[0], &vector, 1) : read(ends[0], buffer, sizeof buffer);
  peer_end(&peer);
  close_kept(ends[0], ends[1]);
  return result;
}
static long call_read_pipe(void) { return pipe_read(10, false); }
static long call_readv_pipe(void) { return pipe_read(10, true); }
static long large_write(int writer, int reader, int kind) {
  struct peer peer = {.act = act_read, .descriptor = reader, .bytes = LARGE};
  char *bytes = calloc(1, LARGE);
  struct iovec vector = {bytes, LARGE};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  peer_start(&peer);
  BEGIN();
  long result = kind == 0   ? write(writer, bytes, LARGE)
                : kind == 1 ? writev(writer, &vector, 1)
                : kind == 2 ? send(writer, bytes, LARGE, 0)
                            : sendmsg(writer, &message, 0);
  // A call that was cut short leaves the peer waiting: end its stream.
  int kept = errno;
  close(writer);
  errno = kept;
  peer_end(&peer);
  free(bytes);
  close_kept(reader, -1);
  return result;
}
static long call_write_pipe_large(void) {
  int ends[2];
  return pipe(ends) == 0 ? large_write(ends[1], ends[0], 0) : -1;
}
static long call_writev_pipe_large(void) {
  int ends[2];
  return pipe(ends) == 0 ? large_write(ends[1], ends[0], 1) : -1;
}
static long call_send_large(void) {
  int ends[2];
  return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 ? large_write(ends[0], ends[1], 2) : -1;
}
static long call_sendmsg_large(void) {
  int ends[2];
  return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 ? large_write(ends[0], ends[1], 3) : -1;
}
// A connected pair over loopback TCP.
static int tcp_pair(int ends[2]) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, (struct sockaddr *)&address, &length) != 0)
    return -1;
  ends[0] = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(ends[0], (struct sockaddr *)&address, length) != 0) return -1;
  ends[1] = accept(listener, NULL, NULL);
  close(listener);
  return ends[1] < 0 ? -1 : 0;
}
static long call_send_tcp_large(void) {
  int ends[2];
  return tcp_pair(ends) == 0 ? large_write(ends[0], ends[1], 2) : -1;
}
enum receive { RECV, RECVFROM, RECVMSG, RECVMMSG, RECV_ALL };
static long receive(enum receive how, size_t bytes) {
  int ends[2];
  if (tcp_pair(ends) != 0) return -1;
  struct peer peer = {.act = act_write, .descriptor = ends[1], .bytes = bytes};
  char *buffer = calloc(1, LARGE);
  struct iovec vector = {buffer, LARGE};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  struct mmsghdr messages = {.msg_hdr = message};
  peer_start(&peer);
  BEGIN();
  long result = how == RECV       ? recv(ends[0], buffer, LARGE, 0)
                : how == RECVFROM ? recvfrom(ends[0], buffer, LARGE, 0, NULL, NULL)
                : how == RECVMSG  ? recvmsg(ends[0], &message, 0)
                : how == RECVMMSG ? recvmmsg(ends[0], &messages, 1, 0, NULL)
                                  : recv(ends[0], buffer, bytes, MSG_WAITALL);
  int kept = errno;
  shutdown(ends[0], SHUT_RDWR);
  errno = kept;
  peer_end(&peer);
  free(buffer);
  close_kept(ends[0], ends[1]);
  return result;
}
static long call_recv(void) { return receive(RECV, 10); }
static long call_recvfrom(void) { return receive(RECVFROM, 10); }
static long call_recvmsg(void) { return receive(RECVMSG, 10); }
static long call_recvmmsg(void) { return receive(RECVMMSG, 10); }
static long call_recv_all(void) { return receive(RECV_ALL, LARGE); }
static long call_recv_timeout(void) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return -1;
  struct timeval t = {0, MS * 1000};
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
  char byte;
  BEGIN();
  long result = recv(ends[0], &byte, 1, 0);
  close_kept(ends[0], ends[1]);
  return result;
}
static long call_send_timeout(void) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return -1;
  struct timeval t = {0, MS * 1000};
  setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
  char byte = 0;
  while (send(ends[0], &byte, 1, MSG_DONTWAIT) == 1) {}
  BEGIN();
  long result = send(ends[0], &byte, 1, 0);
  close_kept(ends[0], ends[1]);
  return result;
}
static long call_accept_timeout(void) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1) != 0) return -2;
  struct timeval t = {0, MS * 1000};
  setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
  BEGIN();
  long result = accept(listener, NULL, NULL);
  close_kept(listener, -1);
  return result;
}
static long call_timerfd_read(void) {
  struct itimerspec in = {.it_value = {0, NS}};
  int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  timerfd_settime(timer, 0, &in, NULL);
  uint64_t value = 0;
  BEGIN();
  long result = read(timer, &value, sizeof value);
  close_kept(timer, -1);
  return result;
}
static long call_timerfd_poll(void) {
  struct itimerspec in = {.it_value = {0, NS}};
  int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  timerfd_settime(timer, 0, &in, NULL);
  struct pollfd entry = {timer, POLLIN, 0};
  BEGIN();
  long result = poll(&entry, 1, -1);
  close_kept(timer, -1);
  return result;
}
static void act_touch(struct peer *peer) { close(open(peer->object, O_CREAT | O_WRONLY, 0600)); }
static long call_inotify_read(void) {
  char directory[] = "/tmp/victim-XXXXXX", path[64], buffer[512];
  if (mkdtemp(directory) == NULL) return -2;
  snprintf(path, sizeof path, "%s/x", directory);
  int descriptor = inotify_init1(0);
  inotify_add_watch(descriptor, directory, IN_CREATE);
  struct peer peer = {.act = act_touch, .object = path};
  peer_start(&peer);
  BEGIN();
  long result = read(descriptor, buffer, sizeof buffer);
  peer_end(&peer);
  unlink(path);
  rmdir(directory);
  close_kept(descriptor, -1);
  return result;
}
static void act_open_writer(struct peer *peer) { close(open(peer->object, O_WRONLY)); }
static long call_open_fifo(void) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/victim-%d-%ld.fifo", getpid(), syscall(SYS_gettid));
  mkfifo(path, 0600);
  struct peer peer = {.act = act_open_writer, .object = path};
  peer_start(&peer);
  BEGIN();
  int descriptor = open(path, O_RDONLY);
  int kept = errno;
  peer_end(&peer);
  unlink(path);
  close(descriptor);
  errno = kept;
  return descriptor >= 0;
}
static void act_unlock(struct peer *peer) { flock(peer->descriptor, LOCK_UN); }
static long call_flock(void) {
  char path[] = "/tmp/victim-XXXXXX";
  int first = mkstemp(path), second = open(path, O_RDWR);
  flock(first, LOCK_EX);
  struct peer peer = {.act = act_unlock, .descriptor = first};
  peer_start(&peer);
  BEGIN();
  long result = flock(second, LOCK_EX);
  peer_end(&peer);
  unlink(path);
  close_kept(first, second);
  return result;
}
static void act_unlock_range(struct peer *peer) {
  struct flock range = {.l_type = F_UNLCK};
  fcntl(peer->descriptor, F_OFD_SETLK, &range);
}
static long call_fcntl_lock(void) {
  char path[] = "/tmp/victim-XXXXXX";
  int first = mkstemp(path), second = open(path, O_RDWR);
  struct flock range = {.l_type = F_WRLCK};
  fcntl(first, F_OFD_SETLK, &range);
  struct peer peer = {.act = act_unlock_range, .descriptor = first};
  peer_start(&peer);
  BEGIN();
  long result = fcntl(second, F_OFD_SETLKW, &range);
  peer_end(&peer);
  unlink(path);
  close_kept(first, second);
  return result;
}
static long call_splice(void) {
  int from[2], to[2];
  if (pipe(from) != 0 || pipe(to) != 0) return -2;
  struct peer peer = {.act = act_write, .descriptor = from[1], .bytes = 10};
  peer_start(&peer);
  BEGIN();
  long result = splice(from[0], NULL, to[1], NULL, 64, 0);
  peer_end(&peer);
  close_kept(from[0], from[1]);
  close_kept(to[0], to[1]);
  return result;
}
static long call_io_getevents(void) {
  unsigned long context = 0;
  if (syscall(SYS_io_setup, 1, &context) != 0) return -2;
  char event[64];
  struct timespec t = {0, NS};
  BEGIN();
  long result = syscall(SYS_io_getevents, context, 1, 1, event, &t);
  int kept = errno;
  syscall(SYS_io_destroy, context);
  errno = kept;
  return result;
}

// -- Children

static pid_t sleeping_child(void) {
  pid_t child = fork();
  if (child == 0) {
    struct timespec t = {0, NS};
    syscall(SYS_nanosleep, &t, NULL);
    _exit(7);
  }
  return child;
}
static long call_waitpid(void) {
  pid_t child = sleeping_child();
  int status = 0;
  BEGIN();
  pid_t result = waitpid(child, &status, 0);
  return result == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static long call_waitid(void) {
  pid_t child = sleeping_child();
  siginfo_t info;
  BEGIN();
  long result = waitid(P_PID, (id_t)child, &info, WEXITED);
  return result == 0 ? info.si_status : -1;
}
static long call_vfork(void) {
  BEGIN();
  pid_t child = vfork();
  if (child == 0) {
    struct timespec t = {0, NS};
    syscall(SYS_nanosleep, &t, NULL);
    _exit(7);
  }
  int kept = errno, status = 0;
  waitpid(child, &status, 0);
  errno = kept;
  return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const struct {
  const char *name;
  /// Makes the call, and returns what it returned.
  long (*run)(void);
} victim_calls[] = {
    {"nanosleep", call_nanosleep},
    {"clock_nanosleep", call_clock_nanosleep},
    {"clock_nanosleep, absolute", call_clock_nanosleep_absolute},
    {"usleep", call_usleep},
    {"sleep", call_sleep},
    {"poll", call_poll},
    {"ppoll", call_ppoll},
    {"select", call_select},
    {"pselect", call_pselect},
    {"epoll_wait", call_epoll_wait},
    {"epoll_pwait", call_epoll_pwait},
    {"epoll_pwait2", call_epoll_pwait2},
    {"sigtimedwait", call_sigtimedwait},
    {"sigwaitinfo", call_sigwaitinfo},
    {"read of a signalfd", call_signalfd_read},
    {"sem_timedwait", call_sem_timedwait},
    {"sem_wait", call_sem_wait},
    {"futex with a timeout", call_futex_timeout},
    {"futex with a bitset", call_futex_bitset},
    {"pthread_mutex_lock", call_mutex},
    {"pthread_mutex_lock, priority inheritance", call_mutex_inheriting},
    {"pthread_cond_timedwait", call_condition_timed},
    {"pthread_join", call_join},
    {"semtimedop", call_semtimedop},
    {"semop", call_semop},
    {"msgrcv", call_msgrcv},
    {"msgsnd", call_msgsnd},
    {"mq_timedreceive", call_mq_timedreceive},
    {"read of a pipe", call_read_pipe},
    {"readv of a pipe", call_readv_pipe},
    {"large write to a pipe", call_write_pipe_large},
    {"large writev to a pipe", call_writev_pipe_large},
    {"large send to a Unix socket", call_send_large},
    {"large sendmsg to a Unix socket", call_sendmsg_large},
    {"large send over TCP", call_send_tcp_large},
    {"recv", call_recv},
    {"recvfrom", call_recvfrom},
    {"recvmsg", call_recvmsg},
    {"recvmmsg", call_recvmmsg},
    {"recv with MSG_WAITALL", call_recv_all},
    {"recv with SO_RCVTIMEO", call_recv_timeout},
    {"send with SO_SNDTIMEO", call_send_timeout},
    {"accept with SO_RCVTIMEO", call_accept_timeout},
    {"read of a timerfd", call_timerfd_read},
    {"poll of a timerfd", call_timerfd_poll},
    {"read of an inotify descriptor", call_inotify_read},
    {"open of a FIFO", call_open_fifo},
    {"flock", call_flock},
    {"fcntl F_OFD_SETLKW", call_fcntl_lock},
    {"splice", call_splice},
    {"io_getevents", call_io_getevents},
    {"waitpid", call_waitpid},
    {"waitid", call_waitid},
    {"vfork", call_vfork},
};
const size_t victim_call_count = sizeof victim_calls / sizeof *victim_calls;

const char *victim_call_name(size_t index) { return victim_calls[index].name; }

void victim_call_set_duration(unsigned milliseconds) { duration_ms = milliseconds; }

victim_outcome victim_call_run(size_t index) {
  victim_outcome outcome;
  began = now_ms();
  outcome.result = victim_calls[index].run();
  outcome.error = errno;
  outcome.elapsed_ms = now_ms() - began;
  return outcome;
}
