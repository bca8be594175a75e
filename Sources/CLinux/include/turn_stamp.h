// The words that a run loop stamps at each turn and each callout, for a watchdog to read.
//
// In C and inline, since a turn must cost little more than the stores: Swift has no store to plain memory with a compiler-only barrier,
// and reaches neither the thread's block nor the processor's counter. It can go when Swift has these.
#ifndef CLINUX_TURN_STAMP_H
#define CLINUX_TURN_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "barrier.h"
#include "loop.h"
#include "time_stamp_counter.h"

/// The callouts of one turn. The loop's thread is the only writer; any thread may read.
///
/// All of it is about the turn with the time `turn`: a reader that finds another one there knows nothing of the present turn's.
typedef struct clinux_callouts {
  uint64_t turn;
  /// How many have begun.
  uint64_t count;
  /// When the latest began; for the first, when the turn did.
  uint64_t began;
  /// The longest of those that another one followed, and which one it was, from 1; 0 for none.
  uint64_t longest;
  uint64_t longest_number;
} clinux_callouts;

// Of so many notes, one more is kept, since a reader may meet one that is being written.
enum { CLINUX_LATE_TURNS = 16, CLINUX_LATE_TURN_PLACES };

/// A turn that has lasted longer than it may.
typedef struct clinux_late_turn {
  /// The pulse's word in it.
  uint64_t word;
  uint64_t end;
  /// About this turn only if `callouts.turn` says so.
  clinux_callouts callouts;
} clinux_late_turn;

/// The latest turns that have lasted longer than they may: what a watchdog that comes too late finds.
///
/// The loop's thread alone writes, but for the limit.
typedef struct clinux_late_turns {
  /// How long a turn may last, in the unit of stamps; INT64_MAX: none is noted.
  uint64_t limit;
  /// How many there were, and how long all of them lasted.
  uint64_t count, total;
  clinux_late_turn turns[CLINUX_LATE_TURN_PLACES];
} clinux_late_turns;

/// The words that a loop stamps, and the functions that it calls in rare cases.
typedef struct clinux_turn_stamp {
  /// The pulse's word (see TurnWord). The loop's thread is its only writer.
  uint64_t *word;
  /// Not 0 when the watchdog asks for an answer.
  const uint32_t *attention;
  clinux_callouts *callouts;
  clinux_late_turns *late;
  /// Whether a stamp is a reading of the processor's counter, or of CLOCK_MONOTONIC.
  bool counts_ticks;
  /// Whether the loop pays for the fence.
  bool fences_itself;
  /// The argument of the functions below.
  void *context;
  /// The id of the loop's thread.
  int32_t owner;
  void (*answer)(void *context);
  void (*entry)(void *context);
  void (*exit)(void *context);
  /// How many runs of Foundation's loop are known to be in progress. The loop's thread is its only
  /// writer; NULL for other loops.
  const intptr_t *runs;
  /// The next stamp of the same loop.
  struct clinux_turn_stamp *next;
} clinux_turn_stamp;

// TurnPhase.
enum { CLINUX_PHASES = 3, CLINUX_IN_SOURCES = 1, CLINUX_AFTER_WAIT = 2 };

// False if the watchdog asks for an answer.
//
// Releasing: a watchdog that reads this word reads what the loop's thread had stored before it, too. The load must not come before the
// word's store, or a request and a transition could miss each other. The watchdog sees to it: its `fence` interrupts this thread between two
// instructions, and orders what is before with what is after (Tests/Models/pulse.pml).
static inline bool clinux_turn_publish(const clinux_turn_stamp *stamp, uint64_t word) {
  __atomic_store_n(stamp->word, word, __ATOMIC_RELEASE);
  clinux_compiler_barrier();
  if (__builtin_expect(stamp->fences_itself, false)) clinux_full_barrier();
  return __builtin_expect(__atomic_load_n(stamp->attention, __ATOMIC_RELAXED) == 0, true);
}

static inline uint64_t clinux_turn_clock(const clinux_turn_stamp *stamp) {
  return stamp->counts_ticks ? clinux_time_stamp_counter() : (uint64_t)clinux_monotonic();
}

/// Notes a turn that has lasted longer than the limit.
void clinux_turn_note_late(const clinux_turn_stamp *stamp, uint64_t word, uint64_t end);

/// The turn that the word says ends at `end`: notes it, if it was late. Before the next word is published: who reads that one finds the note.
static inline void clinux_turn_judge(const clinux_turn_stamp *stamp, uint64_t word, uint64_t end, uint64_t limit) {
  // Signed: another processor's counter may be a few ticks behind.
  if (__builtin_expect((int64_t)(end - (word >> 2)) > (int64_t)limit, false)) clinux_turn_note_late(stamp, word, end);
}

static inline uint64_t clinux_turn_limit(const clinux_turn_stamp *stamp) {
  return __atomic_load_n(&stamp->late->limit, __ATOMIC_RELAXED);
}

