// What the Swift side of the library keeps in C: the last error of a thread, and the monitor. Not
// installed.
#ifndef STALLMONITOR_ERRORS_H
#define STALLMONITOR_ERRORS_H

#include <stdbool.h>

/// Keeps a result and its text for the calling thread; a text that is too long is cut. Returns the
/// result.
int cstallmonitor_keep_error(int code, const char *text);

/// Keeps for the calling thread that its last call succeeded.
void cstallmonitor_forget_error(void);

/// Where the process's monitor is kept; NULL until one is started. Swift initializes a global under
/// a lock, which the child of a fork may find held.
void *cstallmonitor_home(void);

/// Replaces the monitor by `home` if it is still `expected`. Returns whether it did.
bool cstallmonitor_replace_home(void *expected, void *home);

#endif
