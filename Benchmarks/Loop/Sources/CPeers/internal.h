#ifndef INTERNAL_H
#define INTERNAL_H
#include "peers.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct node { struct node *next; void (*call)(void *); void *context; } node;

// The queue that a C program puts beside its loop's wake-up: a mutex and a list.
typedef struct { pthread_mutex_t lock; node *first; node **last; } queue;
static inline void queue_init(queue *q) { pthread_mutex_init(&q->lock, NULL); q->first = NULL; q->last = &q->first; }
static inline int queue_push(queue *q, node *n) {
  n->next = NULL;
  pthread_mutex_lock(&q->lock);
  int was_empty = q->first == NULL;
  *q->last = n;
  q->last = &n->next;
  pthread_mutex_unlock(&q->lock);
  return was_empty;
}
static inline void queue_run(queue *q) {
  pthread_mutex_lock(&q->lock);
  node *n = q->first;
  q->first = NULL;
  q->last = &q->first;
  pthread_mutex_unlock(&q->lock);
  while (n) { node *next = n->next; n->call(n->context); n = next; }
}

extern const peer bare_peer, uv_peer, ev_peer, event_peer, glib_peer;

// What every peer's rows share: how a peer posts, turns once, and posts to itself.
typedef struct {
  void (*post)(node *n);
  void (*turn)(void);  // one iteration that waits
} poster;
double shared_round_trip(const poster *p, int count);
double shared_post(const poster *p, int batches, int batch);
double shared_self_post(const poster *p, int batches, int batch);
#endif
