// CoreFoundation's run loop, if the service has it. Weak references: a service without Foundation does not get it through us, and in one
// that is linked statically no symbol can be looked up by name. `import CoreFoundation` alone does not link on Linux.
// It can go when Swift has weak references to symbols of libraries that may be absent. Declared after CFRunLoop.h of swift-corelibs-foundation.
#ifndef CLINUX_CORE_FOUNDATION_H
#define CLINUX_CORE_FOUNDATION_H

#include <stdbool.h>
#include <stddef.h>

typedef void (*clinux_cf_observer_callout)(void *observer, unsigned long activity, void *info);

typedef struct clinux_cf_observer_context {
  long version;
  void *info;
  const void *(*retain)(const void *info);
  void (*release)(const void *info);
  const void *(*copy_description)(const void *info);
} clinux_cf_observer_context;

extern void *_CFRunLoopGet0b(unsigned long thread) __attribute__((weak));
extern void *CFRunLoopGetCurrent(void) __attribute__((weak));
extern void *CFRunLoopTimerCreate(const void *allocator, double date, double interval, unsigned long flags, long order,
                                  void (*callout)(void *timer, void *info), clinux_cf_observer_context *context)
    __attribute__((weak));
extern void CFRunLoopAddTimer(void *loop, void *timer, const void *mode) __attribute__((weak));
extern void *CFRunLoopCopyCurrentMode(void *loop) __attribute__((weak));
extern unsigned char CFRunLoopIsWaiting(void *loop) __attribute__((weak));
extern unsigned char CFEqual(const void *one, const void *other) __attribute__((weak));
extern void *CFRunLoopObserverCreate(const void *allocator, unsigned long activities, unsigned char repeats, long order,
                                     clinux_cf_observer_callout callout, clinux_cf_observer_context *context)
    __attribute__((weak));
extern void CFRunLoopAddObserver(void *loop, void *observer, const void *mode) __attribute__((weak));
extern void CFRunLoopObserverInvalidate(void *observer) __attribute__((weak));
extern unsigned long CFGetTypeID(const void *object) __attribute__((weak));
extern unsigned long CFRunLoopGetTypeID(void) __attribute__((weak));
extern void CFRelease(const void *object) __attribute__((weak));
extern const void *const kCFRunLoopCommonModes __attribute__((weak));
extern const void *const kCFRunLoopDefaultMode __attribute__((weak));

/// An address in the module that has the run loops, or 0.
static inline unsigned long clinux_cf_address(void) { return (unsigned long)&CFRunLoopGetCurrent; }

/// Whether the process has CoreFoundation.
static inline bool clinux_cf_is_here(void) {
  return _CFRunLoopGet0b != NULL && CFRunLoopGetCurrent != NULL && CFRunLoopTimerCreate != NULL && CFRunLoopAddTimer != NULL &&
         CFRunLoopCopyCurrentMode != NULL && CFRunLoopObserverCreate != NULL && CFRunLoopAddObserver != NULL &&
         CFRunLoopObserverInvalidate != NULL && CFGetTypeID != NULL && CFRunLoopGetTypeID != NULL &&
         CFRelease != NULL && CFRunLoopIsWaiting != NULL && CFEqual != NULL && &kCFRunLoopCommonModes != NULL &&
         &kCFRunLoopDefaultMode != NULL;
}

/// The main thread's run loop; NULL before something in the process makes it, which opens three descriptors. Only if CoreFoundation is
/// here. Any thread, between clinux_cf_lock() and clinux_cf_unlock(); takes the lock of CoreFoundation's table for one look-up.
void *clinux_cf_main_run_loop(void);

/// Whether a run loop is the calling thread's. Makes none. Only if CoreFoundation is here; between clinux_cf_lock() and clinux_cf_unlock().
bool clinux_cf_is_own_run_loop(const void *loop);

/// Keeps forks away from calls that take locks of CoreFoundation's: a child that inherited one
/// locked could never use a run loop. For a few microseconds; not recursive. Waits for a fork that
/// is in progress.
void clinux_cf_lock(void);
void clinux_cf_unlock(void);

/// The calling thread's run loop, made on first use. Only if CoreFoundation is here.
static inline void *clinux_cf_current_run_loop(void) { return CFRunLoopGetCurrent(); }

/// Whether an object of CoreFoundation's is a run loop. Only if CoreFoundation is here.
static inline bool clinux_cf_is_run_loop(const void *object) { return CFGetTypeID(object) == CFRunLoopGetTypeID(); }

/// Whether a run loop is being run. Only if CoreFoundation is here.
static inline bool clinux_cf_is_running(void *loop) {
  void *mode = CFRunLoopCopyCurrentMode(loop);
  if (mode != NULL) CFRelease(mode);
  return mode != NULL;
}

/// Whether a run loop is in a turn of a run in the default mode. Only if CoreFoundation is here. Any thread; true also for the moment
/// between the last observer and the wait.
static inline bool clinux_cf_is_turning(void *loop) {
  void *mode = CFRunLoopCopyCurrentMode(loop);
  if (mode == NULL) return false;
  bool is_turning = CFEqual(mode, kCFRunLoopDefaultMode) && !CFRunLoopIsWaiting(loop);
  CFRelease(mode);
  return is_turning;
}

/// Calls `callout` once on a run loop's thread, in its next turn in a common mode, and wakes it for that. `release` is called once with
/// `info`, whether or not that happens. False if there is no memory: then neither is called. Only if CoreFoundation is here.
static inline bool clinux_cf_perform(void *loop, void (*callout)(void *timer, void *info), void *info,
                                     void (*release)(const void *info)) {
  clinux_cf_observer_context context = {.info = info, .release = release};
  void *timer = CFRunLoopTimerCreate(NULL, 0, 0, 0, 0, callout, &context);
  if (timer == NULL) return false;
  CFRunLoopAddTimer(loop, timer, kCFRunLoopCommonModes);
  CFRelease(timer);
  return true;
}

/// Adds an observer to the common modes, for each time. `release` is called once with `info`, when nothing calls it any more.
/// NULL if there is no memory. Only if CoreFoundation is here.
static inline void *clinux_cf_observe(void *loop, unsigned long activities, long order, clinux_cf_observer_callout callout,
                                      void *info, void (*release)(const void *info)) {
  clinux_cf_observer_context context = {.info = info, .release = release};
  void *observer = CFRunLoopObserverCreate(NULL, activities, 1, order, callout, &context);
  if (observer != NULL) CFRunLoopAddObserver(loop, observer, kCFRunLoopCommonModes);
  return observer;
}

/// Ends it; from any thread. A callout that runs at this moment runs to its end.
static inline void clinux_cf_stop_observing(void *observer) {
  CFRunLoopObserverInvalidate(observer);
  CFRelease(observer);
}

#endif
