#include "turn_stamp.h"

// NULL when another thread has just ended the stamping.
void clinux_cf_turn_begins(void *observer, unsigned long activity, void *info) {
  (void)observer;
  const clinux_turn_stamp *stamp = info;
  if (__builtin_expect(activity == CLINUX_TURN_ENTRY, false)) {
    clinux_turn_entry(stamp);
  } else if (activity == CLINUX_TURN_AFTER_WAITING) {
    clinux_turn_after_wait(stamp, 0);
  } else {
    clinux_turn_before_sources(stamp);
  }
}

void clinux_cf_turn_ends(void *observer, unsigned long activity, void *info) {
  (void)observer;
  const clinux_turn_stamp *stamp = info;
  if (__builtin_expect(activity == CLINUX_TURN_EXIT, false)) {
    clinux_turn_exit(stamp);
  } else {
    clinux_turn_before_wait(stamp);
  }
}
