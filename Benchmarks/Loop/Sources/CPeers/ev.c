#include "internal.h"
#if __has_include(<ev.h>)
#pragma clang diagnostic ignored "-Wstrict-aliasing"
#include <ev.h>
static struct ev_loop *loop;
static ev_async async_;
static queue posted;
static void on_async(struct ev_loop *l, ev_async *w, int r) { (void)l; (void)w; (void)r; queue_run(&posted); }
static void setup(void) {
  if (loop) return;
  loop = ev_loop_new(EVBACKEND_EPOLL);
  queue_init(&posted);
  ev_async_init(&async_, on_async);
  ev_async_start(loop, &async_);
}
static void post(node *n) { queue_push(&posted, n); ev_async_send(loop, &async_); }
static void turn(void) { ev_run(loop, EVRUN_ONCE); }
static const poster poster_ = {post, turn};
static double round_trip(int count) { setup(); return shared_round_trip(&poster_, count); }
static double post_row(int batches, int batch) { setup(); return shared_post(&poster_, batches, batch); }
static double self_post(int batches, int batch) { setup(); return shared_self_post(&poster_, batches, batch); }
static int fired;
static void on_timer(struct ev_loop *l, ev_timer *w, int r) { (void)l; (void)w; (void)r; fired++; }
static double timer_churn(int pending, int count) {
  setup();
  ev_timer *timers = calloc(pending + 1, sizeof *timers);
  uint64_t seed = 42;
  for (int i = 0; i < pending; i++) { ev_timer_init(&timers[i], on_timer, 1000 + peer_random(&seed) * 1e-9, 0); ev_timer_start(loop, &timers[i]); }
  ev_timer *t = &timers[pending];
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) { ev_timer_init(t, on_timer, 1000 + peer_random(&seed) * 1e-9, 0); ev_timer_start(loop, t); ev_timer_stop(loop, t); }
  double result = (double)(peer_now() - start) / count;
  for (int i = 0; i < pending; i++) ev_timer_stop(loop, &timers[i]);
  free(timers);
  return result;
}
static double fire(int count) {
  setup();
  ev_timer *timers = calloc(count, sizeof *timers);
  uint64_t seed = 42;
  ev_now_update(loop);
  for (int i = 0; i < count; i++) { ev_timer_init(&timers[i], on_timer, (peer_random(&seed) % 4000000) * 1e-9, 0); ev_timer_start(loop, &timers[i]); }
  usleep(5000);
  fired = 0;
  int64_t start = peer_now();
  while (fired < count) ev_run(loop, EVRUN_ONCE);
  double result = (double)(peer_now() - start) / count;
  free(timers);
  return result;
}
static int served;
static void on_io(struct ev_loop *l, ev_io *w, int r) { (void)l; (void)r; peer_await(w->fd); served++; }
static double descriptors(int watched, int count) {
  setup();
  int *fds = malloc(watched * sizeof(int));
  ev_io *ios = calloc(watched, sizeof *ios);
  for (int i = 0; i < watched; i++) { fds[i] = eventfd(0, EFD_NONBLOCK); ev_io_init(&ios[i], on_io, fds[i], EV_READ); ev_io_start(loop, &ios[i]); }
  ev_run(loop, EVRUN_NOWAIT);
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) { served = 0; peer_signal(fds[(unsigned)i * 7919u % watched]); while (!served) ev_run(loop, EVRUN_ONCE); }
  double result = (double)(peer_now() - start) / count;
  for (int i = 0; i < watched; i++) ev_io_stop(loop, &ios[i]);
  ev_run(loop, EVRUN_NOWAIT);
  for (int i = 0; i < watched; i++) close(fds[i]);
  free(fds);
  free(ios);
  return result;
}
static double empty(int count) {
  setup();
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) ev_run(loop, EVRUN_NOWAIT);
  return (double)(peer_now() - start) / count;
}
static double timer_life(int count) {
  setup();
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) {
    ev_timer *t = malloc(sizeof *t);
    ev_timer_init(t, on_timer, 1000, 0);
    ev_timer_start(loop, t);
    ev_timer_stop(loop, t);
    free(t);
  }
  return (double)(peer_now() - start) / count;
}
const peer ev_peer = {"libev", round_trip, post_row, self_post, timer_churn, fire, descriptors, empty, timer_life};
#else
const peer ev_peer;
#endif
