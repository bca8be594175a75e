// Stalls that wait, in C: sleeps, descriptors, locks, children.
#include "../host.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>

// MARK: Sleeps

static NOINLINE int sleep_well(void) {
  struct timespec left = {0, STALL_MS * 1000000L};
  while (nanosleep(&left, &left) != 0) {}
  return 1;
}

// stall nanosleep: sleep in sleep_well
STALL(nanosleep) { result = (uint64_t)sleep_well(); }

// The call in the last place is a jump in an optimized build: the function is not on the stack, and its caller is.
static NOINLINE int sleep_at_last(void) { return usleep(STALL_MS * 1000); }

// stall tail_sleep: sleep in sleep_at_last
//   optimized: stall_tail_sleep
STALL(tail_sleep) { result = (uint64_t)sleep_at_last(); }

static ALWAYS_INLINE void sleep_inlined(void) {
  for (int i = 0; i < 2; i++) usleep(STALL_MS * 500);
}

// stall inlined_sleep: sleep in sleep_inlined
//   nodebug: stall_inlined_sleep
STALL(inlined_sleep) {
  sleep_inlined();
  result = 1;
}

static ALWAYS_INLINE int retry_once(int attempt) {
  return usleep(STALL_MS * 1000) + attempt;
}
static ALWAYS_INLINE int retry(int attempt) { return retry_once(attempt) * 2; }
static NOINLINE int back_off(int attempt) { return retry(attempt) + 3; }

// stall inlined_twice_sleep: sleep in retry_once
//   nodebug: back_off
STALL(inlined_twice_sleep) { result = (uint64_t)back_off(1); }

static NOINLINE void short_sleeps(void) {
  while (!is_late()) usleep(5000);
}

// stall many_sleeps: sleep in short_sleeps
STALL(many_sleeps) {
  short_sleeps();
  result = 1;
}

static NOINLINE int poll_of_nothing(void) { return poll(NULL, 0, STALL_MS) + 1; }

// stall poll_timeout: sleep in poll_of_nothing
STALL(poll_timeout) { result = (uint64_t)poll_of_nothing(); }

static NOINLINE int select_of_nothing(void) {
  struct timeval time = {0, STALL_MS * 1000};
  return select(0, NULL, NULL, NULL, &time) + 1;
}

// stall select_timeout: sleep in select_of_nothing
STALL(select_timeout) { result = (uint64_t)select_of_nothing(); }

static void ignore(int signal) { result = (uint64_t)signal; }
static NOINLINE int wait_for_a_signal(void) {
  pause();
  return errno;
}
static void signal_the_loop(void *thread) { pthread_kill(*(pthread_t *)thread, SIGUSR1); }

// stall pause: sleep in wait_for_a_signal
STALL(pause) {
  static pthread_t self;
  self = pthread_self();
  struct sigaction action = {.sa_handler = ignore};
  sigaction(SIGUSR1, &action, NULL);
  later("signaller", signal_the_loop, &self);
  result = (uint64_t)wait_for_a_signal();
}

static int compare_asleep(const void *a, const void *b) {
  usleep(STALL_MS * 1000);
  return *(const int *)a - *(const int *)b;
}

// stall qsort_sleep: sleep in compare_asleep
STALL(qsort_sleep) {
  int numbers[2] = {2, 1};
  qsort(numbers, 2, sizeof *numbers, compare_asleep);
  result = (uint64_t)numbers[0];
}

// MARK: Descriptors

static int ends[2];
static void write_a_byte(void *end) { require(write(*(int *)end, "x\n", 2) == 2, "write"); }

static NOINLINE ssize_t read_request(int descriptor) {
  char text[2];
  return read(descriptor, text, sizeof text) + text[0];
}

// stall read_pipe: io in read_request
STALL(read_pipe) {
  require(pipe(ends) == 0, "pipe");
  later("writer", write_a_byte, &ends[1]);
  result = (uint64_t)read_request(ends[0]);
}

static NOINLINE ssize_t receive_request(int descriptor) {
  char text[2];
  return recv(descriptor, text, sizeof text, 0) + text[0];
}

// stall receive: io in receive_request
STALL(receive) {
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  later("sender", write_a_byte, &ends[1]);
  result = (uint64_t)receive_request(ends[0]);
}

static NOINLINE int poll_one(int descriptor) {
  struct pollfd entry = {.fd = descriptor, .events = POLLIN};
  return poll(&entry, 1, -1) + entry.revents;
}

// stall poll_pipe: io in poll_one
STALL(poll_pipe) {
  require(pipe(ends) == 0, "pipe");
  later("writer", write_a_byte, &ends[1]);
  result = (uint64_t)poll_one(ends[0]);
}

