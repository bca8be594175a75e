// C frames for the victims: a static function, which no dynamic symbol names, blocks the caller.
#ifndef VICTIM_C_H
#define VICTIM_C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "victim_calls.h"
#include "victim_ends.h"
#include "victim_filters.h"
#include "victim_locks.h"
#include "victim_mapping.h"
#include "victim_moments.h"
#include "victim_profiler.h"
#include "victim_task_hook.h"
#include "victim_traced.h"
#include "victim_transfers.h"

/// Computes for that long, in a static function.
void victim_c_compute(unsigned milliseconds);

/// The same, in a function that calls a hundred others; half of them are inlined.
unsigned long victim_c_compute_in_parts(unsigned milliseconds);

/// Blocks in one of three functions that are inlined here, in turn: `refresh_cache`, `call_partner`, `parse_upload`.
void victim_inlined_work(int number, unsigned milliseconds);

/// Sleeps for that long, in a static function. Returns 0, or the errno that ended the sleep early.
int victim_c_sleep(unsigned milliseconds);

/// The `ret` of a function that has popped its registers, or the place in its caller that it returns to.
uint64_t victim_epilogue_at(bool is_caller);

/// The kernel's id of the calling thread.
int victim_thread_id(void);

/// Names the calling thread: at most 15 bytes.
void victim_name_thread(const char *name);

/// Holds a process as a debugger does, from another: attaches to all its threads, and lets them go after that long. False if it may not.
bool victim_debug(int process, unsigned milliseconds);

// What malloc() has given out and not got back, in all threads.
size_t victim_bytes_in_use(void);
#endif
