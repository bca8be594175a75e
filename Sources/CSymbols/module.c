// A module: which files speak for it, and the look-up over its symbol table and debug information.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#if CSYMBOLS_HAS_LIBDW

static bool has_dwarf(struct image *image) {
  return csymbols_section(image, ".debug_info", ".zdebug_info") != 0;
}

static bool has_symtab(struct image *image) {
  return csymbols_section(image, ".symtab", NULL) != 0;
}

// Joins up to five parts. False if the result does not fit: a path that is cut is another file's.
static bool join(char *path, const char *const parts[5]) {
  size_t length = 0;
  for (size_t i = 0; i < 5 && parts[i] != NULL; i++) {
    size_t part = strlen(parts[i]);
    if (length + part >= PATH_MAX) return false;
    memcpy(path + length, parts[i], part);
    length += part;
  }
  path[length] = 0;
  return true;
}

static bool open_by_build_id(
    struct image *image, const struct csymbols_source *source, const char *root, const uint8_t *id, size_t length) {
  static const char digits[] = "0123456789abcdef";
  char first[3] = {0}, rest[2 * 64 + 1] = {0}, path[PATH_MAX];
  if (length < 2 || length > 64) return false;
  for (size_t i = 0; i < length; i++) {
    char *to = i == 0 ? first : rest + 2 * (i - 1);
    to[0] = digits[id[i] >> 4];
    to[1] = digits[id[i] & 15];
  }
  struct csymbols_source wanted = *source;
  wanted.build_id = id;
  wanted.build_id_length = length;
  if (!join(path, (const char *const[5]){"/.build-id/", first, "/", rest})) return false;
  size_t end = strlen(path);
  if (end + sizeof ".debug" > sizeof path) return false;
  memcpy(path + end, ".debug", sizeof ".debug");
  return csymbols_image_open(image, &wanted, root, path);
}

// Looks for a separate debug file in the directory of `file`, which it cuts off.
static bool open_beside(
    csymbols_module *module, const struct csymbols_source *source, const char *root, const char *name,
    char *file) {
  char *slash = strrchr(file, '/'), path[PATH_MAX];
  if (slash == NULL) return false;
  *slash = 0;
  const char *const candidates[3][5] = {{file, "/", name}, {file, "/.debug/", name}, {file, "/", name}};
  for (size_t i = 0; i < 3; i++) {
    const char *below = i == 2 ? root : NULL;
    if (join(path, candidates[i]) && csymbols_image_open(&module->debug, source, below, path)) return true;
  }
  return false;
}

// .gnu_debuglink: a file name, looked for beside the module, in .debug/ and under the debug root. The checksum that the
// section carries is not used: the build ID says the same without reading the whole file.
static bool open_by_link(
    csymbols_module *module, const struct csymbols_source *source, const char *root) {
  GElf_Word checksum;
  if (source->build_id_length == 0 || source->path == NULL || module->file.elf == NULL) return false;
  csymbols_image_need_section(&module->file, csymbols_section(&module->file, ".gnu_debuglink", NULL));
  const char *name = csymbols_libdw()->dwelf_elf_gnu_debuglink(module->file.elf, &checksum);
  if (name == NULL || name[0] == 0 || strchr(name, '/') != NULL) return false;
  // Beside the file itself; where the module is reached through a symbolic link, beside that as well, unless the path is a
  // client's.
  char file[PATH_MAX];
  bool is_real = csymbols_image_real_path(&module->file, file);
  bool is_link = !source->is_strict && (!is_real || strcmp(file, source->path) != 0);
  if (is_real && open_beside(module, source, root, name, file)) return true;
  const char *const given[5] = {source->path};
  return is_link && join(file, given) && open_beside(module, source, root, name, file);
}

