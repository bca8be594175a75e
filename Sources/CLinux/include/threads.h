// Threads whose handles are numbers. pthread_t is a number with glibc and a pointer with musl, which
// Swift imports as different types. It can go when Swift has threads.
#ifndef CLINUX_THREADS_H
#define CLINUX_THREADS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/// A `pthread_t`, as a number.
typedef uintptr_t clinux_thread_t;

/// pthread_create(3) with a stack of `stack_size` bytes; 0 is the C library's default, and 8 MiB with
/// musl, whose default of 128 KiB is too small to read symbols.
int clinux_thread_create(clinux_thread_t *thread, size_t stack_size, void *(*body)(void *), void *argument);

/// The size to create a thread with that needs `least` bytes of stack: 0 where the default is as large.
///
/// glibc's default is the limit RLIMIT_STACK at the start of the process, or what the process has set.
size_t clinux_thread_stack_size(size_t least);

/// pthread_self(3).
static inline clinux_thread_t clinux_thread_self(void) { return (clinux_thread_t)pthread_self(); }

/// pthread_join(3).
static inline int clinux_thread_join(clinux_thread_t thread) { return pthread_join((pthread_t)thread, NULL); }

/// pthread_detach(3).
static inline int clinux_thread_detach(clinux_thread_t thread) { return pthread_detach((pthread_t)thread); }

#endif
