// Waits for another thread, of every kind whose other thread can be known, and of those whose cannot.
#ifndef VICTIM_LOCKS_H
#define VICTIM_LOCKS_H

#include <stdbool.h>
#include <stddef.h>

/// How many kinds of waits there are, and what the one at `index` is called.
extern const size_t victim_lock_count;
const char *victim_lock_name(size_t index);

/// Waits on this thread for what a thread named `keeper` keeps for that long, in `keep_the_lock` (or, waiting for its own end,
/// in `keep_busy`). On standard error: `victim: keeper=ID`.
/// @return false if no wait is called that.
bool victim_wait_for(const char *name, unsigned milliseconds);

/// The id of the last keeper, once it keeps what is waited for.
int victim_keeper_id(void);

/// Never returns: `count` threads, this one among them, wait for each other's mutexes in a circle.
/// With one thread: for its own. On standard error, before it blocks: `victim: circle=COUNT`.
_Noreturn void victim_deadlock(unsigned count);

#endif
