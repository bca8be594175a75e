// Opening and closing a file's debug information: the sections that are read, and the file that
// dwz(1) has moved parts into.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#if CSYMBOLS_HAS_LIBDW

#include "dwarf_internal.h"

// Debug information is not read if its sections unpack to more than this.
static const uint64_t max_unpacked = 256 << 20;

_Thread_local jmp_buf *csymbols_out_of_memory;

__attribute__((noreturn)) static void no_memory(void) {
  longjmp(*csymbols_out_of_memory, 1);
}

// What the debug sections unpack to, so that a corrupt header does not make libelf allocate without bound.
static uint64_t unpacked_bytes(struct image *image) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  uint64_t sum = 0;
  Elf_Scn *section = NULL;
  for (size_t i = 0; i < (1 << 16) && (section = dw->elf_nextscn(image->elf, section)) != NULL; i++) {
    Elf64_Shdr *header = dw->elf64_getshdr(section);
    if (header == NULL) continue;
    if (header->sh_type != SHT_NOBITS && header->sh_offset < image->length) {
      csymbols_image_need(image, image->bytes + header->sh_offset, sizeof(Elf64_Chdr));
    }
    if ((header->sh_flags & SHF_COMPRESSED) != 0) {
      Elf64_Chdr *packed = dw->elf64_getchdr(section);
      if (packed == NULL || packed->ch_size > max_unpacked) return UINT64_MAX;
      sum += packed->ch_size;
    } else if (header->sh_type == SHT_PROGBITS) {
      // The older form: ".zdebug_…" begins with "ZLIB" and the size, most significant byte first.
      Elf_Data *data = header->sh_size > 12 && header->sh_flags == 0 ? dw->elf_rawdata(section, NULL) : NULL;
      if (data == NULL || data->d_buf == NULL || data->d_size < 12 || memcmp(data->d_buf, "ZLIB", 4) != 0) continue;
      uint64_t size = 0;
      for (size_t byte = 4; byte < 12; byte++) size = size << 8 | ((const unsigned char *)data->d_buf)[byte];
      if (size > max_unpacked) return UINT64_MAX;
      sum += size;
    }
  }
  return sum;
}

// Reads what libdw looks into without being asked about a unit. .debug_info, .debug_line and .debug_str are read in
// parts, when they are needed, unless they are packed.
static void fill_sections(struct image *image, bool whole) {
  static const char *const in_parts[] = {".debug_info", ".debug_line", ".debug_str"};
  static const char *const unused[] = {
      ".debug_aranges", ".debug_frame", ".debug_loc", ".debug_loclists", ".debug_macinfo", ".debug_macro",
      ".debug_names", ".debug_pubnames", ".debug_pubtypes", ".debug_gnu_pubnames", ".debug_gnu_pubtypes", ".debug_types",
  };
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  size_t names = 0;
  if (dw->elf_getshdrstrndx(image->elf, &names) != 0) return;
  Elf_Scn *section = NULL;
  for (size_t index = 1; index < (1 << 16) && (section = dw->elf_nextscn(image->elf, section)) != NULL; index++) {
    Elf64_Shdr *header = dw->elf64_getshdr(section);
    const char *name = header != NULL ? dw->elf_strptr(image->elf, names, header->sh_name) : NULL;
    if (name == NULL || header->sh_type == SHT_NOBITS) continue;
    if (strncmp(name, ".debug_", 7) != 0 && strncmp(name, ".zdebug_", 8) != 0
        && strcmp(name, ".gnu_debugaltlink") != 0) {
      continue;
    }
    bool in_part = false, wanted = true;
    if (!whole && (header->sh_flags & SHF_COMPRESSED) == 0) {
      for (size_t i = 0; i < sizeof in_parts / sizeof *in_parts; i++) in_part |= strcmp(name, in_parts[i]) == 0;
      for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) wanted &= strcmp(name, unused[i]) != 0;
    }
    if (!wanted) continue;
    if (!in_part) {
      csymbols_image_need_section(image, index);
    } else if (header->sh_size > 0 && header->sh_size <= image->length
               && header->sh_offset <= image->length - header->sh_size) {
      // libdw looks for the last string's end.
      csymbols_image_need(image, image->bytes + header->sh_offset + header->sh_size - 1, 1);
    }
  }
}

