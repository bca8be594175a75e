// Work on the process's memory map, for which the kernel has one lock.
#define _GNU_SOURCE
#include "victim_mapping.h"

#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

void victim_map_for(unsigned milliseconds) {
  const size_t length = 256u << 20;
  for (double end = now() + milliseconds; now() < end;) {
    void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pages != MAP_FAILED) munmap(pages, length);
  }
}

long victim_resident_kib(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL) return -1;
  long size, resident;
  int count = fscanf(file, "%ld %ld", &size, &resident);
  fclose(file);
  return count == 2 ? resident * (sysconf(_SC_PAGESIZE) / 1024) : -1;
}