csymbols_module *csymbols_open(const struct csymbols_source *source, const char **problem) {
  *problem = csymbols_problem();
  csymbols_module *module = *problem == NULL ? calloc(1, sizeof *module) : NULL;
  if (module == NULL) {
    if (*problem == NULL) *problem = "out of memory";
    if (source->is_strict && source->descriptor >= 0) close(source->descriptor);
    return NULL;
  }
  module->is_strict = source->is_strict;
  module->budget = source->budget;
  bool found = !source->is_strict ? csymbols_image_open(&module->file, source, NULL, source->path)
      : source->descriptor >= 0
          && csymbols_image_open_descriptor(&module->file, source, source->descriptor, source->path);
  bool has_file = found, is_complete = found && has_dwarf(&module->file) && has_symtab(&module->file);
  for (size_t i = 0; !is_complete && i < source->debug_root_count && module->debug.elf == NULL; i++) {
    const char *root = source->debug_roots[i];
    if (open_by_build_id(&module->debug, source, root, source->build_id, source->build_id_length)
        || (has_file && open_by_link(module, source, root))) {
      found = true;
    }
  }
  csymbols_image_rest(&module->file);
  if (!found) {
    free(module);
    *problem = "no file with this build ID";
    return NULL;
  }
  return module;
}

csymbols_module *csymbols_open_image(const void *base, size_t length, const char **problem) {
  *problem = csymbols_problem();
  if (*problem != NULL) return NULL;
  csymbols_module *module = calloc(1, sizeof *module);
  if (module == NULL || !csymbols_image_borrow(&module->file, base, length)) {
    free(module);
    *problem = "not an ELF image of this machine";
    return NULL;
  }
  return module;
}

// Whether each page of an area can be read; `start` begins one.
//
// rt_sigprocmask(2) reads the set before it refuses the operation. No filter of system calls forbids it, as it might others.
static bool is_readable(const char *start, size_t length) {
  if (length > 1 << 20) return false;
  for (size_t at = 0; at < length; at += 4096)
    if (syscall(SYS_rt_sigprocmask, -1L, start + at, NULL, 8L) == 0 || errno != EINVAL) return false;
  return true;
}

const void *csymbols_vdso(size_t *length) {
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
  *length = 0;
  if (header == NULL || header->e_phentsize != sizeof(Elf64_Phdr)) return NULL;
  const Elf64_Phdr *segments = (const Elf64_Phdr *)((const char *)header + header->e_phoff);
  for (size_t i = 0; i < header->e_phnum && i < 16; i++) {
    if (segments[i].p_type != PT_LOAD) continue;
    size_t end = (size_t)(segments[i].p_offset + segments[i].p_filesz);
    if (end > *length) *length = end;
  }
  // The kernel maps the whole file: the section headers lie behind the segment, often in another page.
  size_t end = (size_t)header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
  if (*length != 0 && end > *length && is_readable((const char *)header, end)) *length = end;
  return *length != 0 ? header : NULL;
}

static bool identify(struct image *image, struct csymbols_identity *identity);

bool csymbols_identify(const char *path, struct csymbols_identity *identity) {
  struct image image = {0};
  memset(identity, 0, sizeof *identity);
  return csymbols_libdw() != NULL && csymbols_image_open(&image, NULL, NULL, path) && identify(&image, identity);
}

bool csymbols_identify_descriptor(int descriptor, struct csymbols_identity *identity) {
  struct image image = {0};
  memset(identity, 0, sizeof *identity);
  int copy = csymbols_libdw() != NULL ? fcntl(descriptor, F_DUPFD_CLOEXEC, 3) : -1;
  return copy >= 0 && csymbols_image_open_descriptor(&image, NULL, copy, "") && identify(&image, identity);
}

static bool identify(struct image *opened, struct csymbols_identity *identity) {
  struct image image = *opened;
  const void *id = NULL;
  ssize_t length = csymbols_libdw()->dwelf_elf_gnu_build_id(image.elf, &id);
  if (length > 0 && (size_t)length <= sizeof identity->build_id) {
    memcpy(identity->build_id, id, (size_t)length);
    identity->build_id_length = (size_t)length;
  }
  identity->has_symtab = has_symtab(&image);
  identity->has_dwarf = has_dwarf(&image);
  csymbols_image_close(&image);
  return true;
}

