// Where libdispatch keeps what a debugger asks of a queue.
//
// libdispatch exports the layout for debuggers and declares it in a private header alone. In C because the symbol is weak; it can go when
// Swift has weak references.
#ifndef CLINUX_DISPATCH_QUEUE_H
#define CLINUX_DISPATCH_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

// private/introspection: version, label, label size, flags, flags size, serial number, its size, width, its size, running, its size,
// suspend count, its size, target queue.
extern const uint16_t dispatch_queue_offsets[] __attribute__((weak));

/// Whether a queue is laid out as `label` at 72, `serialnum` at 64, `width` at 80 and the target queue at 24; the lock word
/// (`dq_state`) then lies before the serial number, at 56 (libdispatch, src/queue_internal.h).
static inline bool clinux_dispatch_queue_layout_is_known(void) {
  const uint16_t *offsets = dispatch_queue_offsets;
  return offsets != 0 && offsets[0] == 6 && offsets[1] == 72 && offsets[5] == 64 && offsets[7] == 80 && offsets[13] == 24;
}

#endif
