#include "internal.h"
#ifdef HAVE_GLIB
#include <glib.h>
#include <glib-unix.h>
static GMainContext *context;
static void setup(void) {
  if (context) return;
  context = g_main_context_new();
  g_main_context_acquire(context);
}
static gboolean on_post(gpointer raw) { node *n = raw; n->call(n->context); return G_SOURCE_REMOVE; }
static void post(node *n) {
  GSource *source = g_idle_source_new();
  g_source_set_priority(source, G_PRIORITY_DEFAULT);
  g_source_set_callback(source, on_post, n, NULL);
  g_source_attach(source, context);
  g_source_unref(source);
}
static void turn(void) { g_main_context_iteration(context, TRUE); }
static const poster poster_ = {post, turn};
static double round_trip(int count) { setup(); return shared_round_trip(&poster_, count); }
static double post_row(int batches, int batch) { setup(); return shared_post(&poster_, batches, batch); }
static double self_post(int batches, int batch) { setup(); return shared_self_post(&poster_, batches, batch); }
static int fired;
static gboolean on_timer(gpointer raw) { (void)raw; fired++; return G_SOURCE_REMOVE; }
static GSource *timer_in(guint ms) {
  GSource *source = g_timeout_source_new(ms);
  g_source_set_callback(source, on_timer, NULL, NULL);
  g_source_attach(source, context);
  return source;
}
static double timer_churn(int pending, int count) {
  setup();
  GSource **timers = calloc(pending, sizeof *timers);
  uint64_t seed = 42;
  for (int i = 0; i < pending; i++) timers[i] = timer_in(1000000 + peer_random(&seed) / 1000);
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) { GSource *s = timer_in(1000000 + peer_random(&seed) / 1000); g_source_destroy(s); g_source_unref(s); }
  double result = (double)(peer_now() - start) / count;
  for (int i = 0; i < pending; i++) { g_source_destroy(timers[i]); g_source_unref(timers[i]); }
  free(timers);
  return result;
}
static double fire(int count) {
  setup();
  uint64_t seed = 42;
  for (int i = 0; i < count; i++) g_source_unref(timer_in(peer_random(&seed) % 20));
  usleep(25000);
  fired = 0;
  int64_t start = peer_now();
  while (fired < count) g_main_context_iteration(context, TRUE);
  return (double)(peer_now() - start) / count;
}
static int served;
static gboolean on_io(gint fd, GIOCondition condition, gpointer raw) { (void)condition; (void)raw; peer_await(fd); served++; return TRUE; }
static double descriptors(int watched, int count) {
  setup();
  if (watched > 1) count = count > 500 ? 500 : count;  // poll(2) checks every descriptor
  int *fds = malloc(watched * sizeof(int));
  GSource **sources = calloc(watched, sizeof *sources);
  for (int i = 0; i < watched; i++) {
    fds[i] = eventfd(0, EFD_NONBLOCK);
    sources[i] = g_unix_fd_source_new(fds[i], G_IO_IN);
    g_source_set_callback(sources[i], (GSourceFunc)on_io, NULL, NULL);
    g_source_attach(sources[i], context);
  }
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) { served = 0; peer_signal(fds[(unsigned)i * 7919u % watched]); while (!served) g_main_context_iteration(context, TRUE); }
  double result = (double)(peer_now() - start) / count;
  for (int i = 0; i < watched; i++) { g_source_destroy(sources[i]); g_source_unref(sources[i]); close(fds[i]); }
  free(fds);
  free(sources);
  return result;
}
static double empty(int count) {
  setup();
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) g_main_context_iteration(context, FALSE);
  return (double)(peer_now() - start) / count;
}
const peer glib_peer = {"GLib", round_trip, post_row, self_post, timer_churn, fire, descriptors, empty};
#else
const peer glib_peer;
#endif
