// A libFuzzer target (`make fuzz`): ELF files and their debug information, whatever the bytes say.
//
// The input is a file. It is asked for addresses all over, with deadlines from none to generous.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "CSymbols.h"

static int memory = -1;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Every byte of an answer must be readable, and every string must end.
static size_t read_all(const struct csymbols_frame *frames, size_t count) {
  size_t sum = 0;
  if (count > CSYMBOLS_MAX_FRAMES) abort();
  for (size_t i = 0; i < count; i++) {
    const char *const texts[] = {frames[i].linkage_name, frames[i].name,      frames[i].file,
                                 frames[i].declared_in,  frames[i].unit_name, frames[i].unit_directory};
    for (size_t j = 0; j < sizeof texts / sizeof *texts; j++) sum += texts[j] != NULL ? strlen(texts[j]) : 0;
    if (frames[i].inlined != (i + 1 < count)) abort();
  }
  return sum;
}

static size_t ask(csymbols_module *module, uint64_t address, uint64_t budget) {
  static struct csymbols_frame frames[CSYMBOLS_MAX_FRAMES];
  size_t count = 0;
  uint64_t deadline = budget == 0 ? 0 : now_ns() + budget;
  (void)csymbols_lookup(module, address, deadline, frames, &count);
  size_t sum = read_all(frames, count);
  for (size_t i = 0; i < count; i++) {
    const char *name = csymbols_qualified_name(module, &frames[i], deadline);
    sum += name != NULL ? strlen(name) : 0;
  }
  return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static char path[64];
  if (memory < 0) {
    if (csymbols_load() != 0) abort();
    memory = memfd_create("symbols", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  }
  if (ftruncate(memory, 0) != 0 || pwrite(memory, bytes, length, 0) != (ssize_t)length) abort();
  struct csymbols_identity identity;
  if (!csymbols_identify(path, &identity)) return 0;
  struct csymbols_source source = {
      .path = path,
      .build_id = identity.build_id,
      .build_id_length = identity.build_id_length,
      .not_changed_after = UINT64_MAX,
  };
  const char *problem = NULL;
  csymbols_module *module = csymbols_open(&source, &problem);
  if (module == NULL) return 0;
  size_t sum = ask(module, 0x1000, 0);
  // The seeds' code lies in the first pages.
  for (uint64_t address = 0; address < 0x4000; address += 0x25) sum += ask(module, address, 1000000000);
  // One that the seeds lack, and one that they have.
  const char *const names[] = {"swift_retain", "outer"};
  bool defines = false;
  for (size_t i = 0; i < 2; i++) (void)csymbols_defines(module, names + i, 1, now_ns() + 1000000000, &defines);
  csymbols_trim(module);
  sum += ask(module, 0x1010, 1000000000);
  sum += ask(module, UINT64_MAX, 1000000000);
  if (sum == SIZE_MAX) abort();
  csymbols_close(module);
  return 0;
}