// The file that dwz(1) moved common parts into. Opened here and given to libdw, which would look for it without
// O_CLOEXEC and keep the descriptor.
static void open_shared(csymbols_module *module, const struct image *image) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  struct debug_info *info = &module->info;
  const char *name = NULL;
  const void *id = NULL;
  ssize_t length = dw->dwelf_dwarf_gnu_debugaltlink(info->dwarf, &name, &id);
  if (length <= 0 || name == NULL) return;
  struct csymbols_source source = {
      .build_id = id,
      .build_id_length = (size_t)length,
      .is_strict = module->is_strict,
      .descriptor = -1,
      .budget = module->budget,
  };
  uint64_t limit = csymbols_limit(max_unpacked, module->budget);
  char path[PATH_MAX];
  // A relative name starts where the file itself lies, and not a link to it, such as /proc/self/exe.
  const char *slash = name[0] != '/' && csymbols_image_real_path(image, path) ? strrchr(path, '/') : NULL;
  size_t directory = slash != NULL ? (size_t)(slash + 1 - path) : 0;
  size_t rest = strnlen(name, sizeof path);
  if (directory + rest >= sizeof path) return;
  memcpy(path + directory, name, rest);
  path[directory + rest] = 0;
  if (csymbols_image_open(&module->shared, &source, NULL, path) && unpacked_bytes(&module->shared) <= limit) {
    fill_sections(&module->shared, true);
    if (module->shared.broken) return;
    info->alternate = dw->dwarf_begin_elf(module->shared.elf, DWARF_C_READ, NULL);
  }
  if (info->alternate != NULL) {
    dw->dwarf_new_oom_handler(info->alternate, no_memory);
    dw->dwarf_setalt(info->dwarf, info->alternate);
  }
}

static Elf_Data *section_bytes(struct image *image, const char *name, const char *compressed_name) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  size_t index = csymbols_section(image, name, compressed_name);
  Elf_Data *data = index != 0 ? dw->elf_rawdata(dw->elf_getscn(image->elf, index), NULL) : NULL;
  return data != NULL && data->d_buf != NULL ? data : NULL;
}

void csymbols_dwarf_open(csymbols_module *module) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  struct debug_info *info = &module->info;
  info->tried = true;
  struct image *image = csymbols_dwarf_image(module);
  if (image == NULL || image->kind != IMAGE_COPY) return;
  uint64_t unpacked = unpacked_bytes(image);
  if (unpacked > csymbols_limit(max_unpacked, module->budget)) return;
  fill_sections(image, false);
  if (image->broken) return;
  info->dwarf = dw->dwarf_begin_elf(image->elf, DWARF_C_READ, NULL);
  if (info->dwarf == NULL) return;
  info->image = image;
  dw->dwarf_new_oom_handler(info->dwarf, no_memory);
  // libdw unpacked them in place.
  Elf_Data *data = section_bytes(image, ".debug_line", ".zdebug_line");
  if (data != NULL) {
    info->lines = data->d_buf;
    info->lines_length = data->d_size;
  }
  data = section_bytes(image, ".debug_info", ".zdebug_info");
  if (data != NULL) {
    info->units_begin = data->d_buf;
    info->units_length = data->d_size;
  }
  info->unpacked = unpacked;
  info->library_bytes = 32768 + unpacked;
  open_shared(module, image);
}

void csymbols_dwarf_free(csymbols_module *module) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  struct debug_info *info = &module->info;
  bool poisoned = info->poisoned;
  for (size_t i = 0; i < info->unit_count; i++) free(info->units[i].functions);
  free(info->units);
  free(info->ranges);
  while (info->made_names != NULL) {
    struct made_name *made = info->made_names;
    info->made_names = made->next;
    free(made);
  }
  if (!poisoned) {
    if (info->dwarf != NULL) dw->dwarf_end(info->dwarf);
    if (info->alternate != NULL) dw->dwarf_end(info->alternate);
  }
  *info = (struct debug_info){.poisoned = poisoned, .tried = poisoned};
}

#endif
