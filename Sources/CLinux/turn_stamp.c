#include "turn_stamp.h"

#define RELAXED __ATOMIC_RELAXED

void clinux_turn_note_late(const clinux_turn_stamp *stamp, uint64_t word, uint64_t end) {
  clinux_late_turns *late = stamp->late;
  uint64_t count = __atomic_load_n(&late->count, RELAXED);
  clinux_late_turn *place = &late->turns[count % CLINUX_LATE_TURN_PLACES];
  // A reader that finds part of this note finds the count of before, by which the note in this place is an old one.
  __atomic_thread_fence(__ATOMIC_RELEASE);
  __atomic_store_n(&place->word, word, RELAXED);
  __atomic_store_n(&place->end, end, RELAXED);
  clinux_callouts_keep(stamp->callouts, &place->callouts);
  __atomic_store_n(&late->total, __atomic_load_n(&late->total, RELAXED) + end - (word >> 2), RELAXED);
  __atomic_store_n(&late->count, count + 1, __ATOMIC_RELEASE);
}

bool clinux_late_turn_read(const clinux_late_turns *late, uint64_t number, clinux_late_turn *copy) {
  const clinux_late_turn *place = &late->turns[number % CLINUX_LATE_TURN_PLACES];
  copy->word = __atomic_load_n(&place->word, RELAXED);
  copy->end = __atomic_load_n(&place->end, RELAXED);
  if (!clinux_callouts_read(&place->callouts, copy->word >> 2, &copy->callouts)) copy->callouts.turn = 0;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  // The next one in this place may be half written already.
  return __atomic_load_n(&late->count, RELAXED) - number <= CLINUX_LATE_TURNS;
}

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
