// C for a hostile moment: a signal handler that only copies, and unwinding over the copy.
//
// Nothing here allocates where a handler runs, takes the dynamic loader's lock after `cunwind_load`, or trusts an
// address that it has not checked.
#ifndef CUNWIND_H
#define CUNWIND_H

#include "cunwind_memory.h"
#include "cunwind_perf.h"
#include "cunwind_snapshot.h"
#include "cunwind_thread.h"
#include "cunwind_timer.h"
#include "cunwind_unwind.h"

#endif
