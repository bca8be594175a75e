// The own process's handle, and what all handles have in common.
#define _GNU_SOURCE
#include "process_internal.h"

#include "snapshot_internal.h"

static const struct cunwind_access own_access = {
    .read = cunwind_own_read,
    .find_mapping = cunwind_own_find_mapping,
    .describe = cunwind_own_describe,
    .refresh = cunwind_own_refresh,
    .each_image = cunwind_own_each_image,
};

struct cunwind_process cunwind_own = {.access = &own_access, .stack_copy = cunwind_stack_copy};

cunwind_process *cunwind_own_process(void) { return &cunwind_own; }

size_t cunwind_read(const cunwind_process *process, uint64_t address, void *buffer, size_t length) {
  return process->access->read(process, address, buffer, length);
}
