#define _GNU_SOURCE
#include "VictimC.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) static double hidden_c_computation(unsigned milliseconds) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  double start = (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6, elapsed = 0;
  while (elapsed < milliseconds) {
    clock_gettime(CLOCK_MONOTONIC, &t);
    elapsed = (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6 - start;
  }
  return elapsed;
}

__attribute__((noinline)) static int hidden_c_sleep(unsigned milliseconds) {
  struct timespec time = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
  int result = nanosleep(&time, NULL) == 0 ? 0 : errno;
  __asm__ volatile("" : : : "memory");  // no tail call: the frame stays
  return result;
}

volatile double victim_c_result;

void victim_c_compute(unsigned milliseconds) {
  victim_c_result = hidden_c_computation(milliseconds);
}

int victim_c_sleep(unsigned milliseconds) {
  int result = hidden_c_sleep(milliseconds);
  __asm__ volatile("" : : : "memory");
  return result;
}

int victim_thread_id(void) { return gettid(); }

void victim_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

bool victim_debug(int process, unsigned milliseconds) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", process);
  DIR *directory = opendir(path);
  if (directory == NULL) return false;
  int threads[256];
  size_t count = 0;
  struct dirent *entry;
  while ((entry = readdir(directory)) != NULL && count < 256) {
    int thread = atoi(entry->d_name);
    if (thread <= 0 || ptrace(PTRACE_ATTACH, thread, NULL, NULL) != 0) continue;
    int status;
    if (waitpid(thread, &status, __WALL) == thread) threads[count++] = thread;
  }
  closedir(directory);
  struct timespec time = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
  nanosleep(&time, NULL);
  bool detached = true;
  for (size_t i = 0; i < count; i++) detached &= ptrace(PTRACE_DETACH, threads[i], NULL, NULL) == 0;
  return count > 0 && detached;
}

size_t victim_bytes_in_use(void) {
  struct mallinfo2 information = mallinfo2();
  return information.uordblks + information.hblkhd;
}
