// Blocking calls of many kinds, each as its user would make it: once, with no retry of its own.
#ifndef VICTIM_CALLS_H
#define VICTIM_CALLS_H

#include <stddef.h>

/// One blocking call.
typedef struct victim_call {
  const char *name;
  /// Blocks for about VICTIM_CALL_MS, and returns what the call returned.
  long (*run)(void);
} victim_call;

#define VICTIM_CALL_MS 60

extern const victim_call victim_calls[];
extern const size_t victim_call_count;

/// The outcome of one call.
typedef struct victim_outcome {
  long result;
  int error;
  double elapsed_ms;
} victim_outcome;

/// Makes the call on this thread.
victim_outcome victim_call_run(size_t index);

#endif
