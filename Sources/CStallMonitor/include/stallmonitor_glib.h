/* Watches a GMainContext with stallmonitor.h. Include it in one C or C++ file, and call these
 * after stallmonitor_start(), on the thread that runs the context:
 *
 *   stallmonitor_glib_start(NULL, "requests", 0);     // NULL: the default context
 *   g_main_loop_run(loop);
 *   stallmonitor_glib_stop(NULL);
 *
 * It replaces the poll function of the context. The new function reports when the loop waits and
 * when it continues, and calls the previous function. A nested g_main_context_iteration() also
 * turns the loop, and is not a stall. It watches one context per thread.
 */
#ifndef STALLMONITOR_GLIB_H
#define STALLMONITOR_GLIB_H

#include <glib.h>
#include <stallmonitor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A GPollFunc has no argument for them. */
static __thread stallmonitor_loop *stallmonitor_glib_watch;
static __thread GPollFunc stallmonitor_glib_next;

static inline gint stallmonitor_glib_poll(GPollFD *descriptors, guint count, gint timeout) {
  /* A thread that runs the context without stallmonitor_glib_start() has neither. */
  GPollFunc next = stallmonitor_glib_next != NULL ? stallmonitor_glib_next : g_poll;
  if (timeout != 0) stallmonitor_loop_idle(stallmonitor_glib_watch);
  gint ready = next(descriptors, count, timeout);
  stallmonitor_loop_busy(stallmonitor_glib_watch);
  return ready;
}

/* Starts the watch. Returns 0. If the loop cannot be watched, it returns stallmonitor_error_code(),
 * and the context runs as usual. In a callback of the context, the rest of that turn is watched. */
static inline int stallmonitor_glib_start(GMainContext *context, const char *name,
                                          unsigned threshold_ms) {
  if (stallmonitor_glib_watch != NULL) return 0;
  stallmonitor_glib_watch = stallmonitor_loop_create(name, threshold_ms);
  if (stallmonitor_glib_watch == NULL) return stallmonitor_error_code();
  stallmonitor_glib_next = g_main_context_get_poll_func(context);
  g_main_context_set_poll_func(context, stallmonitor_glib_poll);
  GSource *running = g_main_current_source();
  if (running != NULL && g_source_get_context(running) ==
                             (context != NULL ? context : g_main_context_default()))
    stallmonitor_loop_busy(stallmonitor_glib_watch);
  return 0;
}

/* Ends the watch, on the same thread. Call it when the context no longer runs. Without the call,
 * the thread would be reported as blocked in a turn that never ends. */
static inline void stallmonitor_glib_stop(GMainContext *context) {
  if (stallmonitor_glib_watch == NULL) return;
  if (g_main_context_get_poll_func(context) == stallmonitor_glib_poll)
    g_main_context_set_poll_func(context, stallmonitor_glib_next);
  stallmonitor_loop_destroy(stallmonitor_glib_watch);
  stallmonitor_glib_watch = NULL;
}

#ifdef __cplusplus
}
#endif

#endif
