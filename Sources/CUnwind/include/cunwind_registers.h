// Registers of a snapshot, numbered as DWARF numbers them on each architecture.
#ifndef CUNWIND_REGISTERS_H
#define CUNWIND_REGISTERS_H

#if defined(__x86_64__)
// System V ABI, AMD64 supplement, figure 3.36.
#define CUNWIND_REGISTERS 17
#define CUNWIND_FRAME_POINTER 6
#define CUNWIND_STACK_POINTER 7
#define CUNWIND_PROGRAM_COUNTER 16
// Where Swift passes the context of an asynchronous function: R14.
#define CUNWIND_CONTEXT 14
#elif defined(__aarch64__)
// DWARF for the Arm 64-bit Architecture, 4.1; the program counter has libunwind's number.
#define CUNWIND_REGISTERS 33
#define CUNWIND_FRAME_POINTER 29
#define CUNWIND_LINK 30
#define CUNWIND_STACK_POINTER 31
#define CUNWIND_PROGRAM_COUNTER 32
// X22.
#define CUNWIND_CONTEXT 22
#else
// No stacks on this architecture: the numbers only make the rest compile.
#define CUNWIND_REGISTERS 3
#define CUNWIND_FRAME_POINTER 0
#define CUNWIND_STACK_POINTER 1
#define CUNWIND_PROGRAM_COUNTER 2
#endif

#endif
