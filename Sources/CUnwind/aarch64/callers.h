// The calls of a function in all modules of the process.
#pragma once

#include "code.h"

#pragma GCC visibility push(hidden)

// Passes each call of `function` to `body`, also those by a function that jumps to it as its last action, until `body`
// returns false. @return false if not all code could be searched.
bool cunwind_each_call(cunwind_unwinder *u, uint64_t function, bool (*body)(void *argument, uint64_t call),
                       void *argument);

#pragma GCC visibility pop