bool csymbols_changed(const csymbols_module *module) {
  return csymbols_image_changed(&module->file) || csymbols_image_changed(&module->debug)
      || csymbols_image_changed(&module->shared);
}

void csymbols_trim(csymbols_module *module) {
  bool poisoned = module->info.poisoned;
  csymbols_dwarf_free(module);
  if (poisoned) return;
  csymbols_image_close(&module->shared);
  csymbols_image_repack(&module->file);
  csymbols_image_repack(&module->debug);
}

void csymbols_close(csymbols_module *module) {
  if (module == NULL) return;
  bool poisoned = module->info.poisoned;
  csymbols_dwarf_free(module);
  csymbols_table_free(&module->symbols);
  csymbols_table_free(&module->mini_symbols);
  if (!poisoned) {
    csymbols_image_close(&module->mini);
    csymbols_image_close(&module->shared);
    csymbols_image_close(&module->debug);
    csymbols_image_close(&module->file);
  }
  free(module);
}

// .symtab of the separate debug file or of the module; else .dynsym, and what .gnu_debugdata adds to it.
// False if the deadline has passed and they are yet to be built.
static bool build_tables(csymbols_module *module, uint64_t deadline) {
  struct symbol_table *symbols = &module->symbols;
  if (symbols->built) return true;
  if (csymbols_now() >= deadline) return false;
  symbols->built = true;
  if (csymbols_table_build(symbols, &module->file, SHT_SYMTAB)) return true;
  if (csymbols_table_build(symbols, &module->debug, SHT_SYMTAB)) return true;
  csymbols_table_build(symbols, &module->file, SHT_DYNSYM);
  csymbols_mini_open(&module->mini, &module->file);
  csymbols_table_build(&module->mini_symbols, &module->mini, SHT_SYMTAB);
  return true;
}

// Ends the reading of a look-up. False if a file is not what it was any more: the answer may be of two builds.
static bool end_reading(csymbols_module *module) {
  struct image *const images[] = {&module->file, &module->debug, &module->shared};
  bool good = true;
  for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
    if (images[i]->is_open && csymbols_image_changed(images[i])) images[i]->broken = true;
    csymbols_image_rest(images[i]);
    if (images[i]->broken) good = false;
  }
  return good;
}

// Whether Swift's optimizer merged functions of the same code into this one: its mangling ends in "Tm".
static bool is_merged(const char *symbol) {
  if (strncmp(symbol, "$s", 2) != 0 && strncmp(symbol, "$e", 2) != 0) return false;
  // Behind a dot there is what LLVM made of it, before it was merged or after.
  size_t length = strlen(symbol), plain = strcspn(symbol, ".");
  return plain > 4 && (memcmp(symbol + length - 2, "Tm", 2) == 0 || memcmp(symbol + plain - 2, "Tm", 2) == 0);
}

