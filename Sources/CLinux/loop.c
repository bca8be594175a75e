#include "loop.h"

__thread void *clinux_loop_current;
unsigned clinux_fork_count;

// Runs in the child of fork(), between fork and exec: it may touch nothing but this word.
static void child_of_fork(void) { __atomic_add_fetch(&clinux_fork_count, 1, __ATOMIC_RELAXED); }

void clinux_loop_register_fork_handler(void) { pthread_atfork(NULL, NULL, child_of_fork); }
