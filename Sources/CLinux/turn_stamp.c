#include "turn_stamp.h"

// A run may have begun before its loop had observers.
static inline bool is_new_run(const clinux_turn_stamp *stamp) { return __atomic_load_n(stamp->runs, __ATOMIC_RELAXED) == 0; }

// `info` is NULL when another thread has just ended the stamping; an observer has one stamp.
void clinux_cf_turn_begins(void *observer, unsigned long activity, void *info) {
  (void)observer;
  const clinux_turn_stamp *stamp = info;
  if (__builtin_expect(stamp == NULL, false)) return;
  if (__builtin_expect(activity == CLINUX_TURN_ENTRY || is_new_run(stamp), false)) {
    stamp->entry(stamp->context);
  } else if (activity == CLINUX_TURN_AFTER_WAITING) {
    clinux_turn_begin(stamp, clinux_turn_clock(stamp), CLINUX_AFTER_WAIT);
  } else {
    clinux_turn_go_on(stamp);
  }
}

void clinux_cf_turn_ends(void *observer, unsigned long activity, void *info) {
  (void)observer;
  const clinux_turn_stamp *stamp = info;
  if (__builtin_expect(stamp == NULL, false)) return;
  if (__builtin_expect(is_new_run(stamp), false)) stamp->entry(stamp->context);
  if (__builtin_expect(activity == CLINUX_TURN_EXIT, false)) {
    stamp->exit(stamp->context);
  } else {
    clinux_turn_end(stamp);
  }
}
