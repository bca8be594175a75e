// The ways in which a process ends, or becomes two.
#ifndef VICTIM_ENDS_H
#define VICTIM_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// fork(2), which Swift does not offer.
pid_t victim_fork(void);

/// Forks on a thread that is to be cancelled. Whether it came back from fork(2), which is no cancellation point.
bool victim_fork_while_cancelled(void);

/// Has so many threads, 64 at most, fork at the same time on one processor, repeatedly, in a process with so much memory. How many children
/// found the lock held, a word that is 0 while it is free.
unsigned victim_children_that_find_a_lock_held(const uint32_t *lock, unsigned threads, unsigned rounds, size_t bytes);

/// A fork that `pthread_atfork` does not see.
pid_t victim_raw_fork(void);

/// Writes to address 0.
void victim_segfault(void);

/// Waits for a child. Returns its exit status, or its signal's number negated.
int victim_wait(pid_t child);

/// execv(3) without descriptors but 0, 1 and 2.
void victim_exec(const char *path, const char *argument);

#endif
