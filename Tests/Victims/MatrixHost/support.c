#include "host.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stallmonitor.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <time.h>

bool is_watched;
static __thread stallmonitor_loop *loop;
static int facts = STDOUT_FILENO;

void say(const char *format, ...) {
  char line[4096];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (length > (int)sizeof line - 2) length = sizeof line - 2;
  line[length++] = '\n';
  if (write(facts, line, (size_t)length) != length) _exit(98);
}

void say_to(const char *path) {
  facts = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (facts < 0) _exit(97);
}

void require(bool condition, const char *what) {
  if (condition) return;
  say("setup failed: %s: %s", what, strerror(errno));
  _exit(99);
}

void watch_thread(const char *name) {
  if (is_watched) loop = stallmonitor_loop_create(name, 0);
}

void watch_start_without_loop(void) {
  if (is_watched) stallmonitor_start(NULL);
}

void watch_start(void) {
  watch_start_without_loop();
  watch_thread("main");
}

void watch_stop(void) {
  if (is_watched) stallmonitor_stop();
}

void turn_begin(void) { stallmonitor_loop_busy(loop); }
void turn_end(void) { stallmonitor_loop_idle(loop); }

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static volatile unsigned long counter;

__attribute__((noinline)) void compute(unsigned ms) {
  double end = now_ms() + ms;
  while (now_ms() < end)
    for (int i = 0; i < 10000; i++) counter = counter * 31 + 7;
}

void pause_for(unsigned ms) {
  struct timespec left = {ms / 1000, ms % 1000 * 1000000L};
  while (nanosleep(&left, &left) != 0) {}
}

void stall(unsigned ms) {
  const char *factor = getenv("MATRIX_STALL_FACTOR");
  turn_begin();
  compute(ms * (factor != NULL ? (unsigned)atoi(factor) : 1));
  turn_end();
  pause_for(5);
}

void run_thread(void *(*body)(void *)) {
  pthread_t thread;
  require(pthread_create(&thread, NULL, body, NULL) == 0, "pthread_create");
  pthread_join(thread, NULL);
}

int install_filter(const long *calls, size_t count, unsigned action, unsigned flags) {
  struct sock_filter program[64];
  size_t length = 0;
  program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; i++) {
    program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
  }
  program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog filter = {(unsigned short)length, program};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
}

int install_allow_filter(void) {
  struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog filter = {1, &allow};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

void become_unprivileged(void) {
  if (geteuid() != 0) return;
  // Limits of a user are counted over all processes of that user.
  uid_t user = 100000 + (uid_t)getpid();
  require(setgid(user) == 0 && setuid(user) == 0, "setuid");
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

int temporary_file(size_t bytes) {
  int file = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  require(file >= 0, "a file in /dev/shm");
  if (bytes == 0) return file;
  uint64_t *memory = fresh_memory(bytes);
  for (size_t i = 0; i < bytes / 8; i += 64) memory[i] = i * 0x9E3779B97F4A7C15u;
  for (size_t done = 0; done < bytes;) {
    ssize_t n = write(file, (char *)memory + done, bytes - done);
    require(n > 0, "write");
    done += (size_t)n;
  }
  munmap(memory, bytes);
  lseek(file, 0, SEEK_SET);
  return file;
}

void *fresh_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "mmap");
  return memory;
}

uint64_t checksum(const void *bytes, size_t count) {
  const uint64_t *words = bytes;
  uint64_t sum = 14695981039346656037u;
  for (size_t i = 0; i < count / 8; i += 8) sum = (sum ^ words[i]) * 1099511628211u;
  return sum;
}
