/* stalld's monitor for services in C and C++: reports when an event loop is blocked, and by which function.
 *
 *   #include <stallmonitor.h>                           cc host.c $(pkg-config --cflags --libs stallmonitor)
 *
 *   stallmonitor_start(NULL);
 *   stallmonitor_loop *watch = stallmonitor_loop_create("requests", 0);  // 0: the threshold is the operator's
 *   for (;;) {
 *     stallmonitor_loop_idle(watch);
 *     int count = epoll_wait(poller, events, 64, -1);
 *     stallmonitor_loop_busy(watch);
 *     ... handle the events ...
 *   }
 *
 * For libuv and GLib there are stallmonitor_uv.h and stallmonitor_glib.h.
 *
 * The environment's STALLMONITOR_ variables override the options, so that an operator can change a service that is
 * built: STALLMONITOR_ENABLED=false, STALLMONITOR_THRESHOLD=100ms, STALLMONITOR_SINK=file:PATH and the others of README.md. What
 * cannot be used of them is named on standard error, and the service goes on, unwatched.
 *
 * No function ends the process, throws, or fails with NULL as its handle; a service may ignore all results. A function may be
 * called from any thread unless it says otherwise, and never from a signal handler. One monitor watches a process: do not start this
 * library in a process whose Swift code starts a StallMonitor of its own. The library stays loaded after dlclose(3).
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
  /* The environment says no (STALLMONITOR_ENABLED), or cannot be used: the service goes on, unwatched. */
  STALLMONITOR_UNWATCHED = 1,
  /* A value cannot be used; the text names it, and what is allowed. */
  STALLMONITOR_INVALID = -1,
  /* There is no monitor: it was not started or was stopped, or this is the child of a fork. */
  STALLMONITOR_NOT_WATCHING = -2,
  /* Another loop of the process has that name. */
  STALLMONITOR_NAME_TAKEN = -3,
  /* The monitor's thread could not be made. */
  STALLMONITOR_NO_THREAD = -4
};

/* How to watch. Begin with STALLMONITOR_OPTIONS; 0 or NULL is the default. The strings are copied. */
typedef struct stallmonitor_options {
  /* sizeof(stallmonitor_options) as the service was built with: later versions only add, and what an earlier one lacks has its default. */
  size_t size;
  /* How long a turn may take before it is a stall, for loops that do not say: 1 to 3600000. The default is 250. */
  unsigned threshold_ms;
  /* Where report lines go: "stdout" (the default), "file:PATH", or "agent:PATH", the absolute path of stalld's socket. */
  const char *sink;
  /* The service's name in reports. The default is the executable's name. */
  const char *service_name;
  const char *service_version;
  /* An absolute path: files with details of the stalls. */
  const char *state_directory;
} stallmonitor_options;

#define STALLMONITOR_OPTIONS {sizeof(stallmonitor_options), 0, NULL, NULL, NULL, NULL}

/* Starts the monitor; NULL for the defaults. Costs some milliseconds and one thread: call it early. Does nothing if it has been started.
 * Returns STALLMONITOR_OK, _UNWATCHED, _INVALID or _NO_THREAD. The child of a fork may start a monitor of its own. If another thread started
 * or stopped the parent's at the moment of the fork, it returns STALLMONITOR_NOT_WATCHING; other locks that the parent's threads held at that
 * moment (those of the C library and of Swift's runtime) can block it, as in all code that a child runs without exec(2). */
int stallmonitor_start(const stallmonitor_options *options);

/* Stops it, and waits until the reports that are under way are written. The loops' handles remain valid, watch nothing any more, and
 * are to be destroyed as ever. Does nothing if it has not been started. */
void stallmonitor_stop(void);

/* Overlooks all loops' turns until as many calls of stallmonitor_resume(), for work that is known to be slow. A stall that is reported
 * already is followed to its end. */
void stallmonitor_pause(void);
void stallmonitor_resume(void);

/* 1 while there is a monitor, 0 otherwise and in the child of a fork. */
int stallmonitor_is_watching(void);

/* The result and the text of this thread's last stallmonitor_start() or stallmonitor_loop_create(). STALLMONITOR_OK and an empty text if it
 * returned STALLMONITOR_OK or a handle, or if there was none. The text is valid until the next such call on this thread. */
int stallmonitor_error_code(void);
const char *stallmonitor_error_text(void);

/* A loop of one thread. */
typedef struct stallmonitor_loop stallmonitor_loop;

/* Watches a loop of the calling thread, which starts idle. The watch ends with stallmonitor_loop_destroy(), and by itself with the
 * thread. The thread gets an alternate signal stack, if it has none, and keeps it for the rest of its life.
 *   name          in reports: 1 to 64 bytes of UTF-8, and no other loop's of the process.
 *   threshold_ms  how long a turn may take before it is a stall, 1 to 3600000; 0 for the monitor's own, which the
 *                 operator can change, also through stalld while the service runs. Any other stays as set here.
 * Returns NULL if that cannot be (stallmonitor_error_text() says why); the other functions take NULL and do nothing. */
stallmonitor_loop *stallmonitor_loop_create(const char *name, unsigned threshold_ms);

/* Says that a turn begins, after waiting; if the loop is busy, that the next turn begins: a loop that polls without waiting says so each
 * time. On the loop's thread only. A reading of the processor's clock, a store and a load, about 10 ns: no lock, no system call except
 * one when the monitor sleeps or follows a stall. */
void stallmonitor_loop_busy(stallmonitor_loop *loop);

/* Says that the turn has ended and the loop is about to wait. On the loop's thread only; cheaper than busy. */
void stallmonitor_loop_idle(stallmonitor_loop *loop);

/* Ends the watch and frees the handle. On the loop's thread a turn that is under way ends as well; from another thread a stall that
 * is in progress is reported as ended, with "watch_ended". The loop's thread must not use the handle at the same time or later. Also once for
 * each handle whose thread has ended. */
void stallmonitor_loop_destroy(stallmonitor_loop *loop);

#ifdef __cplusplus
}
#endif

#endif
