// Which module of the own process holds an address: by glibc's `_dl_find_object` (that of 2.36 and later), or else by a copy of the loader's list.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "modules.h"

// `struct dl_find_object` of dlfcn.h, which older headers lack, and space for what later versions add.
struct found_object {
  unsigned long long flags;
  void *start, *end, *link_map, *eh_frame_header;
  unsigned long long reserved[16];
};

// Looked up by name: a reference, even a weak one, makes the program need GLIBC_2.35.
static struct {
  int (*find_object)(void *address, struct found_object *object);
  const struct r_debug *list;
} loader;
static pthread_once_t looked_up = PTHREAD_ONCE_INIT;
static _Atomic bool uses_list;

static void look_up(void) {
  const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
  // That of 2.35 takes what lies between the loader's segments for the loader's; on aarch64 it is the vDSO.
  if (version == NULL || strcmp(version(), "2.35") != 0)
    loader.find_object = (int (*)(void *, struct found_object *))dlsym(RTLD_DEFAULT, "_dl_find_object");
  loader.list = dlsym(RTLD_DEFAULT, "_r_debug");
  if (loader.find_object == NULL) atomic_store(&uses_list, true);
}

void cunwind_use_module_list(bool use) {
  pthread_once(&looked_up, look_up);
  atomic_store(&uses_list, use || loader.find_object == NULL);
}

// -- The loader's list

// A module of the list, with what the list said of it.
struct listed {
  uint64_t link_map;
  struct link_map said;
  struct cunwind_mapping mapping;
  // Its program headers if others may lie between its segments, or 0.
  uint64_t headers;
  size_t segments;
};

// Modules beyond these have no unwind tables.
#define LISTED_MAX 512u
static struct {
  // The process that uses the copy, or 0. In the child of a fork the parent's thread is gone.
  _Atomic pid_t user;
  unsigned count;
  struct listed modules[LISTED_MAX];
} listed;

static void begin_use(void) {
  pid_t own = getpid();
  for (;;) {
    pid_t user = 0;
    if (atomic_compare_exchange_strong(&listed.user, &user, own)) return;
    if (user != own && atomic_compare_exchange_strong(&listed.user, &user, own)) {
      listed.count = 0;
      return;
    }
    sched_yield();
  }
}

static void end_use(void) { atomic_store(&listed.user, 0); }

static bool read_headers(uint64_t headers, size_t count, ElfW(Phdr) segments[CUNWIND_SEGMENTS_MAX]) {
  return count > 0 && count <= CUNWIND_SEGMENTS_MAX && cunwind_read_exactly(&cunwind_own, headers, segments, count * sizeof *segments);
}

// Reads where a module lies from its program headers. False unless they lead to the list's own dynamic section.
static bool read_segments(uint64_t headers, size_t count, struct listed *module) {
  ElfW(Phdr) segments[CUNWIND_SEGMENTS_MAX];
  const struct link_map *said = &module->said;
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = UINT64_MAX, end = 0, header = 0;
  bool is_same = false, has_gaps = false;
  if (!read_headers(headers, count, segments)) return false;
  for (size_t i = 0; i < count; i++) {
    uint64_t at = said->l_addr + segments[i].p_vaddr;
    switch (segments[i].p_type) {
      case PT_LOAD:
        has_gaps |= end != 0 && (at & ~(page - 1)) > ((end + page - 1) & ~(page - 1));
        if ((at & ~(page - 1)) < start) start = at & ~(page - 1);
        if (at + segments[i].p_memsz > end) end = at + segments[i].p_memsz;
        break;
      case PT_GNU_EH_FRAME: header = at; break;
      case PT_DYNAMIC: is_same = at == (uint64_t)(uintptr_t)said->l_ld; break;
    }
  }
  if (!is_same || start >= end) return false;
  module->mapping.start = start;
  module->mapping.end = end;
  module->mapping.eh_frame_header = header;
  // The loader keeps the gaps of what it loads. The kernel keeps none, and puts the vDSO into the loader's.
  if (has_gaps && (headers == getauxval(AT_PHDR) || start == getauxval(AT_BASE))) {
    module->headers = headers;
    module->segments = count;
  }
  return true;
}

static bool read_module(struct listed *module) {
  ElfW(Ehdr) header;
  uint64_t base;
  if (cunwind_find_header(&cunwind_own, module->said.l_addr, 0, &header, &base))
    return read_segments(base + header.e_phoff, header.e_phnum, module);
  // An executable at a fixed address.
  return read_segments(getauxval(AT_PHDR), getauxval(AT_PHNUM), module);
}

