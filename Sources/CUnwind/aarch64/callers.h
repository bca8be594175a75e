// The calls of a function in all modules of the process, and which of them a thread can have made.
#pragma once

#include "code.h"

#pragma GCC visibility push(hidden)

// How many times longer searches may take than on a real processor: for tests on an emulated one.
#ifndef CUNWIND_PATIENCE
#define CUNWIND_PATIENCE 1u
#endif

// What a function was given in registers, as far as it is known.
#define CUNWIND_ARGUMENT_REGISTERS 8u
struct cunwind_arguments {
  uint64_t function;
  uint64_t value[CUNWIND_ARGUMENT_REGISTERS];
  uint32_t known;
};

// Finds out what the function at `start` was given, by its system call that ends at `call_end` and the snapshot.
void cunwind_entry_arguments(cunwind_unwinder *u, uint64_t start, uint64_t call_end,
                             struct cunwind_arguments *arguments);

// Whether the function from `start` to `end` can have passed these arguments with the branch at `call`, a call or a jump as
// its last action; it can if that leads there by another function. `sp` is 0 for a jump, which has a frame no more.
bool cunwind_arguments_fit(cunwind_unwinder *u, const struct cunwind_arguments *arguments, uint64_t start, uint64_t end,
                           uint64_t call, uint64_t sp, uint64_t frame_pointer);

// How far a function is taken to continue behind a call in it, where that is not known.
#define CUNWIND_REST_OF_FUNCTION 4096u

// Passes each call of the function that has these arguments to `body`, also those of a function that jumps to it as its last
// action and can pass them, until `body` returns false. @return false if not all code could be searched.
bool cunwind_each_call(cunwind_unwinder *u, const struct cunwind_arguments *arguments,
                       bool (*body)(void *argument, uint64_t call), void *argument);

#pragma GCC visibility pop
