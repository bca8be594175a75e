// A module: which files speak for it, and the look-up over its symbol table and debug information.
#define _GNU_SOURCE
#include <elf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "symbols_internal.h"

static bool has_dwarf(const struct image *image) {
  return symbols_section(image, ".debug_info", ".zdebug_info") != 0;
}

static bool has_symtab(const struct image *image) {
  return symbols_section(image, ".symtab", NULL) != 0;
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
    struct image *image, const struct cunwind_symbols_source *source, const uint8_t *id, size_t length) {
  static const char digits[] = "0123456789abcdef";
  char first[3] = {0}, rest[2 * 64 + 1] = {0}, path[PATH_MAX];
  if (length < 2 || length > 64) return false;
  for (size_t i = 0; i < length; i++) {
    char *to = i == 0 ? first : rest + 2 * (i - 1);
    to[0] = digits[id[i] >> 4];
    to[1] = digits[id[i] & 15];
  }
  struct cunwind_symbols_source wanted = *source;
  wanted.build_id = id;
  wanted.build_id_length = length;
  if (!join(path, (const char *const[5]){source->debug_root, "/.build-id/", first, "/", rest})) return false;
  size_t end = strlen(path);
  if (end + sizeof ".debug" > sizeof path) return false;
  memcpy(path + end, ".debug", sizeof ".debug");
  return symbols_image_open(image, &wanted, path, -1);
}

// .gnu_debuglink: a file name, looked for beside the module, in .debug/ and under the debug root. The checksum that the
// section carries is not used: the build id says the same without reading the whole file.
static bool open_by_link(cunwind_symbols_module *module, const struct cunwind_symbols_source *source) {
  GElf_Word checksum;
  if (source->build_id_length == 0 || source->path == NULL || module->file.elf == NULL) return false;
  const char *name = cunwind_libdw()->dwelf_elf_gnu_debuglink(module->file.elf, &checksum);
  if (name == NULL || name[0] == 0 || strchr(name, '/') != NULL) return false;
  char directory[PATH_MAX], path[PATH_MAX];
  ssize_t length = readlink(source->path, directory, sizeof directory - 1);
  if (length < 0) {
    length = (ssize_t)strlen(source->path);
    if (length >= PATH_MAX) return false;
    memcpy(directory, source->path, (size_t)length);
  }
  directory[length] = 0;
  char *slash = strrchr(directory, '/');
  if (slash == NULL) return false;
  *slash = 0;
  const char *const candidates[3][5] = {
      {directory, "/", name},
      {directory, "/.debug/", name},
      {source->debug_root, directory, "/", name},
  };
  for (size_t i = 0; i < 3; i++) {
    if (join(path, candidates[i]) && symbols_image_open(&module->debug, source, path, -1)) return true;
  }
  return false;
}

cunwind_symbols_module *cunwind_symbols_open(const struct cunwind_symbols_source *source, const char **problem) {
  *problem = cunwind_symbols_problem();
  if (*problem != NULL) return NULL;
  cunwind_symbols_module *module = calloc(1, sizeof *module);
  if (module == NULL) {
    *problem = "out of memory";
    return NULL;
  }
  bool found = symbols_image_open(&module->file, source, source->path, source->fd);
  bool is_complete = found && has_dwarf(&module->file) && has_symtab(&module->file);
  if (!is_complete && source->debug_root != NULL) {
    if (open_by_build_id(&module->debug, source, source->build_id, source->build_id_length)
        || (found && open_by_link(module, source))) {
      found = true;
    }
  }
  if (!found) {
    free(module);
    *problem = "no file with this build id";
    return NULL;
  }
  return module;
}

cunwind_symbols_module *cunwind_symbols_open_image(const void *base, size_t length, const char **problem) {
  *problem = cunwind_symbols_problem();
  if (*problem != NULL) return NULL;
  cunwind_symbols_module *module = calloc(1, sizeof *module);
  if (module == NULL || !symbols_image_borrow(&module->file, base, length)) {
    free(module);
    *problem = "not an ELF image of this machine";
    return NULL;
  }
  return module;
}

const void *cunwind_symbols_vdso(size_t *length) {
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
  *length = 0;
  if (header == NULL || header->e_phentsize != sizeof(Elf64_Phdr)) return NULL;
  const Elf64_Phdr *segments = (const Elf64_Phdr *)((const char *)header + header->e_phoff);
  for (size_t i = 0; i < header->e_phnum && i < 16; i++) {
    if (segments[i].p_type != PT_LOAD) continue;
    // The kernel maps whole pages, and the section headers lie behind the segment, in its last page.
    size_t end = (size_t)(segments[i].p_offset + segments[i].p_filesz + 4095) & ~(size_t)4095;
    if (end > *length) *length = end;
  }
  return *length != 0 ? header : NULL;
}

