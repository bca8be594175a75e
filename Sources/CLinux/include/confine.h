// Drops the privileges of a process that reads other users' files. In C for prctl(2) and syscall(2), which are variadic, and the macros of
// a seccomp filter. It can go when Swift imports these.
#ifndef CLINUX_CONFINE_H
#define CLINUX_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

/// Closes all descriptors from `first` on (close_range(2), Linux 5.9; one by one on older kernels).
void clinux_close_from(int first);

/// A directory to start from, which is not read (O_PATH, for _GNU_SOURCE alone): `path` below the directory `at`, or anywhere if `at` is negative.
int clinux_open_directory(int at, const char *path);

/// Ends the calling process with its parent thread, takes its priority down, and limits its address space, its descriptors, the files that it writes and its core.
///
/// @return false if it could not be limited.
bool clinux_limit_worker(size_t address_space, size_t descriptors, int niceness);

/// Allows only memory, time, and files that are opened for reading from now on (seccomp(2)); every
/// other call fails with EPERM.
///
/// No signal can be sent, no process be made or traced, no socket be opened. All threads must have been made before.
/// @return false where the kernel has no such filters.
bool clinux_forbid_other_calls(void);

#endif