static NOINLINE int wait_for_events(int poller) {
  struct epoll_event event = {0};
  return epoll_wait(poller, &event, 1, -1) + (int)event.events;
}

// stall epoll: io in wait_for_events
STALL(epoll) {
  require(pipe(ends) == 0, "pipe");
  int poller = epoll_create1(EPOLL_CLOEXEC);
  epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &(struct epoll_event){.events = EPOLLIN});
  later("writer", write_a_byte, &ends[1]);
  result = (uint64_t)wait_for_events(poller);
}

static void read_it_all(void *end) {
  static char sink[1 << 20];
  for (int i = 0; i < 2; i++) result = (uint64_t)read(*(int *)end, sink, sizeof sink);
}
static NOINLINE ssize_t write_response(int descriptor) {
  static char block[1 << 17];
  return write(descriptor, block, sizeof block) + 1;
}

// stall write_full_pipe: io in write_response
STALL(write_full_pipe) {
  require(pipe(ends) == 0, "pipe");
  later("reader", read_it_all, &ends[0]);
  result = (uint64_t)write_response(ends[1]);
}

static void connect_to(void *address) {
  int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(connect(client, address, sizeof(struct sockaddr_un)) == 0, "connect");
}
static NOINLINE int accept_client(int server) { return accept4(server, NULL, NULL, SOCK_CLOEXEC) + 1; }

// stall accept: io in accept_client
STALL(accept) {
  static struct sockaddr_un address = {.sun_family = AF_UNIX};
  // An abstract name leaves nothing behind.
  snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "stalls-%d", getpid());
  int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 1) == 0, "listen");
  later("client", connect_to, &address);
  result = (uint64_t)accept_client(server);
}

static NOINLINE char *read_line(FILE *stream, char *line, int size) {
  char *text = fgets(line, size, stream);
  line[0] ^= 1;
  return text;
}

// stall fgets: io in read_line
STALL(fgets) {
  require(pipe(ends) == 0, "pipe");
  FILE *stream = fdopen(ends[0], "r");
  later("writer", write_a_byte, &ends[1]);
  char line[16];
  result = (uint64_t)read_line(stream, line, sizeof line);
}

static NOINLINE uint64_t wait_for_timer(int timer) {
  uint64_t count = 0;
  return (uint64_t)read(timer, &count, sizeof count) + count;
}

// stall timerfd: io in wait_for_timer
STALL(timerfd) {
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  timerfd_settime(timer, 0, &(struct itimerspec){.it_value = {0, STALL_MS * 1000000L}}, NULL);
  result = wait_for_timer(timer);
}

static void put_message(void *queue) {
  struct {
    long type;
    char text[1];
  } message = {1, {'x'}};
  msgsnd(*(int *)queue, &message, 1, 0);
}
static NOINLINE ssize_t take_message(int queue) {
  struct {
    long type;
    char text[1];
  } message;
  return msgrcv(queue, &message, 1, 0, 0) + message.text[0];
}

// stall message_queue: io in take_message
STALL(message_queue) {
  static int queue;
  queue = msgget(IPC_PRIVATE, 0600);
  require(queue >= 0, "msgget");
  later("producer", put_message, &queue);
  result = (uint64_t)take_message(queue);
  msgctl(queue, IPC_RMID, NULL);
}

// MARK: Locks

static void unlock_file(void *file) { flock(*(int *)file, LOCK_UN); }
static NOINLINE int lock_file(int file) { return flock(file, LOCK_EX) + 1; }