static bool image_changed(const struct image *image) {
  struct stat now;
  if (image->path == NULL) return false;
  if (stat(image->path, &now) != 0) return true;
  return now.st_dev != image->status.st_dev || now.st_ino != image->status.st_ino
      || now.st_size != image->status.st_size || now.st_mtim.tv_sec != image->status.st_mtim.tv_sec
      || now.st_mtim.tv_nsec != image->status.st_mtim.tv_nsec;
}

bool cunwind_symbols_changed(const cunwind_symbols_module *module) {
  return image_changed(&module->file) || image_changed(&module->debug) || image_changed(&module->shared);
}

void cunwind_symbols_trim(cunwind_symbols_module *module) {
  symbols_dwarf_free(module);
}

void cunwind_symbols_close(cunwind_symbols_module *module) {
  if (module == NULL) return;
  bool poisoned = module->info.poisoned;
  symbols_dwarf_free(module);
  symbols_table_free(&module->symbols);
  symbols_table_free(&module->mini_symbols);
  if (!poisoned) {
    symbols_image_close(&module->mini);
    symbols_image_close(&module->shared);
    symbols_image_close(&module->debug);
    symbols_image_close(&module->file);
  }
  free(module);
}

// .symtab of the separate debug file or of the module; else .dynsym, and what .gnu_debugdata adds to it.
static void build_tables(cunwind_symbols_module *module) {
  struct symbol_table *symbols = &module->symbols;
  if (symbols->built) return;
  symbols->built = true;
  if (symbols_table_build(symbols, &module->file, SHT_SYMTAB)) return;
  if (symbols_table_build(symbols, &module->debug, SHT_SYMTAB)) return;
  symbols_table_build(symbols, &module->file, SHT_DYNSYM);
  symbols_mini_open(&module->mini, &module->file);
  symbols_table_build(&module->mini_symbols, &module->mini, SHT_SYMTAB);
}

enum cunwind_symbols_status cunwind_symbols_lookup(
    cunwind_symbols_module *module, uint64_t address, uint64_t deadline,
    struct cunwind_symbols_frame frames[CUNWIND_SYMBOLS_MAX_FRAMES], size_t *count) {
  build_tables(module);
  const char *symbol = symbols_table_find(&module->symbols, address);
  if (symbol == NULL) symbol = symbols_table_find(&module->mini_symbols, address);
  *count = 0;
  enum cunwind_symbols_status status = symbols_dwarf_lookup(module, address, deadline, frames, count);
  if (*count == 0) {
    if (symbol == NULL) return status;
    frames[0] = (struct cunwind_symbols_frame){0};
    *count = 1;
  }
  struct cunwind_symbols_frame *physical = &frames[*count - 1];
  if (physical->linkage_name == NULL && symbol != NULL) {
    // C has no linkage names in DWARF: its own name is better than the symbol's `name.constprop.0`.
    bool mangled = strncmp(symbol, "_Z", 2) == 0 || strncmp(symbol, "$s", 2) == 0;
    if (physical->name == NULL || mangled) physical->linkage_name = symbol;
  }
  return status;
}

size_t cunwind_symbols_bytes(const cunwind_symbols_module *module) {
  const struct debug_info *info = &module->info;
  size_t bytes = sizeof *module + (module->symbols.count + module->mini_symbols.count) * sizeof(struct symbol);
  bytes += info->unit_capacity * sizeof(struct unit) + info->range_capacity * sizeof(struct unit_range);
  for (size_t i = 0; i < info->unit_count; i++) bytes += info->units[i].capacity * sizeof(struct function);
  if (module->mini.kind == IMAGE_HEAP) bytes += module->mini.length;
  return bytes + info->library_bytes;
}

struct cunwind_symbols_facts cunwind_symbols_facts(const cunwind_symbols_module *module) {
  return (struct cunwind_symbols_facts){
      .symbols = module->symbols.count + module->mini_symbols.count,
      .units = module->info.unit_count,
      .has_file = module->file.elf != NULL,
      .has_debug_file = module->debug.elf != NULL,
      .has_dwarf = module->info.dwarf != NULL,
  };
}

struct image *symbols_dwarf_image(cunwind_symbols_module *module) {
  if (has_dwarf(&module->file)) return &module->file;
  return has_dwarf(&module->debug) ? &module->debug : NULL;
}
