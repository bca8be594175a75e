// The least that a run loop can be: epoll, an eventfd, a timerfd, a locked queue, a heap of four children.
#include "internal.h"
#include <sys/epoll.h>
#include <sys/timerfd.h>

typedef struct timer { int64_t deadline; int index; void (*call)(struct timer *); } timer;

static int epoll = -1, wake, clock_fd;
static queue posted;
static int64_t armed = INT64_MAX;
static timer **heap;
static int heap_count, heap_capacity;

static void place(timer *t, int i) { heap[i] = t; t->index = i; }
static void up(timer *t, int i) {
  while (i > 0) { int p = (i - 1) >> 2; if (heap[p]->deadline <= t->deadline) break; place(heap[p], i); i = p; }
  place(t, i);
}
static void down(timer *t, int i) {
  for (;;) {
    int c = 4 * i + 1, best = c, end = c + 4 < heap_count ? c + 4 : heap_count;
    if (c >= heap_count) break;
    for (int k = c + 1; k < end; k++) if (heap[k]->deadline < heap[best]->deadline) best = k;
    if (heap[best]->deadline >= t->deadline) break;
    place(heap[best], i);
    i = best;
  }
  place(t, i);
}
static void add(timer *t) {
  if (heap_count == heap_capacity) { heap_capacity = heap_capacity ? heap_capacity * 2 : 64; heap = realloc(heap, heap_capacity * sizeof *heap); }
  up(t, heap_count++);
}
static void cancel(timer *t) {
  int i = t->index;
  timer *last = heap[--heap_count];
  if (last == t) return;
  if (i > 0 && last->deadline < heap[(i - 1) >> 2]->deadline) up(last, i); else down(last, i);
}

static void setup(void) {
  if (epoll >= 0) return;
  epoll = epoll_create1(EPOLL_CLOEXEC);
  wake = eventfd(0, EFD_NONBLOCK);
  clock_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  queue_init(&posted);
  struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.u64 = UINT64_MAX};
  epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &e);
  e.data.u64 = UINT64_MAX - 1;
  epoll_ctl(epoll, EPOLL_CTL_ADD, clock_fd, &e);
}
static void post(node *n) { if (queue_push(&posted, n)) peer_signal(wake); }
static void (*ready)(int);
static int turn_with(int timeout) {
  if (heap_count && timeout) {
    int64_t deadline = heap[0]->deadline;
    if (deadline <= peer_now()) timeout = 0;
    else if (deadline != armed) {
      struct itimerspec s = {.it_value = {deadline / 1000000000, deadline % 1000000000}};
      timerfd_settime(clock_fd, TFD_TIMER_ABSTIME, &s, NULL);
      armed = deadline;
    }
  }
  struct epoll_event events[64];
  int n = epoll_wait(epoll, events, 64, timeout);
  if (heap_count) {
    int64_t now = peer_now();
    while (heap_count && heap[0]->deadline <= now) { timer *t = heap[0]; cancel(t); t->call(t); }
  }
  for (int i = 0; i < n; i++) {
    if (events[i].data.u64 == UINT64_MAX) queue_run(&posted);
    else if (events[i].data.u64 < UINT64_MAX - 1) ready((int)events[i].data.u64);
  }
  return n;
}
static void turn(void) { turn_with(-1); }
static const poster poster_ = {post, turn};

static double round_trip(int count) { setup(); return shared_round_trip(&poster_, count); }
static double post_row(int batches, int batch) { setup(); return shared_post(&poster_, batches, batch); }
static double self_post(int batches, int batch) { setup(); return shared_self_post(&poster_, batches, batch); }
static int fired;
static void count_fired(timer *t) { (void)t; fired++; }
static double timer_churn(int pending, int count) {
  setup();
  timer *timers = calloc(pending + 1, sizeof *timers);
  uint64_t seed = 42;
  int64_t base = peer_now() + 1000000000000;
  for (int i = 0; i < pending; i++) { timers[i].deadline = base + (int64_t)peer_random(&seed); add(&timers[i]); }
  timer *t = &timers[pending];
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) { t->deadline = base + (int64_t)peer_random(&seed); add(t); cancel(t); }
  double result = (double)(peer_now() - start) / count;
  heap_count = 0;
  free(timers);
  return result;
}
static double fire(int count) {
  setup();
  timer *timers = calloc(count, sizeof *timers);
  uint64_t seed = 42;
  int64_t base = peer_now() - 4000000000;
  for (int i = 0; i < count; i++) { timers[i] = (timer){base + (int64_t)peer_random(&seed), 0, count_fired}; add(&timers[i]); }
  fired = 0;
  int64_t start = peer_now();
  while (fired < count) turn();
  double result = (double)(peer_now() - start) / count;
  free(timers);
  return result;
}
static int served;
static void read_ready(int fd) { peer_await(fd); served++; }
static double descriptors(int watched, int count) {
  setup();
  ready = read_ready;
  int *fds = malloc(watched * sizeof(int));
  for (int i = 0; i < watched; i++) {
    fds[i] = eventfd(0, EFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = fds[i]};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &e);
  }
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) { served = 0; peer_signal(fds[(unsigned)i * 7919u % watched]); while (!served) turn(); }
  double result = (double)(peer_now() - start) / count;
  for (int i = 0; i < watched; i++) { epoll_ctl(epoll, EPOLL_CTL_DEL, fds[i], NULL); close(fds[i]); }
  free(fds);
  return result;
}
static double empty(int count) {
  setup();
  int64_t start = peer_now();
  for (int i = 0; i < count; i++) turn_with(0);
  return (double)(peer_now() - start) / count;
}
const peer bare_peer = {"bare epoll", round_trip, post_row, self_post, timer_churn, fire, descriptors, empty};
