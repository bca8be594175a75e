#include "foundation_turns.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

// Declared after CFRunLoop.h of swift-corelibs-foundation.
typedef struct {
  long version;
  void *info;
  const void *(*retain)(const void *info);
  void (*release)(const void *info);
  const void *(*copy_description)(const void *info);
  unsigned char (*equal)(const void *a, const void *b);
  unsigned long (*hash)(const void *info);
  void *(*get_port)(void *info);
  void (*perform)(void *info);
} source_context;

extern void *CFRunLoopGetCurrent(void);
extern int32_t CFRunLoopRunInMode(const void *mode, double seconds, unsigned char return_after_source);
extern void CFRunLoopStop(void *loop);
extern void *CFRunLoopSourceCreate(const void *allocator, long order, source_context *context);
extern void CFRunLoopAddSource(void *loop, void *source, const void *mode);
extern void *CFRunLoopObserverCreate(const void *allocator, unsigned long activities, unsigned char repeats, long order,
                                     void (*callout)(void *observer, unsigned long activity, void *info), void *context);
extern void CFRunLoopAddObserver(void *loop, void *observer, const void *mode);
extern void CFRunLoopObserverInvalidate(void *observer);
extern void CFRelease(const void *object);
extern const void *const kCFRunLoopDefaultMode, *const kCFRunLoopCommonModes;

enum { ENTRY = 1, BEFORE_SOURCES = 4, BEFORE_WAITING = 32, AFTER_WAITING = 64, EXIT = 128 };

static long left;

static void *get_port(void *info) { return info; }

static void perform(void *info) {
  eventfd_write((int)(intptr_t)info, 1);
  if (--left == 0) CFRunLoopStop(CFRunLoopGetCurrent());
}

void foundation_turns_prepare(void) {
  int descriptor = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
  if (descriptor < 0) abort();
  source_context context = {.version = 1, .info = (void *)(intptr_t)descriptor, .get_port = get_port, .perform = perform};
  void *source = CFRunLoopSourceCreate(NULL, 0, &context);
  if (source == NULL) abort();
  CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
}

static double processor_time(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double foundation_turns_run(long turns) {
  left = turns;
  double start = processor_time();
  while (left > 0) CFRunLoopRunInMode(kCFRunLoopDefaultMode, 1e9, 0);
  return (processor_time() - start) / (double)turns;
}

static void nothing(void *observer, unsigned long activity, void *info) {
  (void)observer;
  (void)activity;
  (void)info;
}

static void *observe(unsigned long activities, long order) {
  void *observer = CFRunLoopObserverCreate(NULL, activities, 1, order, nothing, NULL);
  if (observer == NULL) abort();
  CFRunLoopAddObserver(CFRunLoopGetCurrent(), observer, kCFRunLoopCommonModes);
  return observer;
}

static void *observers[2];

void foundation_turns_observe(void) {
  observers[0] = observe(ENTRY | BEFORE_SOURCES | AFTER_WAITING, LONG_MIN);
  observers[1] = observe(BEFORE_WAITING | EXIT, LONG_MAX);
}

void foundation_turns_stop_observing(void) {
  for (int i = 0; i < 2; i++) {
    CFRunLoopObserverInvalidate(observers[i]);
    CFRelease(observers[i]);
  }
}
