// Run loops' observer callouts that stamp a pulse. In C, since they must cost little more than an empty callout.
#ifndef CLINUX_TURN_STAMP_H
#define CLINUX_TURN_STAMP_H

#include <stdbool.h>
#include <stdint.h>

/// What the callouts stamp, and whom they call for all that is rare.
typedef struct clinux_turn_stamp {
  /// The pulse's word (see Pulse.Word). The loop's thread is its only writer.
  uint64_t *word;
  /// Not 0 when the watchdog asks for an answer.
  const uint32_t *attention;
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
} clinux_turn_stamp;

/// CFRunLoopActivity (CFRunLoop.h), and Loop.Activity.
enum {
  CLINUX_TURN_ENTRY = 1,
  CLINUX_TURN_BEFORE_SOURCES = 4,
  CLINUX_TURN_BEFORE_WAITING = 32,
  CLINUX_TURN_AFTER_WAITING = 64,
  CLINUX_TURN_EXIT = 128,
};

/// The callout for Entry, BeforeSources and AfterWaiting. `stamp` is a clinux_turn_stamp.
void clinux_turn_begins(void *stamp, unsigned long activity);

/// The callout for BeforeWaiting and Exit. `stamp` is a clinux_turn_stamp.
void clinux_turn_ends(void *stamp, unsigned long activity);

/// clinux_turn_begins as CoreFoundation calls it. `info` is a clinux_turn_stamp, or NULL.
void clinux_cf_turn_begins(void *observer, unsigned long activity, void *info);

/// clinux_turn_ends as CoreFoundation calls it. `info` is a clinux_turn_stamp, or NULL.
void clinux_cf_turn_ends(void *observer, unsigned long activity, void *info);

#endif