static enum csymbols_status look_up(
    csymbols_module *module, uint64_t address, uint64_t deadline, struct csymbols_frame *frames,
    size_t *count) {
  *count = 0;
  if (!build_tables(module, deadline)) return CSYMBOLS_INCOMPLETE;
  uint64_t start = 0;
  const char *symbol = csymbols_table_find(&module->symbols, address, &start);
  if (symbol == NULL) symbol = csymbols_table_find(&module->mini_symbols, address, &start);
  enum csymbols_status status = csymbols_dwarf_lookup(module, address, start, deadline, frames, count);
  if (*count == 0) {
    if (symbol == NULL) return status;
    frames[0] = (struct csymbols_frame){0};
    *count = 1;
  }
  struct csymbols_frame *physical = &frames[*count - 1];
  // Swift's optimizer gives the first function's debug information to the common code, calls that were inlined included.
  if (symbol != NULL && is_merged(symbol)) {
    for (size_t i = 0; i < *count; i++) frames[i].merged = true;
  }
  if (symbol != NULL && !physical->described && strchr(symbol, '.') != NULL) {
    // It may be a part of the function, and its first line that of a call that was inlined there.
    physical->file = physical->declared_in = NULL;
    physical->line = 0;
  }
  if (physical->linkage_name == NULL && symbol != NULL) {
    // C has no linkage names in DWARF: its own name is better than the symbol's `name.constprop.0`.
    bool mangled = strncmp(symbol, "_Z", 2) == 0 || strncmp(symbol, "$s", 2) == 0;
    if (physical->name == NULL || mangled) physical->linkage_name = symbol;
    // GCC marks it as made by the compiler, although it is the coroutine's code.
    if (csymbols_is_coroutine_part(symbol)) physical->artificial = false;
    const char *dot = mangled || physical->name != NULL ? NULL : strchr(symbol, '.');
    size_t length = dot != NULL ? (size_t)(dot - symbol) : 0;
    physical->is_copy =
        csymbols_table_has(&module->symbols, symbol, length) || csymbols_table_has(&module->mini_symbols, symbol, length);
  }
  return status;
}

enum csymbols_status csymbols_lookup(
    csymbols_module *module, uint64_t address, uint64_t deadline,
    struct csymbols_frame frames[CSYMBOLS_MAX_FRAMES], size_t *count) {
  enum csymbols_status status = look_up(module, address, deadline, frames, count);
  if (end_reading(module)) return status;
  *count = 0;
  return CSYMBOLS_COMPLETE;
}

enum csymbols_status csymbols_defines(
    csymbols_module *module, const char *const *names, size_t count, uint64_t deadline, bool *defines) {
  *defines = false;
  if (!build_tables(module, deadline)) return CSYMBOLS_INCOMPLETE;
  for (size_t i = 0; i < count && !*defines; i++) {
    *defines = csymbols_table_defines(&module->symbols, names[i], deadline)
        || csymbols_table_defines(&module->mini_symbols, names[i], deadline);
  }
  bool cut = !*defines && csymbols_now() >= deadline;
  if (!end_reading(module)) *defines = false;
  return cut ? CSYMBOLS_INCOMPLETE : CSYMBOLS_COMPLETE;
}

const char *csymbols_qualified_name(
    csymbols_module *module, const struct csymbols_frame *frame, uint64_t deadline) {
  const char *name = csymbols_dwarf_qualified(module, frame, deadline);
  return end_reading(module) ? name : NULL;
}

size_t csymbols_bytes(const csymbols_module *module) {
  const struct debug_info *info = &module->info;
  size_t bytes = sizeof *module + (module->symbols.count + module->mini_symbols.count) * sizeof(struct symbol);
  bytes += info->unit_capacity * sizeof(struct unit) + info->range_capacity * sizeof(struct unit_range);
  for (size_t i = 0; i < info->unit_count; i++) bytes += info->units[i].capacity * sizeof(struct function);
  if (module->mini.kind == IMAGE_HEAP) bytes += module->mini.length;
  bytes += module->file.filled_bytes + module->debug.filled_bytes + module->shared.filled_bytes;
  return bytes + info->library_bytes;
}

struct csymbols_facts csymbols_facts(const csymbols_module *module) {
  return (struct csymbols_facts){
      .symbols = module->symbols.count + module->mini_symbols.count,
      .units = module->info.unit_count,
      .has_file = module->file.elf != NULL,
      .has_debug_file = module->debug.elf != NULL,
      .has_dwarf = module->info.dwarf != NULL,
  };
}

struct image *csymbols_dwarf_image(csymbols_module *module) {
  if (has_dwarf(&module->file)) return &module->file;
  return has_dwarf(&module->debug) ? &module->debug : NULL;
}

#endif
