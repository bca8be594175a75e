/* Threads leave blocks for a loop and wake it, and the loop collects and sleeps: `Inbox.post`, `wake`, `collect`, `prepareToSleep` and `finishSleep`.
 *
 * What is under the lock is one step. What the loop does without it may be late: the hint that there is work may be missed, and the end of a sleep
 * may be seen late by others. If the loop sleeps for ever with a block or a wake-up left, it is in an invalid end state.
 *
 * mutant: HINT_ALONE
 * mutant: WAKE_IS_FORGOTTEN */
#define POSTS 3

byte count, left = POSTS + 1;
bool hasWork, sleeping, wakePending, signalled, isWanted, isEnding;

active [POSTS] proctype poster() {
  bool mustSignal;
  atomic {
    count++;
    hasWork = true;
    mustSignal = sleeping;
    if :: sleeping -> sleeping = false :: else fi
  }
  if :: mustSignal -> signalled = true :: else fi
  left--
}

active proctype waker() {
  bool mustSignal;
  atomic {
    isWanted = true;
    mustSignal = sleeping;
    if
    :: sleeping -> sleeping = false
    :: else ->
#ifndef WAKE_IS_FORGOTTEN
       wakePending = true
#else
       skip
#endif
    fi
  }
  if :: mustSignal -> signalled = true :: else fi
  left--
}

/* The store of `finishSleep`, when it arrives. */
active proctype processor() {
end:
  do
  :: atomic { isEnding -> sleeping = false; isEnding = false }
  od
}

active proctype loop() {
  bool mustStayAwake;
  do
  :: isWanted = false;
     if
     :: hasWork -> atomic { count = 0; hasWork = false }
     :: skip
     fi
     atomic {
       /* Stores of one thread to one word keep their order. */
       if :: isEnding -> sleeping = false; isEnding = false :: else fi
#ifdef HINT_ALONE
       mustStayAwake = wakePending;
#else
       mustStayAwake = hasWork || wakePending;
#endif
       wakePending = false;
       if :: !mustStayAwake -> sleeping = true :: else fi
     }
     if
     :: mustStayAwake
     :: else ->
        if
        :: signalled -> signalled = false
        :: left == 0 && count == 0 && !isWanted && !signalled -> break
        fi
        isEnding = true
     fi
  od
}
