// How the Swift side of the library keeps the last error of a thread. Not installed.
#ifndef STALLMONITOR_ERRORS_H
#define STALLMONITOR_ERRORS_H

/// Keeps a result and its text for the calling thread; a text that is too long is cut. Returns the result.
int cstallmonitor_keep_error(int code, const char *text);

#endif
