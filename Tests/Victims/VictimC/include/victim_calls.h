// Blocking calls of many kinds, each as its user would make it: once, with no retry of its own.
#ifndef VICTIM_CALLS_H
#define VICTIM_CALLS_H

#include <stddef.h>

/// For how long a call blocks, about, unless `victim_call_set_duration` says otherwise (below a second).
#define VICTIM_CALL_MS 60
void victim_call_set_duration(unsigned milliseconds);

/// How many calls there are, and what the one at `index` is called.
extern const size_t victim_call_count;
const char *victim_call_name(size_t index);

/// The outcome of one call.
typedef struct victim_outcome {
  long result;
  int error;
  double elapsed_ms;
} victim_outcome;

/// Makes the call on this thread.
victim_outcome victim_call_run(size_t index);

#endif
