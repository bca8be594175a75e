// Stalls that wait in system calls of all kinds, in C: one call for each stall.
#include "../host.h"

#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <threads.h>

static const struct timespec FOR_THE_STALL = {0, STALL_MS * 1000000L};

// MARK: What ends a wait

struct end {
  int read, write;
};

static struct end pipe_of_nothing(void) {
  struct end end;
  require(pipe2((int *)&end, O_CLOEXEC) == 0, "pipe2");
  return end;
}

static struct end pair(int kind) {
  struct end end;
  require(socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, (int *)&end) == 0, "socketpair");
  return end;
}

static void write_one(void *argument) {
  require(write(*(int *)argument, "x", 1) == 1, "write");
}

static void read_much(void *argument) {
  static char buffer[1 << 20];
  require(read(*(int *)argument, buffer, sizeof buffer) > 0, "read");
}

// Fills what a descriptor takes.
static void fill(int descriptor) {
  static char bytes[4096];
  int flags = fcntl(descriptor, F_GETFL);
  fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
  while (write(descriptor, bytes, sizeof bytes) > 0) {}
  fcntl(descriptor, F_SETFL, flags);
}

// A child that sleeps for as long as the stall lasts.
static pid_t child_that_sleeps(void) {
  pid_t child;
  char time[16];
  snprintf(time, sizeof time, "0.%d", STALL_MS);
  char *arguments[] = {"sleep", time, NULL}, *environment[] = {NULL};
  require(posix_spawnp(&child, "sleep", NULL, NULL, arguments, environment) == 0, "posix_spawnp");
  return child;
}

// MARK: Descriptors

static NOINLINE ssize_t read_vector(int descriptor) {
  char byte;
  struct iovec piece = {&byte, 1};
  return readv(descriptor, &piece, 1) + 1;
}

// stall readv: io in read_vector
STALL(readv) {
  struct end end = pipe_of_nothing();
  later("writer", write_one, &end.write);
  result = (uint64_t)read_vector(end.read);
}

static NOINLINE ssize_t write_vector(int descriptor) {
  char bytes[4096] = {0};
  struct iovec piece = {bytes, sizeof bytes};
  return writev(descriptor, &piece, 1) + 1;
}

// stall writev: io in write_vector
STALL(writev) {
  struct end end = pipe_of_nothing();
  fill(end.write);
  later("reader", read_much, &end.read);
  result = (uint64_t)write_vector(end.write);
}

static NOINLINE ssize_t receive_message(int descriptor) {
  char byte;
  struct iovec piece = {&byte, 1};
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
  return recvmsg(descriptor, &message, 0) + 1;
}

// stall recvmsg: io in receive_message
STALL(recvmsg) {
  struct end end = pair(SOCK_STREAM);
  later("sender", write_one, &end.write);
  result = (uint64_t)receive_message(end.read);
}

static NOINLINE int receive_messages(int descriptor) {
  char byte;
  struct iovec piece = {&byte, 1};
  struct mmsghdr message = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}};
  return recvmmsg(descriptor, &message, 1, 0, NULL) + 1;
}

// stall recvmmsg: io in receive_messages
STALL(recvmmsg) {
  struct end end = pair(SOCK_DGRAM);
  later("sender", write_one, &end.write);
  result = (uint64_t)receive_messages(end.read);
}

static NOINLINE ssize_t send_response(int descriptor) {
  char bytes[4096] = {0};
  return send(descriptor, bytes, sizeof bytes, MSG_NOSIGNAL) + 1;
}

// stall send: io in send_response
STALL(send) {
  struct end end = pair(SOCK_STREAM);
  fill(end.write);
  later("receiver", read_much, &end.read);
  result = (uint64_t)send_response(end.write);
}

static NOINLINE int connect_to_busy_server(const struct sockaddr_un *address, int client) {
  return connect(client, (const struct sockaddr *)address, sizeof *address) + 1;
}

static void accept_one(void *argument) { require(accept(*(int *)argument, NULL, NULL) >= 0, "accept"); }

