#include "turn_stamp.h"

#include <stddef.h>

#include "barrier.h"
#include "loop.h"
#include "time_stamp_counter.h"

// Pulse.Phase.
enum { PHASES = 3, IN_SOURCES = 1, AFTER_WAIT = 2 };

// The same as Pulse.publish. False if the watchdog asks for an answer.
static inline bool publish(const clinux_turn_stamp *stamp, uint64_t word) {
  __atomic_store_n(stamp->word, word, __ATOMIC_RELEASE);
  clinux_compiler_barrier();
  if (__builtin_expect(stamp->fences_itself, false)) clinux_full_barrier();
  return __builtin_expect(__atomic_load_n(stamp->attention, __ATOMIC_RELAXED) == 0, true);
}

static inline void begin(const clinux_turn_stamp *stamp, uint64_t phase) {
  uint64_t time = stamp->counts_ticks ? clinux_time_stamp_counter() : (uint64_t)clinux_monotonic();
  if (!publish(stamp, time << 2 | phase)) stamp->answer(stamp->context);
}

void clinux_turn_begins(void *info, unsigned long activity) {
  const clinux_turn_stamp *stamp = info;
  if (__builtin_expect(activity == CLINUX_TURN_ENTRY, false)) {
    stamp->entry(stamp->context);
    return;
  }
  if (activity == CLINUX_TURN_AFTER_WAITING) {
    begin(stamp, AFTER_WAIT);
    return;
  }
  uint64_t word = __atomic_load_n(stamp->word, __ATOMIC_RELAXED);
  if ((word & PHASES) != AFTER_WAIT) {
    begin(stamp, IN_SOURCES);
    return;
  }
  // The turn that began when the wait ended goes on, with its time: that saves a reading of the clock.
  if (publish(stamp, (word & ~(uint64_t)PHASES) | IN_SOURCES)) return;
  // The watchdog has asked for the turn's end: another one begins, before the watchdog is answered. It would find this one late again.
  begin(stamp, IN_SOURCES);
}

void clinux_turn_ends(void *info, unsigned long activity) {
  const clinux_turn_stamp *stamp = info;
  if (__builtin_expect(activity == CLINUX_TURN_EXIT, false)) {
    stamp->exit(stamp->context);
    return;
  }
  uint64_t word = __atomic_load_n(stamp->word, __ATOMIC_RELAXED);
  if (!publish(stamp, word & ~(uint64_t)PHASES)) stamp->answer(stamp->context);
}

void clinux_cf_turn_begins(void *observer, unsigned long activity, void *info) {
  (void)observer;
  // NULL when another thread has just ended the stamping.
  if (__builtin_expect(info != NULL, true)) clinux_turn_begins(info, activity);
}

void clinux_cf_turn_ends(void *observer, unsigned long activity, void *info) {
  (void)observer;
  if (__builtin_expect(info != NULL, true)) clinux_turn_ends(info, activity);
}