// stall flock: lock in lock_file
STALL(flock) {
  static int first;
  char path[64];
  snprintf(path, sizeof path, "/tmp/stalls-%d", getpid());
  first = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  int second = open(path, O_RDWR | O_CLOEXEC);
  unlink(path);
  require(second >= 0 && flock(first, LOCK_EX) == 0, "flock");
  later("unlocker", unlock_file, &first);
  result = (uint64_t)lock_file(second);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void take(void *lock) { pthread_mutex_lock(lock); }
static void give(void *lock) { pthread_mutex_unlock(lock); }
static NOINLINE int append_to_journal(void) {
  pthread_mutex_lock(&mutex);
  result++;
  return pthread_mutex_unlock(&mutex) + 1;
}

// stall mutex: lock in append_to_journal, held by lock-keeper
STALL(mutex) {
  meanwhile("lock-keeper", take, give, &mutex);
  result = (uint64_t)append_to_journal();
}

static ALWAYS_INLINE void lock_inlined(void) { pthread_mutex_lock(&mutex); }
static NOINLINE int update_journal(void) {
  lock_inlined();
  result++;
  return pthread_mutex_unlock(&mutex) + 2;
}

// stall inlined_mutex: lock in lock_inlined, held by lock-keeper
//   nodebug: update_journal
STALL(inlined_mutex) {
  meanwhile("lock-keeper", take, give, &mutex);
  result = (uint64_t)update_journal();
}

static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static NOINLINE int lock_recursive(void) {
  pthread_mutex_lock(&recursive);
  return pthread_mutex_unlock(&recursive) + 1;
}

// stall recursive_mutex: lock in lock_recursive, held by lock-keeper
STALL(recursive_mutex) {
  meanwhile("lock-keeper", take, give, &recursive);
  result = (uint64_t)lock_recursive();
}

static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static void write_lock(void *lock) { pthread_rwlock_wrlock(lock); }
static void write_unlock(void *lock) { pthread_rwlock_unlock(lock); }
static NOINLINE int read_table(void) {
  pthread_rwlock_rdlock(&table_lock);
  return pthread_rwlock_unlock(&table_lock) + 1;
}

// stall read_write_lock: lock in read_table, held by table-writer
STALL(read_write_lock) {
  meanwhile("table-writer", write_lock, write_unlock, &table_lock);
  result = (uint64_t)read_table();
}

static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static bool is_ready;
static void make_ready(void *unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  is_ready = true;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
}
static NOINLINE int wait_until_ready(void) {
  pthread_mutex_lock(&mutex);
  while (!is_ready) pthread_cond_wait(&condition, &mutex);
  return pthread_mutex_unlock(&mutex) + 1;
}

// stall condition: lock in wait_until_ready
STALL(condition) {
  later("producer", make_ready, NULL);
  result = (uint64_t)wait_until_ready();
}

static NOINLINE int wait_in_vain(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  time.tv_nsec += STALL_MS * 1000000L;
  time.tv_sec += time.tv_nsec / 1000000000L;
  time.tv_nsec %= 1000000000L;
  pthread_mutex_lock(&mutex);
  int status = 0;
  while (status == 0) status = pthread_cond_timedwait(&condition, &mutex, &time);
  pthread_mutex_unlock(&mutex);
  return status;
}

// stall condition_timeout: lock in wait_in_vain
STALL(condition_timeout) { result = (uint64_t)wait_in_vain(); }

static void post(void *semaphore) { sem_post(semaphore); }
static NOINLINE int wait_for_permit(sem_t *semaphore) {
  while (sem_wait(semaphore) != 0) {}
  return 1;
}

// stall semaphore: lock in wait_for_permit
STALL(semaphore) {
  static sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  later("poster", post, &semaphore);
  result = (uint64_t)wait_for_permit(&semaphore);
}

static void *sleep_and_end(void *unused) {
  pthread_setname_np(pthread_self(), "worker");
  usleep(STALL_MS * 1000);
  return unused;
}
static NOINLINE int join_worker(pthread_t thread) { return pthread_join(thread, NULL) + 1; }

// stall join: lock in join_worker, held by worker
STALL(join) {
  pthread_t thread;
  pthread_create(&thread, NULL, sleep_and_end, NULL);
  result = (uint64_t)join_worker(thread);
}

static void reach(void *barrier) { pthread_barrier_wait(barrier); }
static NOINLINE int meet(pthread_barrier_t *barrier) { return pthread_barrier_wait(barrier) + 2; }

// stall barrier: lock in meet
STALL(barrier) {
  static pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, 2);
  later("late-comer", reach, &barrier);
  result = (uint64_t)meet(&barrier);
}

static void wake(void *word) {
  *(volatile int *)word = 0;
  syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
static NOINLINE int wait_on_word(int *word) {
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 1) syscall(SYS_futex, word, FUTEX_WAIT, 1, NULL, NULL, 0);
  return 1;
}

// stall futex: lock in wait_on_word
STALL(futex) {
  static int word = 1;
  later("waker", wake, &word);
  result = (uint64_t)wait_on_word(&word);
}

static void keep_stream(void *stream) { flockfile(stream); }
static void release_stream(void *stream) { funlockfile(stream); }
static NOINLINE int log_line(FILE *stream) { return fputs("x", stream) + 1; }

// stall stream_lock: lock in log_line, held by logger
STALL(stream_lock) {
  FILE *stream = fopen("/dev/null", "w");
  meanwhile("logger", keep_stream, release_stream, stream);
  result = (uint64_t)log_line(stream);
}

// MARK: Children, whose doings the monitor does not know

static NOINLINE int wait_for_child(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) + status;
}

// stall waitpid: lock in wait_for_child
STALL(waitpid) {
  pid_t child = fork();
  if (child == 0) {
    usleep(STALL_MS * 1000);
    _exit(0);
  }
  result = (uint64_t)wait_for_child(child);
}

static NOINLINE int run_command(const char *command) { return system(command) + 1; }

// stall system: lock in run_command
STALL(system) { result = (uint64_t)run_command("sleep 0.25"); }
