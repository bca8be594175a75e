#define _GNU_SOURCE
#include "libunwind_table.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cunwind_unwind.h"

#if CUNWIND_HAS_STACKS

#include "unwinder.h"

struct libunwind_table libunwind;

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

static uintptr_t page_size(void) { return (uintptr_t)sysconf(_SC_PAGESIZE); }

// Whether the address lies in what the loader seals after relocation (PT_GNU_RELRO).
static bool is_sealed(const struct link_map *map, uintptr_t address) {
  const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)map->l_addr;
  const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(map->l_addr + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; i++) {
    if (segments[i].p_type != PT_GNU_RELRO) continue;
    uintptr_t start = map->l_addr + segments[i].p_vaddr;
    // The loader seals whole pages, and rounds the end down.
    if (address >= start && address < ((start + segments[i].p_memsz) & ~(page_size() - 1))) return true;
  }
  return false;
}

static int refuse_mincore(void *address, size_t length, unsigned char *pages) {
  (void)address, (void)length, (void)pages;
  errno = ENOSYS;
  return -1;
}

// Writes `target` over a reference, which is read-only where the library was linked with -z relro -z now. What was writable before stays so.
static bool redirect(const struct link_map *map, uintptr_t slot, uintptr_t target) {
  uintptr_t page = slot & ~(page_size() - 1);
  bool was_sealed = is_sealed(map, slot);
  if (was_sealed && mprotect((void *)page, page_size(), PROT_READ | PROT_WRITE) != 0) return false;
  memcpy((void *)slot, &target, sizeof target);
  if (was_sealed) mprotect((void *)page, page_size(), PROT_READ);
  return true;
}

// libunwind tries mincore(2) when it sets itself up, for the local API that is not used here. systemd's
// @system-service has no mincore, and a service with that filter would be killed. So libunwind's own references
// to it (and nobody else's) are led to a function that says "not available", before the first call into the
// library. A reference is a jump slot in the procedure linkage table, or, of code that was compiled with -fno-plt, a
// word of the global offset table (ELF gABI, "Relocation"). False if one cannot be led elsewhere.
static bool refuse_mincore_to(void *library) {
  struct link_map *map;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return false;
  struct {
    const ElfW(Rela) *first;
    size_t size;
  } tables[2] = {{NULL, 0}, {NULL, 0}};
  const ElfW(Sym) *symbols = NULL;
  const char *names = NULL;
  // The loader has already turned these addresses into absolute ones.
  for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_JMPREL) tables[0].first = (const ElfW(Rela) *)entry->d_un.d_ptr;
    if (entry->d_tag == DT_PLTRELSZ) tables[0].size = entry->d_un.d_val;
    if (entry->d_tag == DT_RELA) tables[1].first = (const ElfW(Rela) *)entry->d_un.d_ptr;
    if (entry->d_tag == DT_RELASZ) tables[1].size = entry->d_un.d_val;
    if (entry->d_tag == DT_SYMTAB) symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
    if (entry->d_tag == DT_STRTAB) names = (const char *)entry->d_un.d_ptr;
  }
  if (symbols == NULL || names == NULL) return false;
  for (int table = 0; table < 2; table++) {
    for (size_t i = 0; tables[table].first != NULL && i < tables[table].size / sizeof(ElfW(Rela)); i++) {
      const ElfW(Rela) *relocation = &tables[table].first[i];
      unsigned type = ELF64_R_TYPE(relocation->r_info);
      if (type != CUNWIND_JUMP_SLOT && type != CUNWIND_GLOBAL_WORD) continue;
      if (strcmp(names + symbols[ELF64_R_SYM(relocation->r_info)].st_name, "mincore") != 0) continue;
      if (!redirect(map, map->l_addr + relocation->r_offset, (uintptr_t)refuse_mincore)) return false;
    }
  }
  return true;
}

static void learn_cancellable(void) {
  void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD | RTLD_LOCAL);
  if (library == NULL) return;
  uint64_t pause = (uint64_t)(uintptr_t)dlsym(library, "pause");
  dlclose(library);
  if (pause != 0) cunwind_arch_learn_cancellable(&cunwind_own, pause);
}

static const char *open_libunwind(void) {
  void *library = dlopen(CUNWIND_LIBUNWIND, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    // Names the library that is missing, which may be one that libunwind needs.
    // A path may have 4096 bytes.
    static char problem[4096 + 256];
    const char *words = dlerror();
    snprintf(problem, sizeof problem, "%s (Debian package libunwind8)", words != NULL ? words : CUNWIND_LIBUNWIND);
    return problem;
  }
#define X(name)                                                                              \
  libunwind.name = (__typeof__(libunwind.name))dlsym(library, TEXT(UNW_OBJ(name)));           \
  if (libunwind.name == NULL) return CUNWIND_LIBUNWIND " lacks " TEXT(UNW_OBJ(name));
  LIBUNWIND_FUNCTIONS(X)
#undef X
  if (!refuse_mincore_to(library)) return CUNWIND_LIBUNWIND " calls mincore, and the call cannot be intercepted";
  libunwind.loaded = true;
  // Under a seccomp filter memory is read through /proc/self/mem alone.
  cunwind_memory_prepare();
  const char *problem = cunwind_learn_table_layout();
  cunwind_memory_finish();
  if (problem != NULL) {
    libunwind.loaded = false;
    return problem;
  }
  learn_cancellable();
  return NULL;
}

static const char *load_problem;

static void load(void) { load_problem = open_libunwind(); }

const char *cunwind_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return load_problem;
}

#endif
