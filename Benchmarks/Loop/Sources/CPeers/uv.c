#include "internal.h"
#if __has_include(<uv.h>)
#include <uv.h>
static uv_loop_t loop;
static uv_async_t async_;
static queue posted;
static int ready_;
static void on_async(uv_async_t *h) { (void)h; queue_run(&posted); }
static void setup(void) {
  if (ready_) return;
  ready_ = 1;
  uv_loop_init(&loop);
  queue_init(&posted);
  uv_async_init(&loop, &async_, on_async);
}
static void post(node *n) { queue_push(&posted, n); uv_async_send(&async_); }
static void turn(void) { uv_run(&loop, UV_RUN_ONCE); }
static const poster poster_ = {post, turn};
static double round_trip(int count) { setup(); return shared_round_trip(&poster_, count); }
static double post_row(int batches, int batch) { setup(); return shared_post(&poster_, batches, batch); }
static double self_post(int batches, int batch) { setup(); return shared_self_post(&poster_, batches, batch); }
static int fired;
static void on_timer(uv_timer_t *t) { (void)t; fired++; }
static double timer_churn(int pending, int count) {
  setup();
  uv_timer_t *timers = calloc(pending + 1, sizeof *timers);
  uint64_t seed = 42;
  for (int i = 0; i <= pending; i++) { uv_timer_init(&loop, &timers[i]); if (i < pending) uv_timer_start(&timers[i], on_timer, 1000000 + peer_random(&seed) / 1000, 0); }
  uv_timer_t *t = &timers[pending];
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) { uv_timer_start(t, on_timer, 1000000 + peer_random(&seed) / 1000, 0); uv_timer_stop(t); }
  double result = (double)(peer_now() - start) / count;
  for (int i = 0; i <= pending; i++) { uv_timer_stop(&timers[i]); uv_close((uv_handle_t *)&timers[i], NULL); }
  uv_run(&loop, UV_RUN_NOWAIT);
  free(timers);
  return result;
}
static double fire(int count) {
  setup();
  uv_timer_t *timers = calloc(count, sizeof *timers);
  uint64_t seed = 42;
  uv_update_time(&loop);
  for (int i = 0; i < count; i++) { uv_timer_init(&loop, &timers[i]); uv_timer_start(&timers[i], on_timer, peer_random(&seed) % 20, 0); }
  usleep(25000);
  fired = 0;
  int64_t start = peer_now();
  // RUN_ONCE fires the timers and then waits for something else.
  while (fired < count) uv_run(&loop, UV_RUN_NOWAIT);
  double result = (double)(peer_now() - start) / count;
  for (int i = 0; i < count; i++) uv_close((uv_handle_t *)&timers[i], NULL);
  uv_run(&loop, UV_RUN_NOWAIT);
  free(timers);
  return result;
}
static int served;
static void on_poll(uv_poll_t *h, int status, int events) { (void)status; (void)events; peer_await((int)(intptr_t)h->data); served++; }
static double descriptors(int watched, int count) {
  setup();
  int *fds = malloc(watched * sizeof(int));
  uv_poll_t *polls = calloc(watched, sizeof *polls);
  for (int i = 0; i < watched; i++) {
    fds[i] = eventfd(0, EFD_NONBLOCK);
    uv_poll_init(&loop, &polls[i], fds[i]);
    polls[i].data = (void *)(intptr_t)fds[i];
    uv_poll_start(&polls[i], UV_READABLE, on_poll);
  }
  uv_run(&loop, UV_RUN_NOWAIT);
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) { served = 0; peer_signal(fds[(unsigned)i * 7919u % watched]); while (!served) uv_run(&loop, UV_RUN_ONCE); }
  double result = (double)(peer_now() - start) / count;
  for (int i = 0; i < watched; i++) { uv_poll_stop(&polls[i]); uv_close((uv_handle_t *)&polls[i], NULL); }
  uv_run(&loop, UV_RUN_NOWAIT);
  for (int i = 0; i < watched; i++) close(fds[i]);
  free(fds);
  free(polls);
  return result;
}
static double empty(int count) {
  setup();
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) uv_run(&loop, UV_RUN_NOWAIT);
  return (double)(peer_now() - start) / count;
}
static void free_timer(uv_handle_t *h) { free(h); }
static double timer_life(int count) {
  setup();
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) {
    uv_timer_t *t = malloc(sizeof *t);
    uv_timer_init(&loop, t);
    uv_timer_start(t, on_timer, 1000000, 0);
    uv_close((uv_handle_t *)t, free_timer);
    // A closed handle is freed by the loop's next turn.
    if (i % 1000 == 999) uv_run(&loop, UV_RUN_NOWAIT);
  }
  return (double)(peer_now() - start) / count;
}
const peer uv_peer = {"libuv", round_trip, post_row, self_post, timer_churn, fire, descriptors, empty, timer_life};
#else
const peer uv_peer;
#endif