// Whether a turn may be late now, by a clock that is cheap: true of the counter, which is the cheapest.
static inline bool clinux_turn_may_be_late(const clinux_turn_stamp *stamp, uint64_t word, uint64_t limit) {
  return stamp->counts_ticks || clinux_monotonic_coarse() - (int64_t)(word >> 2) + CLINUX_COARSE_TICK > (int64_t)limit;
}

static inline void clinux_turn_begin(const clinux_turn_stamp *stamp, uint64_t time, uint64_t phase) {
  uint64_t last = __atomic_load_n(stamp->word, __ATOMIC_RELAXED);
  if ((last & CLINUX_PHASES) != 0) clinux_turn_judge(stamp, last, time, clinux_turn_limit(stamp));
  if (!clinux_turn_publish(stamp, time << 2 | phase)) stamp->answer(stamp->context);
}

/// A wait is over, and a turn begins. `ticks` is a reading of clinux_ticks() since then, or 0.
static inline void clinux_turn_after_wait(const clinux_turn_stamp *stamp, int64_t ticks) {
  for (; stamp != NULL; stamp = stamp->next) {
    bool is_same_clock = ticks != 0 && stamp->counts_ticks == (clinux_has_even_tick != 0);
    clinux_turn_begin(stamp, is_same_clock ? (uint64_t)ticks : clinux_turn_clock(stamp), CLINUX_AFTER_WAIT);
  }
}

// A pass begins. The turn that began with the end of the wait continues, with its time: that saves
// a reading of the clock.
static inline void clinux_turn_go_on(const clinux_turn_stamp *stamp) {
  // Relaxed, here and wherever the loop's thread reads what it alone writes.
  uint64_t word = __atomic_load_n(stamp->word, __ATOMIC_RELAXED);
  bool goes_on = (word & CLINUX_PHASES) == CLINUX_AFTER_WAIT;
  if (goes_on && clinux_turn_publish(stamp, (word & ~(uint64_t)CLINUX_PHASES) | CLINUX_IN_SOURCES)) return;
  // The watchdog has asked for the turn's end: another one begins, before the watchdog is answered. It would find this one late again.
  clinux_turn_begin(stamp, clinux_turn_clock(stamp), CLINUX_IN_SOURCES);
}

static inline void clinux_turn_end(const clinux_turn_stamp *stamp) {
  uint64_t word = __atomic_load_n(stamp->word, __ATOMIC_RELAXED), limit = clinux_turn_limit(stamp);
  if (limit != INT64_MAX && (word & CLINUX_PHASES) != 0 && clinux_turn_may_be_late(stamp, word, limit)) {
    clinux_turn_judge(stamp, word, clinux_turn_clock(stamp), limit);
  }
  if (!clinux_turn_publish(stamp, word & ~(uint64_t)CLINUX_PHASES)) stamp->answer(stamp->context);
}

