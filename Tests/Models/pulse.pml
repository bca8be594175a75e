/* A loop publishes words, and a watchdog asks to be woken at the next one: `Pulse.publish`, `answer`, `requestWake` and `fence`.
 *
 * The loop's stores reach the memory late, in order, as a processor may hold them back: a load may come before an earlier store. The watchdog's
 * fence, membarrier(2), waits until those that were made before it have arrived. If the watchdog sleeps for ever although the loop has published
 * another word, it is in an invalid end state.
 *
 * mutant: NO_FENCE
 * mutant: ANSWER_BEFORE_WORD */
#define WORDS 4

byte memory, published;
bool attention, posted, done;
chan stores = [2] of { byte };

active proctype processor() {
  byte word;
end:
  do
  :: atomic { stores?word -> memory = word }
  od
}

active proctype loop() {
  do
  :: published < WORDS ->
#ifndef ANSWER_BEFORE_WORD
     atomic { stores!published + 1; published++ }
#endif
     if
     :: attention ->
        /* The exchange is a fence of its own. */
        atomic { empty(stores) && memory == published -> attention = false }
        posted = true
     :: !attention
     fi
#ifdef ANSWER_BEFORE_WORD
     atomic { stores!published + 1; published++ }
#endif
  :: break
  od
  empty(stores);
  done = true
}

active proctype watchdog() {
  byte word;
  do
  :: word = memory;
     attention = true;
#ifndef NO_FENCE
     empty(stores);
#endif
     if
     :: memory != word -> attention = false
     :: else ->
        if
        :: posted -> posted = false
        /* Nothing has happened, and nothing will. */
        :: done && published == word -> break
        fi
     fi
  :: done && memory == published -> break
  od
}
