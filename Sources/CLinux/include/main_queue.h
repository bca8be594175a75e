// The main dispatch queue, if the service has libdispatch: posting to it, and the word by which libdispatch itself knows who drains it.
// `import Dispatch` would give every host libdispatch; and its main queue is a C structure that no other declaration may describe
// in a header that is imported beside it. It can go when Swift has weak references.
#ifndef CLINUX_MAIN_QUEUE_H
#define CLINUX_MAIN_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/// Whether the process has libdispatch.
bool clinux_main_queue_is_here(void);

/// Whether the queue was made by a process that this one is a forked child of: its bound thread and its workers may be that process's.
bool clinux_main_queue_is_inherited(void);

/// Queues a call of `work`; it does not wait. Only if libdispatch is here.
void clinux_main_queue_post(void *context, void (*work)(void *context));

/// Reads the queue's state word (`dq_state`), without a lock. False if its place is not known in this libdispatch.
bool clinux_main_queue_state(uint64_t *state);

#endif