// stall connect: io in connect_to_busy_server
STALL(connect) {
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "busy.sock"};
  int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 0) == 0, "listen");
  int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(connect(first, (struct sockaddr *)&address, sizeof address) == 0, "connect");
  later("server", accept_one, &server);
  result = (uint64_t)connect_to_busy_server(&address, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static NOINLINE ssize_t move_pages(int from, int to) { return splice(from, NULL, to, NULL, 4096, 0) + 1; }

// stall splice: io in move_pages
STALL(splice) {
  struct end from = pipe_of_nothing(), to = pipe_of_nothing();
  later("writer", write_one, &from.write);
  result = (uint64_t)move_pages(from.read, to.write);
}

static NOINLINE ssize_t send_file(int file, int to) {
  off_t start = 0;
  return sendfile(to, file, &start, 4096) + 1;
}

// stall sendfile: io in send_file
STALL(sendfile) {
  struct end end = pair(SOCK_STREAM);
  int file = open("page", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  require(ftruncate(file, 4096) == 0, "ftruncate");
  fill(end.write);
  later("receiver", read_much, &end.read);
  result = (uint64_t)send_file(file, end.write);
}

static NOINLINE int open_fifo(const char *path) { return open(path, O_RDONLY | O_CLOEXEC) + 1; }

static void open_for_writing(void *argument) { require(open(argument, O_WRONLY | O_CLOEXEC) >= 0, "open"); }

// stall open: io in open_fifo
STALL(open) {
  static char path[] = "requests";
  require(mkfifo(path, 0600) == 0, "mkfifo");
  later("writer", open_for_writing, path);
  result = (uint64_t)open_fifo(path);
}

static NOINLINE uint64_t take_count(int descriptor) {
  eventfd_t value = 0;
  eventfd_read(descriptor, &value);
  return value + 1;
}

static void count_one(void *argument) { require(eventfd_write(*(int *)argument, 1) == 0, "eventfd_write"); }

// stall eventfd: io in take_count
STALL(eventfd) {
  int descriptor = eventfd(0, EFD_CLOEXEC);
  later("counter", count_one, &descriptor);
  result = take_count(descriptor);
}

static NOINLINE ssize_t read_signal(int descriptor) {
  struct signalfd_siginfo info;
  return read(descriptor, &info, sizeof info) + 1;
}

static void send_signal(void *argument) {
  require(tgkill(getpid(), (pid_t)(intptr_t)argument, SIGUSR1) == 0, "tgkill");
}

static void block_signal(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, set, NULL);
}

// stall signalfd: io in read_signal
STALL(signalfd) {
  sigset_t set;
  block_signal(&set);
  int descriptor = signalfd(-1, &set, SFD_CLOEXEC);
  later("sender", send_signal, (void *)(intptr_t)gettid());
  result = (uint64_t)read_signal(descriptor);
}

static NOINLINE ssize_t read_change(int descriptor) {
  char buffer[4096];
  return read(descriptor, buffer, sizeof buffer) + 1;
}

static void make_file(void *argument) { require(mkdir(argument, 0700) == 0, "mkdir"); }

// stall inotify: io in read_change
STALL(inotify) {
  static char name[] = "made";
  int descriptor = inotify_init1(IN_CLOEXEC);
  require(inotify_add_watch(descriptor, ".", IN_CREATE) >= 0, "inotify_add_watch");
  later("maker", make_file, name);
  result = (uint64_t)read_change(descriptor);
}

static NOINLINE int poll_exactly(int descriptor) {
  struct pollfd polled = {descriptor, POLLIN, 0};
  return ppoll(&polled, 1, NULL, NULL) + 1;
}

// stall ppoll: io in poll_exactly
STALL(ppoll) {
  struct end end = pipe_of_nothing();
  later("writer", write_one, &end.write);
  result = (uint64_t)poll_exactly(end.read);
}

static NOINLINE int select_one(int descriptor) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(descriptor, &set);
  return select(descriptor + 1, &set, NULL, NULL, NULL) + 1;
}

// stall select: io in select_one
STALL(select) {
  struct end end = pipe_of_nothing();
  later("writer", write_one, &end.write);
  result = (uint64_t)select_one(end.read);
}

// MARK: Queues of messages, and semaphores

static NOINLINE ssize_t take_posix_message(mqd_t queue) {
  char buffer[8192];
  return mq_receive(queue, buffer, sizeof buffer, NULL) + 1;
}

static void put_posix_message(void *argument) { require(mq_send(*(mqd_t *)argument, "x", 1, 0) == 0, "mq_send"); }

// stall mq_receive: io in take_posix_message
STALL(mq_receive) {
  char name[32];
  snprintf(name, sizeof name, "/stalls-%d", getpid());
  mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, NULL);
  require(queue != (mqd_t)-1, "mq_open");
  mq_unlink(name);
  later("sender", put_posix_message, &queue);
  result = (uint64_t)take_posix_message(queue);
}

static NOINLINE int take_semaphore(int set) {
  struct sembuf take = {0, -1, 0};
  return semop(set, &take, 1) + 1;
}

static void give_semaphore(void *argument) {
  struct sembuf give = {0, 1, 0};
  semop(*(int *)argument, &give, 1);
}

// stall semop: lock in take_semaphore
STALL(semop) {
  int set = semget(IPC_PRIVATE, 1, 0600);
  require(set >= 0, "semget");
  later("giver", give_semaphore, &set);
  result = (uint64_t)take_semaphore(set);
  semctl(set, 0, IPC_RMID);
}

// MARK: Locks

static NOINLINE int lock_region(int file) {
  struct flock lock = {.l_type = F_WRLCK};
  return fcntl(file, F_OFD_SETLKW, &lock) + 1;
}

static void close_file(void *argument) { close(*(int *)argument); }

