// Garbage for the unwinder.
#ifndef FUZZ_UNWIND_H
#define FUZZ_UNWIND_H

#include <stddef.h>
#include <stdint.h>

/// Makes a snapshot of the bytes, with registers and stack words that point into real modules, the stack itself or
/// nowhere, and unwinds it. @return the number of frames; aborts if the unwinder breaks its word.
size_t fuzz_unwind(const uint8_t *bytes, size_t length);

/// What unwinding `rounds` snapshots took, of bytes made from `seed`.
struct fuzz_totals {
  uint64_t frames, slowest_ns;
};
struct fuzz_totals fuzz_unwind_many(uint64_t seed, size_t rounds);

#endif
