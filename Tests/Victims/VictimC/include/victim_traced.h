// A tracer that stops one thread, as a debugger does.
#ifndef VICTIM_TRACED_H
#define VICTIM_TRACED_H

/// Stops a thread of this process by ptrace(2), from a process of its own. @return that process, or -1 if it may not trace.
int victim_begin_stop(int thread);

/// Ends that process, and so the stop.
void victim_end_stop(int tracer);

#endif
