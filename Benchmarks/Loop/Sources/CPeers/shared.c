#include "internal.h"

static int remaining;
static int answer_fd = -1;
static void answer(void *context) { (void)context; remaining--; peer_signal(answer_fd); }

typedef struct { const poster *p; int count; int batch; int gate; double result; } job;

static void *ask(void *raw) {
  job *j = raw;
  node n = {.call = answer};
  int64_t start = peer_now();
  for (int i = 0; i < j->count; i++) { j->p->post(&n); peer_await(answer_fd); }
  j->result = (double)(peer_now() - start) / j->count;
  return NULL;
}

double shared_round_trip(const poster *p, int count) {
  if (answer_fd < 0) answer_fd = peer_eventfd(0);
  job j = {.p = p, .count = count};
  remaining = count;
  pthread_t thread;
  pthread_create(&thread, NULL, ask, &j);
  while (remaining > 0) p->turn();
  pthread_join(thread, NULL);
  return j.result;
}

static void count_down(void *context) { (void)context; remaining--; }

static void *post_batch(void *raw) {
  job *j = raw;
  node *nodes = calloc(j->batch, sizeof(node));
  int64_t total = 0;
  for (int b = 0; b < j->count; b++) {
    int64_t start = peer_now();
    for (int i = 0; i < j->batch; i++) { nodes[i].call = count_down; j->p->post(&nodes[i]); }
    total += peer_now() - start;
    peer_signal(answer_fd);
    peer_await(j->gate);
  }
  free(nodes);
  j->result = (double)total / j->count / j->batch;
  return NULL;
}

double shared_post(const poster *p, int batches, int batch) {
  if (answer_fd < 0) answer_fd = peer_eventfd(0);
  job j = {.p = p, .count = batches, .batch = batch, .gate = peer_eventfd(0)};
  pthread_t thread;
  remaining = batch;
  pthread_create(&thread, NULL, post_batch, &j);
  for (int b = 0; b < batches; b++) {
    peer_await(answer_fd);
    while (remaining > 0) p->turn();
    remaining = batch;
    peer_signal(j.gate);
  }
  pthread_join(thread, NULL);
  close(j.gate);
  return j.result;
}

double shared_self_post(const poster *p, int batches, int batch) {
  node *nodes = calloc(batch, sizeof(node));
  int64_t start = peer_now();
  for (int b = 0; b < batches; b++) {
    remaining = batch;
    for (int i = 0; i < batch; i++) { nodes[i].call = count_down; p->post(&nodes[i]); }
    while (remaining > 0) p->turn();
  }
  double result = (double)(peer_now() - start) / batches / batch;
  free(nodes);
  return result;
}

static const peer end;
const peer *peers(void) {
  static peer list[6];
  int n = 0;
  const peer *all[] = {&bare_peer, &uv_peer, &ev_peer, &event_peer, &glib_peer};
  for (int i = 0; i < 5; i++) if (all[i]->name) list[n++] = *all[i];
  list[n] = end;
  return list;
}
