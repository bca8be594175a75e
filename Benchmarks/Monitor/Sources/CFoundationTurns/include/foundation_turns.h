// Turns of the calling thread's CFRunLoop, in C: `import CoreFoundation` does not link on Linux.
#ifndef FOUNDATION_TURNS_H
#define FOUNDATION_TURNS_H

/// Adds a source that is always ready to the default mode. Each turn then waits, wakes at once and passes all activities.
void foundation_turns_prepare(void);

/// Runs that many turns in one run. Returns the processor time of a turn in nanoseconds.
double foundation_turns_run(long turns);

/// Adds two observers with empty callouts, of the order and the activities of the monitor's.
void foundation_turns_observe(void);

/// Takes them away.
void foundation_turns_stop_observing(void);

#endif
