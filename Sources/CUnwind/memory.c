#define _GNU_SOURCE
#include "cunwind_memory.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

// process_vm_readv on ourselves: the kernel checks each page, so a page that another thread unmaps is an error code
// and not a fault. A read that crosses into an unreadable page stops at the page before it.
size_t cunwind_read(uint64_t address, void *buffer, size_t length) {
  size_t done = 0;
  while (done < length) {
    // One iovec is all or nothing up to the failing page; whole-range first, then page by page near the edge.
    struct iovec local = {(char *)buffer + done, length - done};
    struct iovec remote = {(void *)(uintptr_t)(address + done), length - done};
    ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (n <= 0) break;
    done += (size_t)n;
  }
  return done;
}

static bool read_exactly(uint64_t address, void *buffer, size_t length) {
  return cunwind_read(address, buffer, length) == length;
}

// GNU build id: the note of type NT_GNU_BUILD_ID with the name "GNU" in a PT_NOTE segment (ELF gABI, "Note Section").
static void read_build_id(const cunwind_module *found, cunwind_module *module) {
  module->build_id_length = 0;
  ElfW(Ehdr) header;
  if (!read_exactly(found->start, &header, sizeof header)) return;
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr))) return;
  for (unsigned i = 0; i < header.e_phnum && i < 64; i++) {
    ElfW(Phdr) segment;
    uint64_t at = found->start + header.e_phoff + i * sizeof segment;
    if (!read_exactly(at, &segment, sizeof segment)) return;
    if (segment.p_type != PT_NOTE) continue;
    uint64_t note = found->load_bias + segment.p_vaddr, end = note + segment.p_memsz;
    for (unsigned n = 0; n < 32 && note + sizeof(ElfW(Nhdr)) <= end; n++) {
      ElfW(Nhdr) entry;
      if (!read_exactly(note, &entry, sizeof entry)) break;
      uint64_t name = note + sizeof entry, body = name + ((entry.n_namesz + 3u) & ~3u);
      char owner[4];
      if (entry.n_type == NT_GNU_BUILD_ID && entry.n_namesz == 4 && entry.n_descsz <= CUNWIND_BUILD_ID_MAX &&
          read_exactly(name, owner, 4) && memcmp(owner, "GNU", 4) == 0 &&
          read_exactly(body, module->build_id, entry.n_descsz)) {
        module->build_id_length = entry.n_descsz;
        return;
      }
      note = body + (((uint64_t)entry.n_descsz + 3u) & ~3ull);
    }
  }
}

bool cunwind_find_module(uint64_t address, cunwind_module *module) {
  struct dl_find_object object;
  if (_dl_find_object((void *)(uintptr_t)address, &object) != 0) return false;
  module->start = (uint64_t)(uintptr_t)object.dlfo_map_start;
  module->end = (uint64_t)(uintptr_t)object.dlfo_map_end;
  module->eh_frame_header = (uint64_t)(uintptr_t)object.dlfo_eh_frame;
  // The link map may be freed by a dlclose at any moment, so it is read as foreign memory.
  struct link_map map;
  if (!read_exactly((uint64_t)(uintptr_t)object.dlfo_link_map, &map, sizeof map)) return false;
  module->load_bias = map.l_addr;
  size_t length = cunwind_read((uint64_t)(uintptr_t)map.l_name, module->path, CUNWIND_PATH_MAX - 1);
  module->path[length] = 0;
  read_build_id(module, module);
  return true;
}
