// Filters of system calls, as container runtimes install them.
#ifndef VICTIM_FILTERS_H
#define VICTIM_FILTERS_H

#include <stdbool.h>

/// Makes close_range(2) fail with EPERM in this process, so that no thread can have a descriptor table of its own.
bool victim_refuse_own_tables(void);

/// Makes perf_event_open(2) fail with EPERM in this process.
bool victim_refuse_perf_events(void);

/// Makes timer_create(2) fail with EPERM in this process.
bool victim_refuse_timers(void);

/// Makes sendto(2) fail with EPERM in this process.
bool victim_refuse_sends(void);

#endif
