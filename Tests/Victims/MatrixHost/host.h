// A process that runs one scenario, watched or not, and prints what it notices.
#ifndef MATRIX_HOST_H
#define MATRIX_HOST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct scenario {
  const char *name;
  void (*run)(void);
};

// What a transfer returned: equal, watched and unwatched.
struct outcome {
  int64_t result;
  int error;
  uint64_t bytes;
  uint64_t checksum;
};

struct transfer {
  const char *name;
  struct outcome (*run)(void);
};

// What is prepared is ready: the role's turn, lock or wait begins. Each transfer calls it once, right before its call.
extern void (*transfer_begins)(void);

// Tables that end in an entry without a name.
extern const struct scenario descriptor_hosts[], stack_hosts[], signal_hosts[], limit_hosts[], filter_hosts[],
    process_hosts[], output_hosts[], attribute_hosts[], moving_hosts[], visible_hosts[];
extern const struct transfer file_transfers[], socket_transfers[], memory_transfers[], pipe_transfers[];

// Whether this run starts the monitor.
extern bool is_watched;

// Starts the monitor as the environment says, and watches the calling thread. Does nothing in an unwatched run.
void watch_start(void);
// Starts the monitor alone.
void watch_start_without_loop(void);
// Watches the calling thread as a second loop.
void watch_thread(const char *name);
void watch_stop(void);

void turn_begin(void);
void turn_end(void);
// Uses the processor for some time.
void compute(unsigned ms);
void pause_for(unsigned ms);
// One turn that computes; MATRIX_STALL_FACTOR is how many times longer it does, where the processor is slow.
void stall(unsigned ms);

// Prints one fact, by one write, to standard output or to the file that say_to() opened.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_to(const char *path);
// Ends the process: the scenario itself could not be set up.
void require(bool condition, const char *what);

void run_thread(void *(*body)(void *));
// Installs a filter that gives `action` to the listed calls, and allows all others.
int install_filter(const long *calls, size_t count, unsigned action, unsigned flags);
int install_allow_filter(void);
// Drops root for a user ID that no other process has.
void become_unprivileged(void);
// A transfer's file on tmpfs, already unlinked.
int temporary_file(size_t bytes);
void *fresh_memory(size_t bytes);
uint64_t checksum(const void *bytes, size_t count);

#endif
