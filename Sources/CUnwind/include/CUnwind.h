// C for a hostile moment: a signal handler that only copies, and unwinding over the copy.
//
// In C because a signal handler must not allocate or lock, `ucontext_t` and libunwind's macros are not
// imported into Swift, and a raw system call is inline assembly. It can go when Swift can promise all of that.
//
// Nothing here allocates where a handler runs, takes the dynamic loader's lock after `cunwind_load`, or trusts an
// address that it has not checked.
#ifndef CUNWIND_H
#define CUNWIND_H

#include "cunwind_perf.h"
#include "cunwind_process.h"
#include "cunwind_snapshot.h"
#include "cunwind_thread.h"
#include "cunwind_timer.h"
#include "cunwind_unwind.h"

#endif