// stall file_region: lock in lock_region
STALL(file_region) {
  char path[32];
  int other = memfd_create("journal", MFD_CLOEXEC);
  snprintf(path, sizeof path, "/proc/self/fd/%d", other);
  int own = open(path, O_RDWR | O_CLOEXEC);
  struct flock lock = {.l_type = F_WRLCK};
  require(fcntl(other, F_OFD_SETLK, &lock) == 0, "fcntl");
  later("closer", close_file, &other);
  result = (uint64_t)lock_region(own);
}

static pthread_mutex_t timed = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static mtx_t standard;

static void lock_timed(void *mutex) { pthread_mutex_lock(mutex); }
static void unlock_timed(void *mutex) { pthread_mutex_unlock(mutex); }

static NOINLINE int lock_in_time(void) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 10;
  return pthread_mutex_timedlock(&timed, &end) + 1;
}

// stall timed_mutex: lock in lock_in_time, held by slow-keeper
STALL(timed_mutex) {
  meanwhile("slow-keeper", lock_timed, unlock_timed, &timed);
  result = (uint64_t)lock_in_time();
}

static void read_lock(void *lock) { pthread_rwlock_rdlock(lock); }
static void read_unlock(void *lock) { pthread_rwlock_unlock(lock); }

static NOINLINE int write_table(void) { return pthread_rwlock_wrlock(&table) + 1; }

// Readers leave no trace of who they are.
// stall write_lock: lock in write_table
STALL(write_lock) {
  meanwhile("table-reader", read_lock, read_unlock, &table);
  result = (uint64_t)write_table();
}

static void lock_standard(void *mutex) { mtx_lock(mutex); }
static void unlock_standard(void *mutex) { mtx_unlock(mutex); }

static NOINLINE int lock_as_c11(void) { return mtx_lock(&standard) + 1; }

// stall c11_mutex: lock in lock_as_c11, held by c11-keeper
STALL(c11_mutex) {
  mtx_init(&standard, mtx_plain);
  meanwhile("c11-keeper", lock_standard, unlock_standard, &standard);
  result = (uint64_t)lock_as_c11();
}

static NOINLINE int lock_shared_memory(pthread_mutex_t *mutex) { return pthread_mutex_lock(mutex) + 1; }

// The holder is another process, and no thread of this one, whatever number it has.
// stall shared_memory_mutex: lock in lock_shared_memory
STALL(shared_memory_mutex) {
  pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(mutex, &attributes);
  struct end end = pipe_of_nothing();
  if (fork() == 0) {
    pthread_mutex_lock(mutex);
    if (write(end.write, "x", 1) != 1) _exit(1);
    nanosleep(&FOR_THE_STALL, NULL);
    pthread_mutex_unlock(mutex);
    _exit(0);
  }
  char byte;
  require(read(end.read, &byte, 1) == 1, "read");
  result = (uint64_t)lock_shared_memory(mutex);
}

// MARK: Sleeps, and signals

static NOINLINE int sleep_until(void) {
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_nsec += STALL_MS * 1000000L;
  if (end.tv_nsec >= 1000000000L) {
    end.tv_nsec -= 1000000000L;
    end.tv_sec++;
  }
  return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) + 1;
}

// stall clock_nanosleep: sleep in sleep_until
STALL(clock_nanosleep) { result = (uint64_t)sleep_until(); }

static NOINLINE int sleep_exactly(void) { return pselect(0, NULL, NULL, NULL, &FOR_THE_STALL, NULL) + 1; }

// stall pselect_timeout: sleep in sleep_exactly
STALL(pselect_timeout) { result = (uint64_t)sleep_exactly(); }

static NOINLINE int epoll_of_nothing(int descriptor) {
  struct epoll_event event;
  return epoll_wait(descriptor, &event, 1, STALL_MS) + 1;
}

// stall epoll_timeout: io in epoll_of_nothing
STALL(epoll_timeout) { result = (uint64_t)epoll_of_nothing(epoll_create1(EPOLL_CLOEXEC)); }

static NOINLINE int take_signal(const sigset_t *set) {
  int signal = 0;
  sigwait(set, &signal);
  return signal + 1;
}

// stall sigwait: sleep in take_signal
STALL(sigwait) {
  sigset_t set;
  block_signal(&set);
  later("sender", send_signal, (void *)(intptr_t)gettid());
  result = (uint64_t)take_signal(&set);
}

// MARK: Children

static NOINLINE int wait_for_identity(pid_t child) {
  siginfo_t info;
  return waitid(P_PID, (id_t)child, &info, WEXITED) + 1;
}

// stall waitid: lock in wait_for_identity
STALL(waitid) { result = (uint64_t)wait_for_identity(child_that_sleeps()); }

static NOINLINE int poll_child(int descriptor) {
  struct pollfd polled = {descriptor, POLLIN, 0};
  return poll(&polled, 1, -1) + 1;
}

// stall pidfd: io in poll_child
STALL(pidfd) { result = (uint64_t)poll_child((int)syscall(SYS_pidfd_open, child_that_sleeps(), 0)); }
