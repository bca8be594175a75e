/* A loop counts the callouts of its turns, and a watchdog copies those of a late turn: `clinux_callout_begins`, `clinux_callouts_keep` and
 * `Pulse.callouts(of:)`.
 *
 * Stores are releasing and loads acquiring, so that they come one after another. The watchdog's copy must be of the late turn.
 *
 * mutant: PRESENT_ALONE */
#define LATE 1

byte word = LATE, turn, count, keptTurn, keptCount;
bool episode;

/* Turns have 10 * turn + n for their n-th callout. */
active proctype loop() {
  count = 10 * LATE + 1;
  turn = LATE;
  count = 10 * LATE + 2;
  /* The end of the turn, which answers the watchdog if that has asked; publishing and asking cannot miss each other (pulse.pml). */
  atomic {
    word = 0;
    if :: episode :: else -> goto next fi
  }
  keptTurn = 0;
  keptCount = count;
  keptTurn = turn;
next:
  word = LATE + 1;
  count = 10 * (LATE + 1) + 1;
  turn = LATE + 1;
  count = 10 * (LATE + 1) + 2
}

active proctype watchdog() {
  byte copiedTurn, copied, kept;
  bool isKnown, isKept;
  /* A stall begins. */
  atomic {
    if :: word == LATE -> episode = true :: else -> goto over fi
  }
  copiedTurn = turn;
  copied = count;
  isKnown = copiedTurn == LATE && turn == LATE;
#ifndef PRESENT_ALONE
  copiedTurn = keptTurn;
  kept = keptCount;
  isKept = copiedTurn == LATE && keptTurn == LATE;
  if :: isKept -> isKnown = true; copied = kept :: else fi;
#endif
  assert(!isKnown || copied / 10 == LATE);
over: skip
}
