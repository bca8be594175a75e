// C frames for the victims: a static function, which no dynamic symbol names, blocks the caller.
#ifndef VICTIM_C_H
#define VICTIM_C_H

#include <stddef.h>
#include "victim_calls.h"
#include "victim_moments.h"

/// Computes for that long, in a static function.
void victim_c_compute(unsigned milliseconds);

/// Sleeps for that long, in a static function. Returns 0, or the errno that ended the sleep early.
int victim_c_sleep(unsigned milliseconds);


// What malloc() has given out and not got back, in all threads.
size_t victim_bytes_in_use(void);
#endif
