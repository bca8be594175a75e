// Calls the hooks for libuv and GLib without a library, and prints whether the loop is in a turn.
#include <stdio.h>
#include <string.h>

#include "stallmonitor_glib.h"
#include "stallmonitor_uv.h"

static int is_busy;
stallmonitor_loop *stallmonitor_loop_create(const char *name, unsigned threshold_ms) {
  (void)name, (void)threshold_ms;
  return (stallmonitor_loop *)&is_busy;
}
void stallmonitor_loop_busy(stallmonitor_loop *loop) { is_busy = loop != NULL; }
void stallmonitor_loop_idle(stallmonitor_loop *loop) { (void)loop, is_busy = 0; }
void stallmonitor_loop_destroy(stallmonitor_loop *loop) { (void)loop; }
int stallmonitor_error_code(void) { return 0; }

static void say(const char *key) { printf("%s=%d\n", key, is_busy); }

static stallmonitor_uv watch;

static void close_timer(uv_timer_t *timer) {
  say("timer");
  stallmonitor_uv_stop(&watch);
  uv_close((uv_handle_t *)timer, NULL);
}

static void run_libuv(void) {
  uv_loop_t loop;
  uv_loop_init(&loop);
  stallmonitor_uv_start(&watch, &loop, "requests", 0);
  uv_timer_t timer;
  uv_timer_init(&loop, &timer);
  uv_timer_start(&timer, close_timer, 0, 0);
  // As long as the service takes to start.
  say("setup");
  uv_run(&loop, UV_RUN_DEFAULT);
  printf("closed=%d\n", uv_loop_close(&loop) == 0);
}

static gboolean start(gpointer context) {
  stallmonitor_glib_start(context, "requests", 0);
  say("callback");
  return G_SOURCE_REMOVE;
}

static gboolean run_other(gpointer other) {
  stallmonitor_glib_start(other, "requests", 0);
  say("other");
  stallmonitor_glib_stop(other);
  return G_SOURCE_REMOVE;
}

static void run_glib(void) {
  stallmonitor_glib_start(NULL, "requests", 0);
  say("setup");
  stallmonitor_glib_stop(NULL);
  g_idle_add(start, NULL);
  g_main_context_iteration(NULL, TRUE);
  stallmonitor_glib_stop(NULL);
  is_busy = 0;
  GMainContext *other = g_main_context_new();
  g_idle_add(run_other, other);
  g_main_context_iteration(NULL, TRUE);
  g_main_context_unref(other);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "glib") == 0) run_glib();
  else run_libuv();
  return 0;
}
