/* stalld's monitor for services in C and C++: reports when an event loop is blocked, and by which
 * function.
 *
 *   #include <stallmonitor.h>      cc service.c $(pkg-config --cflags --libs stallmonitor)
 *
 *   stallmonitor_start(NULL);
 *   // 0: the monitor's threshold (STALLMONITOR_THRESHOLD, 250 ms)
 *   stallmonitor_loop *watch = stallmonitor_loop_create("requests", 0);
 *   for (;;) {
 *     stallmonitor_loop_idle(watch);
 *     int count = epoll_wait(poller, events, 64, -1);
 *     stallmonitor_loop_busy(watch);
 *     ... handle the events ...
 *   }
 *
 * For libuv and GLib, use stallmonitor_uv.h and stallmonitor_glib.h.
 *
 * Environment variables override the options, so an operator can configure a service without
 * building it again: STALLMONITOR_ENABLED=false, STALLMONITOR_THRESHOLD=100ms,
 * STALLMONITOR_SINK=file:PATH. Documentation/Configuration.md lists all variables. An invalid value
 * is logged once to standard error, and the service runs and is not watched.
 *
 * No function ends the process (unless malloc(3) fails in it), throws, or fails if its handle is
 * NULL. A service may ignore all results. A function may be called on any thread unless its comment
 * names one, and never in a signal handler. A process has one monitor: do not start this library in
 * a process whose Swift code starts a StallMonitor. The library stays loaded after dlclose(3).
 */
#ifndef STALLMONITOR_H
#define STALLMONITOR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results. */
enum {
  STALLMONITOR_OK = 0,
  /* The monitor is disabled (STALLMONITOR_ENABLED=false), a variable is invalid, or standard output
   * or the file in STALLMONITOR_SINK cannot be opened: the service runs and is not watched. The
   * text has the reason. */
  STALLMONITOR_UNWATCHED = 1,
  /* A value is invalid: the text names it and the allowed values. Or the sink of the options cannot
   * be opened, or Swift code of the process has started a monitor. */
  STALLMONITOR_INVALID = -1,
  /* The monitor does not run: it was not started, was stopped, or this is the child of a fork. */
  STALLMONITOR_NOT_WATCHING = -2,
  /* Another loop of the process has that name. */
  STALLMONITOR_NAME_TAKEN = -3,
  /* The monitor's threads could not be created. */
  STALLMONITOR_NO_THREAD = -4
};

/* The configuration of the monitor. Initialize it with STALLMONITOR_OPTIONS; 0 or NULL is the
 * default. The strings are copied. */
typedef struct stallmonitor_options {
  /* sizeof(stallmonitor_options) when the service was built. A later version adds members only at
   * the end. Members beyond `size` have their defaults. */
  size_t size;
  /* How long a turn may take before it is a stall, for loops without a threshold of their own:
   * 1 to 3600000. The default is 250. */
  unsigned threshold_ms;
  /* Where report lines go: "stdout" (the default), "file:PATH", or "agent:PATH" with the absolute
   * path of stalld's socket. */
  const char *sink;
  /* The service's name in reports. The default is OTEL_SERVICE_NAME, or service.name of
   * OTEL_RESOURCE_ATTRIBUTES, or the executable's name. */
  const char *service_name;
  const char *service_version;
  /* An absolute path: files with details of the stalls. */
  const char *state_directory;
} stallmonitor_options;

#define STALLMONITOR_OPTIONS {sizeof(stallmonitor_options), 0, NULL, NULL, NULL, NULL}

/* Starts the monitor; NULL for the defaults. It takes some milliseconds and creates two threads:
 * call it early. Does nothing if the monitor runs already. Returns STALLMONITOR_OK, _UNWATCHED,
 * _INVALID, _NO_THREAD or, in the child of a fork, _NOT_WATCHING.
 *
 * The child of a fork may start its own monitor. The function returns STALLMONITOR_NOT_WATCHING if
 * another thread started or stopped the parent's monitor at the moment of the fork. Other locks
 * that the parent's threads held at that moment (of the C library and of Swift's runtime) can block
 * the call, as in all code that a child runs without exec(2). */
int stallmonitor_start(const stallmonitor_options *options);

/* Stops the monitor, and waits until the reports in progress are written, as far as their reader
 * accepts them. The handles of the loops stay valid and watch nothing. Destroy them as usual. Does
 * nothing if the monitor does not run. */
void stallmonitor_stop(void);

/* Ignores the turns of all loops until stallmonitor_resume() has been called as often as
 * stallmonitor_pause(). Use it around work that is known to be slow. A stall that has been reported
 * is still followed to its end. */
void stallmonitor_pause(void);
void stallmonitor_resume(void);

/* 1 while the monitor runs, 0 otherwise and in the child of a fork. */
int stallmonitor_is_watching(void);

/* The result and the text of the last stallmonitor_start() or stallmonitor_loop_create() on this
 * thread. STALLMONITOR_OK and an empty text if that call succeeded, or if there was no such call.
 * The text is valid until the next such call on this thread. */
int stallmonitor_error_code(void);
const char *stallmonitor_error_text(void);

/* A loop of one thread. */
typedef struct stallmonitor_loop stallmonitor_loop;

/* Watches a loop of the calling thread. The loop starts idle. The watch ends with
 * stallmonitor_loop_destroy(), or when the thread exits. Where perf events are not permitted, the
 * thread gets an alternate signal stack if it has none, and keeps it until it exits.
 *   name          in reports: 1 to 64 bytes of UTF-8 without control characters, different from
 *                 those of the process's other loops.
 *   threshold_ms  how long a turn may take before it is a stall, 1 to 3600000. 0 is the monitor's
 *                 threshold, which the operator can change, also through stalld while the service
 *                 runs. Any other value is fixed.
 * Returns NULL if the loop cannot be watched; stallmonitor_error_text() has the reason. The other
 * functions accept NULL and do nothing. */
stallmonitor_loop *stallmonitor_loop_create(const char *name, unsigned threshold_ms);

/* Begins a turn, after waiting. If the loop is busy, it ends that turn and begins the next one: a
 * loop that polls without waiting calls it after each poll. Call it on the loop's thread only. It
 * takes about 10 ns: it reads the processor's clock, stores and loads. It takes no lock, and makes
 * system calls only when the monitor sleeps or follows a stall. */
void stallmonitor_loop_busy(stallmonitor_loop *loop);

/* Ends the turn, before the loop waits. Call it on the loop's thread only. It takes less time than
 * stallmonitor_loop_busy(). */
void stallmonitor_loop_idle(stallmonitor_loop *loop);

/* Ends the watch and frees the handle. On the loop's thread, it also ends the current turn. On
 * another thread, a stall in progress is reported as ended, with "watch_ended"; the loop's thread
 * must not use the handle at the same time or later. Call it once for each handle, also if the
 * loop's thread has exited. */
void stallmonitor_loop_destroy(stallmonitor_loop *loop);

#ifdef __cplusplus
}
#endif

#endif
