#include "internal.h"
#if __has_include(<event2/event.h>)
#include <event2/event.h>
static struct event_base *base;
static struct event *async_;
static int wake;
static queue posted;
static void on_wake(int fd, short w, void *c) { (void)w; (void)c; peer_await(fd); queue_run(&posted); }
static void setup(void) {
  if (base) return;
  base = event_base_new();
  queue_init(&posted);
  wake = eventfd(0, EFD_NONBLOCK);
  async_ = event_new(base, wake, EV_READ | EV_PERSIST, on_wake, NULL);
  event_add(async_, NULL);
}
static void post(node *n) { if (queue_push(&posted, n)) peer_signal(wake); }
static void turn(void) { event_base_loop(base, EVLOOP_ONCE); }
static const poster poster_ = {post, turn};
static double round_trip(int count) { setup(); return shared_round_trip(&poster_, count); }
static double post_row(int batches, int batch) { setup(); return shared_post(&poster_, batches, batch); }
static double self_post(int batches, int batch) { setup(); return shared_self_post(&poster_, batches, batch); }
static int fired;
static void on_timer(int fd, short w, void *c) { (void)fd; (void)w; (void)c; fired++; }
static struct timeval in_us(uint64_t us) { return (struct timeval){us / 1000000, us % 1000000}; }
static double timer_churn(int pending, int count) {
  setup();
  struct event **timers = calloc(pending + 1, sizeof *timers);
  uint64_t seed = 42;
  for (int i = 0; i <= pending; i++) {
    timers[i] = event_new(base, -1, 0, on_timer, NULL);
    struct timeval t = in_us(1000000000 + peer_random(&seed) / 1000);
    if (i < pending) event_add(timers[i], &t);
  }
  struct event *e = timers[pending];
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) { struct timeval t = in_us(1000000000 + peer_random(&seed) / 1000); event_add(e, &t); event_del(e); }
  double result = (double)(peer_now() - start) / count;
  for (int i = 0; i <= pending; i++) event_free(timers[i]);
  free(timers);
  return result;
}
static double fire(int count) {
  setup();
  struct event **timers = calloc(count, sizeof *timers);
  uint64_t seed = 42;
  for (int i = 0; i < count; i++) { timers[i] = event_new(base, -1, 0, on_timer, NULL); struct timeval t = in_us(peer_random(&seed) % 4000); event_add(timers[i], &t); }
  usleep(8000);
  fired = 0;
  int64_t start = peer_now();
  while (fired < count) event_base_loop(base, EVLOOP_ONCE);
  double result = (double)(peer_now() - start) / count;
  for (int i = 0; i < count; i++) event_free(timers[i]);
  free(timers);
  return result;
}
static int served;
static void on_io(int fd, short w, void *c) { (void)w; (void)c; peer_await(fd); served++; }
static double descriptors(int watched, int count) {
  setup();
  int *fds = malloc(watched * sizeof(int));
  struct event **ios = calloc(watched, sizeof *ios);
  for (int i = 0; i < watched; i++) { fds[i] = eventfd(0, EFD_NONBLOCK); ios[i] = event_new(base, fds[i], EV_READ | EV_PERSIST, on_io, NULL); event_add(ios[i], NULL); }
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) { served = 0; peer_signal(fds[(unsigned)i * 7919u % watched]); while (!served) event_base_loop(base, EVLOOP_ONCE); }
  double result = (double)(peer_now() - start) / count;
  for (int i = 0; i < watched; i++) { event_free(ios[i]); close(fds[i]); }
  free(fds);
  free(ios);
  return result;
}
static double empty(int count) {
  setup();
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) event_base_loop(base, EVLOOP_NONBLOCK);
  return (double)(peer_now() - start) / count;
}
const peer event_peer = {"libevent", round_trip, post_row, self_post, timer_churn, fire, descriptors, empty};
#else
const peer event_peer;
#endif
