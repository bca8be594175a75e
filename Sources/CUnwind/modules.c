// The module that holds an address: where it lies, its build ID, and where its functions begin.
#define _GNU_SOURCE
#include "modules.h"

#include <elf.h>
#include <link.h>
#include <string.h>


bool cunwind_find_header(const cunwind_process *process, uint64_t load_bias, uint64_t start, ElfW(Ehdr) *header,
                         uint64_t *base) {
  // The range is that of one segment where segments are not next to each other, as those of 64 KiB are.
  const uint64_t places[] = {load_bias, start};
  for (size_t i = 0; i < 2; i++) {
    *base = places[i];
    if (*base != 0 && cunwind_read_exactly(process, *base, header, sizeof *header) &&
        memcmp(header->e_ident, ELFMAG, SELFMAG) == 0)
      return header->e_phentsize == sizeof(ElfW(Phdr));
  }
  return false;
}

// GNU build ID: the note of type NT_GNU_BUILD_ID with the name "GNU" in a PT_NOTE segment (ELF gABI, "Note Section").
static void read_build_id(const cunwind_process *process, cunwind_module *module) {
  module->build_id_length = 0;
  ElfW(Ehdr) header;
  uint64_t base;
  if (!cunwind_find_header(process, module->load_bias, module->start, &header, &base)) return;
  for (unsigned i = 0; i < header.e_phnum && i < 64; i++) {
    ElfW(Phdr) segment;
    uint64_t at = base + header.e_phoff + i * sizeof segment;
    if (!cunwind_read_exactly(process, at, &segment, sizeof segment)) return;
    if (segment.p_type != PT_NOTE) continue;
    uint64_t note = module->load_bias + segment.p_vaddr, end = note + segment.p_memsz;
    for (unsigned n = 0; n < 32 && note + sizeof(ElfW(Nhdr)) <= end; n++) {
      ElfW(Nhdr) entry;
      if (!cunwind_read_exactly(process, note, &entry, sizeof entry)) break;
      uint64_t name = note + sizeof entry, body = name + ((entry.n_namesz + 3u) & ~3u);
      char owner[4];
      if (entry.n_type == NT_GNU_BUILD_ID && entry.n_namesz == 4 && entry.n_descsz <= CUNWIND_BUILD_ID_MAX &&
          cunwind_read_exactly(process, name, owner, 4) && memcmp(owner, "GNU", 4) == 0 &&
          cunwind_read_exactly(process, body, module->build_id, entry.n_descsz)) {
        module->build_id_length = entry.n_descsz;
        return;
      }
      note = body + (((uint64_t)entry.n_descsz + 3u) & ~3ull);
    }
  }
}

bool cunwind_find_module(cunwind_process *process, uint64_t address, cunwind_module *module) {
  struct cunwind_mapping mapping;
  if (!cunwind_find_mapping(process, address, &mapping)) {
    // It may have been loaded since the last refresh.
    process->access->refresh(process, false);
    if (!cunwind_find_mapping(process, address, &mapping)) return false;
  }
  module->start = mapping.start;
  module->end = mapping.end;
  if (!process->access->describe(process, &mapping, module)) return false;
  read_build_id(process, module);
  return true;
}

bool cunwind_parse_table_header(const unsigned char header[CUNWIND_TABLE_HEADER], uint32_t *count) {
  static const unsigned char expected[4] = {0x01, 0x1b, 0x03, 0x3b};
  memcpy(count, header + 8, sizeof *count);
  return memcmp(header, expected, sizeof expected) == 0;
}

uint64_t cunwind_search_functions(const cunwind_process *process, uint64_t address, cunwind_reader read, void *context) {
  struct cunwind_mapping mapping;
  unsigned char bytes[CUNWIND_TABLE_HEADER];
  uint32_t low = 0, high;
  if (!cunwind_find_mapping(process, address, &mapping) || mapping.eh_frame_header == 0) return 0;
  uint64_t header = mapping.eh_frame_header;
  if (!read(context, header, bytes, sizeof bytes) || !cunwind_parse_table_header(bytes, &high)) return 0;
  uint64_t found = 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    int32_t start;
    if (!read(context, header + CUNWIND_TABLE_HEADER + 8 * (uint64_t)middle, &start, sizeof start)) return 0;
    uint64_t begin = header + (uint64_t)(int64_t)start;
    if (begin <= address) {
      found = begin;
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return found;
}

static bool read_now(void *context, uint64_t address, void *to, size_t length) {
  return cunwind_read_exactly(context, address, to, length);
}

uint64_t cunwind_function_start(const cunwind_process *process, uint64_t address) {
  // `read_now` only reads it.
  return cunwind_search_functions(process, address, read_now, (void *)process);
}