/// Lets a turn count from now whose beginning the loop has not stamped, and returns its word; on any thread.
///
/// 0 if the loop has stamped a transition.
static inline uint64_t clinux_turn_begin_unseen(const clinux_turn_stamp *stamp) {
  uint64_t none = 0, word = clinux_turn_clock(stamp) << 2 | CLINUX_PHASES;
  if (!__atomic_compare_exchange_n(stamp->word, &none, word, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return 0;
  clinux_full_barrier();
  if (__atomic_load_n(stamp->attention, __ATOMIC_RELAXED) != 0) stamp->answer(stamp->context);
  return word;
}

/// Ends such a turn, unless the loop has stamped a transition; on any thread.
static inline void clinux_turn_end_unseen(const clinux_turn_stamp *stamp, uint64_t word) {
  uint64_t idle = word & ~(uint64_t)CLINUX_PHASES;
  if (!__atomic_compare_exchange_n(stamp->word, &word, idle, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
  clinux_full_barrier();
  if (__atomic_load_n(stamp->attention, __ATOMIC_RELAXED) != 0) stamp->answer(stamp->context);
}

/// A pass begins.
static inline void clinux_turn_before_sources(const clinux_turn_stamp *stamp) {
  for (; stamp != NULL; stamp = stamp->next) clinux_turn_go_on(stamp);
}

/// The turn ends, and the loop waits.
static inline void clinux_turn_before_wait(const clinux_turn_stamp *stamp) {
  for (; stamp != NULL; stamp = stamp->next) clinux_turn_end(stamp);
}

static inline void clinux_turn_entry(const clinux_turn_stamp *stamp) {
  for (; stamp != NULL; stamp = stamp->next) stamp->entry(stamp->context);
}

static inline void clinux_turn_exit(const clinux_turn_stamp *stamp) {
  for (; stamp != NULL; stamp = stamp->next) stamp->exit(stamp->context);
}

// Each store after those before it, and after the turn's word: nobody may find a later turn's numbers beside an earlier one's word.
static inline void clinux_callout_store(uint64_t *place, uint64_t value) {
  __atomic_store_n(place, value, __ATOMIC_RELEASE);
}

/// A callout begins, and the one before it, if there was one in this turn, is over.
///
/// The first of a turn begins with it, and so a turn of one callout reads no clock.
static inline void clinux_callout_begins(const clinux_turn_stamp *stamp) {
  for (; stamp != NULL; stamp = stamp->next) {
    clinux_callouts *callouts = stamp->callouts;
    uint64_t turn = __atomic_load_n(stamp->word, __ATOMIC_RELAXED) >> 2;
    if (__atomic_load_n(&callouts->turn, __ATOMIC_RELAXED) != turn) {
      clinux_callout_store(&callouts->count, 1);
      clinux_callout_store(&callouts->began, turn);
      clinux_callout_store(&callouts->longest, 0);
      clinux_callout_store(&callouts->longest_number, 0);
      clinux_callout_store(&callouts->turn, turn);
      continue;
    }
    uint64_t now = clinux_turn_clock(stamp), began = __atomic_load_n(&callouts->began, __ATOMIC_RELAXED);
    uint64_t count = __atomic_load_n(&callouts->count, __ATOMIC_RELAXED);
    // Another processor's counter may be a few ticks behind.
    if (now > began && now - began > __atomic_load_n(&callouts->longest, __ATOMIC_RELAXED)) {
      clinux_callout_store(&callouts->longest, now - began);
      clinux_callout_store(&callouts->longest_number, count);
    }
    clinux_callout_store(&callouts->began, now);
    clinux_callout_store(&callouts->count, count + 1);
  }
}

/// Keeps what is known of the latest turn's callouts, for readers that come when another has begun. On the loop's thread.
static inline void clinux_callouts_keep(const clinux_callouts *from, clinux_callouts *kept) {
  clinux_callout_store(&kept->turn, 0);
  clinux_callout_store(&kept->count, __atomic_load_n(&from->count, __ATOMIC_RELAXED));
  clinux_callout_store(&kept->began, __atomic_load_n(&from->began, __ATOMIC_RELAXED));
  clinux_callout_store(&kept->longest, __atomic_load_n(&from->longest, __ATOMIC_RELAXED));
  clinux_callout_store(&kept->longest_number, __atomic_load_n(&from->longest_number, __ATOMIC_RELAXED));
  clinux_callout_store(&kept->turn, __atomic_load_n(&from->turn, __ATOMIC_RELAXED));
}

// Each load before those after it: numbers of a later turn come with the later turn's word, which the reader finds when it reads the word
// again. The second load of the turn finds a copy that was kept meanwhile.
/// Copies what is known of a turn's callouts, on any thread. False if that turn has none, or another one has begun.
static inline bool clinux_callouts_read(const clinux_callouts *from, uint64_t turn, clinux_callouts *copy) {
  copy->turn = __atomic_load_n(&from->turn, __ATOMIC_ACQUIRE);
  copy->count = __atomic_load_n(&from->count, __ATOMIC_ACQUIRE);
  copy->began = __atomic_load_n(&from->began, __ATOMIC_ACQUIRE);
  copy->longest = __atomic_load_n(&from->longest, __ATOMIC_ACQUIRE);
  copy->longest_number = __atomic_load_n(&from->longest_number, __ATOMIC_ACQUIRE);
  return copy->turn == turn && __atomic_load_n(&from->turn, __ATOMIC_ACQUIRE) == turn;
}

/// Has turns noted that last longer; on any thread.
static inline void clinux_late_turns_set_limit(clinux_late_turns *late, uint64_t limit) {
  __atomic_store_n(&late->limit, limit, __ATOMIC_RELAXED);
}

/// How many turns were noted, and how long they lasted; on any thread. What a word shows to be over is among them.
static inline uint64_t clinux_late_turns_count(const clinux_late_turns *late, uint64_t *total) {
  uint64_t count = __atomic_load_n(&late->count, __ATOMIC_ACQUIRE);
  *total = __atomic_load_n(&late->total, __ATOMIC_RELAXED);
  return count;
}

/// Copies the note with this number, from 0, on any thread. False if a later one has taken its place.
bool clinux_late_turn_read(const clinux_late_turns *late, uint64_t number, clinux_late_turn *copy);

/// CFRunLoopActivity (CFRunLoop.h), and Loop.Activity.
enum {
  CLINUX_TURN_ENTRY = 1,
  CLINUX_TURN_BEFORE_SOURCES = 4,
  CLINUX_TURN_BEFORE_WAITING = 32,
  CLINUX_TURN_AFTER_WAITING = 64,
  CLINUX_TURN_EXIT = 128,
};

/// CoreFoundation's callout for Entry, BeforeSources and AfterWaiting. `info` is a clinux_turn_stamp, or NULL.
void clinux_cf_turn_begins(void *observer, unsigned long activity, void *info);

/// CoreFoundation's callout for BeforeWaiting and Exit. `info` is a clinux_turn_stamp, or NULL.
void clinux_cf_turn_ends(void *observer, unsigned long activity, void *info);

#endif
