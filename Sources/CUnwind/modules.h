// Where modules and their unwind tables lie.
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "process_internal.h"

// Program headers that are read of a module.
#define CUNWIND_SEGMENTS_MAX 64u

// The header's bytes in front of its binary search table, which has entries of 8 bytes: a function's beginning and its
// description, both relative to the header.
#define CUNWIND_TABLE_HEADER 12u

#pragma GCC visibility push(hidden)

// Reads a module's ELF header, which lies at its load bias, or at the beginning of the range if that is 0 or another place.
bool cunwind_find_header(const cunwind_process *process, uint64_t load_bias, uint64_t start, ElfW(Ehdr) *header,
                         uint64_t *base);

// Reads how many entries the table of an .eh_frame_hdr has (Linux Standard Base, "Exception Frames"). False
// unless it is version 1, with pointers encoded as 1b (pc-relative sdata4), the count as 03 (udata4) and the table as 3b
// (data-relative sdata4), which is what linkers write.
bool cunwind_parse_table_header(const unsigned char header[CUNWIND_TABLE_HEADER], uint32_t *count);

// Reads `length` bytes; false if they cannot all be read.
typedef bool (*cunwind_reader)(void *context, uint64_t address, void *to, size_t length);
// `cunwind_function_start`, with the module's table read by `read`.
uint64_t cunwind_search_functions(const cunwind_process *process, uint64_t address, cunwind_reader read, void *context);

#pragma GCC visibility pop