// The list is read as foreign memory and without the loader's lock, which a stalled thread may hold inside dlopen. A
// module that is being added or removed is found or not.
static void read_list(void) {
  struct r_debug list;
  unsigned count = 0;
  if (loader.list == NULL || !cunwind_read_exactly(&cunwind_own, (uint64_t)(uintptr_t)loader.list, &list, sizeof list)) return;
  uint64_t at = (uint64_t)(uintptr_t)list.r_map;
  for (unsigned i = 0; at != 0 && i < 2 * LISTED_MAX && count < LISTED_MAX; i++) {
    struct link_map said;
    if (!cunwind_read_exactly(&cunwind_own, at, &said, sizeof said)) break;
    struct listed *module = &listed.modules[count];
    if (count >= listed.count || module->link_map != at || memcmp(&module->said, &said, sizeof said) != 0) {
      *module = (struct listed){.link_map = at, .said = said};
      if (!read_module(module)) module->mapping = (struct cunwind_mapping){0};
      module->mapping.identity = at;
    }
    count++;
    at = (uint64_t)(uintptr_t)said.l_next;
  }
  listed.count = count;
}

// Reads the loader's list again where `_dl_find_object` is missing; all of it if `forgets`.
void cunwind_own_refresh(cunwind_process *process, bool forgets) {
  (void)process;
  pthread_once(&looked_up, look_up);
  if (!atomic_load(&uses_list)) return;
  begin_use();
  if (forgets) listed.count = 0;
  read_list();
  end_use();
}

// Whether `address` lies in the module. Between segments with gaps, the range is that of one, as `_dl_find_object` has it.
static bool holds(const struct listed *module, uint64_t address, struct cunwind_mapping *mapping) {
  ElfW(Phdr) segments[CUNWIND_SEGMENTS_MAX];
  *mapping = module->mapping;
  if (address < mapping->start || address >= mapping->end) return false;
  if (module->headers == 0) return true;
  if (!read_headers(module->headers, module->segments, segments)) return false;
  for (size_t i = 0; i < module->segments; i++) {
    uint64_t start = module->said.l_addr + segments[i].p_vaddr;
    if (segments[i].p_type != PT_LOAD || address < start || address - start >= segments[i].p_memsz) continue;
    mapping->start = start;
    mapping->end = start + segments[i].p_memsz;
    return true;
  }
  return false;
}

static bool find_listed(uint64_t address, struct cunwind_mapping *mapping) {
  bool found = false;
  begin_use();
  if (listed.count == 0) read_list();
  for (unsigned i = 0; i < listed.count && !found; i++) found = holds(&listed.modules[i], address, mapping);
  end_use();
  return found;
}

// Without the loader's lock; but the first call looks up symbols, which takes that lock.
bool cunwind_own_find_mapping(const cunwind_process *process, uint64_t address, struct cunwind_mapping *mapping) {
  (void)process;
  pthread_once(&looked_up, look_up);
  if (atomic_load_explicit(&uses_list, memory_order_relaxed)) return find_listed(address, mapping);
  struct found_object object;
  if (loader.find_object((void *)(uintptr_t)address, &object) != 0) return false;
  mapping->start = (uint64_t)(uintptr_t)object.start;
  mapping->end = (uint64_t)(uintptr_t)object.end;
  mapping->eh_frame_header = (uint64_t)(uintptr_t)object.eh_frame_header;
  mapping->identity = (uint64_t)(uintptr_t)object.link_map;
  return true;
}

bool cunwind_own_describe(const cunwind_process *process, const struct cunwind_mapping *mapping, cunwind_module *module) {
  // The link map may be freed by a dlclose at any moment, so it is read as foreign memory.
  struct link_map map;
  if (!cunwind_read_exactly(process, mapping->identity, &map, sizeof map)) return false;
  module->load_bias = map.l_addr;
  size_t length = cunwind_read(process, (uint64_t)(uintptr_t)map.l_name, module->path, CUNWIND_PATH_MAX - 1);
  module->path[length] = 0;
  return true;
}

static struct cunwind_image image_of(const cunwind_process *process, uint64_t at, const struct link_map *map) {
  struct cunwind_image image = {.identity = at, .load_bias = map->l_addr, .dynamic = (uint64_t)(uintptr_t)map->l_ld};
  ElfW(Ehdr) header;
  uint64_t base;
  if (cunwind_find_header(process, map->l_addr, 0, &header, &base)) {
    image.headers = base + header.e_phoff;
    image.header_count = header.e_phnum;
  } else if (map->l_addr == 0) {
    // An executable at a fixed address.
    image.headers = getauxval(AT_PHDR);
    image.header_count = getauxval(AT_PHNUM);
  }
  return image;
}

// The list is read as foreign memory, because another thread may change it.
bool cunwind_own_each_image(const cunwind_process *process, const struct cunwind_mapping *near,
                            bool (*body)(void *argument, const struct cunwind_image *image), void *argument) {
  uint64_t at = near->identity;
  struct link_map map;
  for (unsigned i = 0; i < LISTED_MAX && cunwind_read_exactly(process, at, &map, sizeof map) && map.l_prev != NULL; i++)
    at = (uint64_t)(uintptr_t)map.l_prev;
  for (unsigned i = 0; at != 0 && i < LISTED_MAX; i++) {
    if (!cunwind_read_exactly(process, at, &map, sizeof map)) return false;
    struct cunwind_image image = image_of(process, at, &map);
    if (!body(argument, &image)) return true;
    at = (uint64_t)(uintptr_t)map.l_next;
  }
  return at == 0;
}
