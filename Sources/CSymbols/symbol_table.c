// Symbol tables: the functions of .symtab or .dynsym, sorted by address.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#if CSYMBOLS_HAS_LIBDW

enum {
  MAX_SYMBOLS = 1 << 23,
  // A function without a size (hand-written assembly) reaches to the next symbol or the section's end, but no further
  // than this.
  MAX_UNSIZED = 4096,
  // How far back an enclosing function is looked for, when the nearest symbol has ended before the address.
  MAX_ENCLOSING = 32,
  // Entries of a symbol table that are read at once.
  BATCH = 2048,
  // Bytes of the table of names that are searched at once.
  CHUNK = 64 << 10,
  // A local label with a longer name counts as a function.
  MAX_LABEL = 256,
  // Places of one name among the names that are tried.
  MAX_PLACES = 64,
};

// Set in a candidate's worth if the symbol table gives its size, and if it says that it is a function.
static const uint64_t SIZED = (uint64_t)1 << 40;
static const uint64_t TYPED = (uint64_t)1 << 36;

// A label of assembly: neither a type nor a size. A name with a size and no type is as good as a function's.
static bool is_label(const Elf64_Sym *symbol) {
  return ELF64_ST_TYPE(symbol->st_info) == STT_NOTYPE && symbol->st_size == 0;
}

// A candidate's worth among symbols at one address: with a size before without; then functions before labels; then global
// before weak before local; then the longer one.
static uint64_t worth(const Elf64_Sym *symbol) {
  uint64_t binding = 0;
  switch (ELF64_ST_BIND(symbol->st_info)) {
  case STB_GLOBAL: binding = 2; break;
  case STB_WEAK: binding = 1; break;
  default: break;
  }
  uint64_t size = symbol->st_size > UINT32_MAX ? UINT32_MAX : symbol->st_size;
  return (size != 0 ? SIZED : 0) | (is_label(symbol) ? 0 : TYPED) | (binding << 32) | size;
}

// How far a function without a size may reach, as far as its section is concerned.
static uint64_t reach(Elf *elf, const Elf64_Sym *symbol) {
  Elf_Scn *section = csymbols_libdw()->elf_getscn(elf, symbol->st_shndx);
  Elf64_Shdr *header = section != NULL ? csymbols_libdw()->elf64_getshdr(section) : NULL;
  if (header == NULL || symbol->st_value < header->sh_addr) return 0;
  uint64_t into = symbol->st_value - header->sh_addr;
  if (into >= header->sh_size) return 0;
  return header->sh_size - into < MAX_UNSIZED ? header->sh_size - into : MAX_UNSIZED;
}

struct sortable {
  uint64_t address;
  uint64_t worth;
  uint32_t name;
};

// Least significant digit first, by address, stable; digits in which no two addresses differ are skipped. Linear, where
// qsort takes 15 ms for the 200 000 symbols of a static binary.
static struct sortable *sort(struct sortable *from, struct sortable *to, size_t count) {
  uint64_t all = ~(uint64_t)0, any = 0;
  for (size_t i = 0; i < count; i++) {
    all &= from[i].address;
    any |= from[i].address;
  }
  for (unsigned shift = 0; shift < 64; shift += 8) {
    if ((((all ^ any) >> shift) & 0xff) == 0) continue;
    size_t places[256] = {0}, place = 0;
    for (size_t i = 0; i < count; i++) places[(from[i].address >> shift) & 0xff]++;
    for (size_t digit = 0; digit < 256; digit++) {
      size_t here = places[digit];
      places[digit] = place;
      place += here;
    }
    for (size_t i = 0; i < count; i++) to[places[(from[i].address >> shift) & 0xff]++] = from[i];
    struct sortable *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

// Copies a part of the file's bytes: out of memory where they are in it, past the copy where they are read once.
static bool fetch(struct image *image, size_t offset, void *buffer, size_t length) {
  if (offset > image->length || length > image->length - offset) return false;
  if (image->kind == IMAGE_COPY) return csymbols_image_read(image, offset, buffer, length);
  memcpy(buffer, image->bytes + offset, length);
  return true;
}

// The names' section as offset and length in the image. False if it does not lie in it.
static bool find_strings(struct symbol_table *table, struct image *image, size_t index) {
  Elf_Scn *section = csymbols_libdw()->elf_getscn(image->elf, index);
  Elf64_Shdr *header = section != NULL ? csymbols_libdw()->elf64_getshdr(section) : NULL;
  if (header == NULL || header->sh_type != SHT_STRTAB || (header->sh_flags & SHF_COMPRESSED) != 0) return false;
  if (header->sh_offset > image->length || header->sh_size > image->length - header->sh_offset) return false;
  table->image = image;
  table->strings = header->sh_offset;
  table->strings_length = header->sh_size;
  return true;
}

static bool is_code(Elf *elf, Elf64_Section index) {
  Elf_Scn *section = csymbols_libdw()->elf_getscn(elf, index);
  Elf64_Shdr *header = section != NULL ? csymbols_libdw()->elf64_getshdr(section) : NULL;
  return header != NULL && (header->sh_flags & SHF_EXECINSTR) != 0;
}

// Whether a local label is a place in a function: `.loop` and `parse.loop` of an assembler, `$d` of an ABI. No function has
// such a name in assembly.
static bool is_place(const struct symbol_table *table, struct image *image, const Elf64_Sym *symbol) {
  const char *name = image->bytes + table->strings + symbol->st_name;
  size_t left = table->strings_length - symbol->st_name, limit = left < MAX_LABEL ? left : MAX_LABEL;
  if (csymbols_image_string(image, name, limit) == NULL) return false;
  return name[0] == '$' || memchr(name, '.', strnlen(name, limit)) != NULL;
}

static bool is_function(const struct symbol_table *table, struct image *image, const Elf64_Sym *symbol) {
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || symbol->st_value == 0) return false;
  if (symbol->st_name == 0 || symbol->st_name >= table->strings_length) return false;
  if (type == STT_FUNC || type == STT_GNU_IFUNC) return true;
  if (type != STT_NOTYPE || !is_code(image->elf, symbol->st_shndx)) return false;
  return ELF64_ST_BIND(symbol->st_info) != STB_LOCAL || !is_place(table, image, symbol);
}

// The first section of the type, or NULL.
static Elf64_Shdr *find_table(struct image *image, Elf64_Word type) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  Elf_Scn *section = NULL;
  for (size_t index = 1;
       index < CSYMBOLS_MAX_SECTIONS && (section = dw->elf_nextscn(image->elf, section)) != NULL; index++) {
    Elf64_Shdr *header = dw->elf64_getshdr(section);
    if (header != NULL && header->sh_type == type) return header;
  }
  return NULL;
}

// The functions among `total` entries from `offset` on, in memory that the caller frees. NULL if there
// are none, or if the file does not give all of them.
static struct sortable *read_functions(
    const struct symbol_table *table, struct image *image, size_t offset, size_t total, size_t *count) {
  Elf64_Sym *batch = malloc(BATCH * sizeof *batch);
  struct sortable *found = NULL;
  size_t capacity = 0;
  bool whole = batch != NULL;
  *count = 0;
  for (size_t at = 0; at < total && whole; at += BATCH) {
    size_t here = total - at < BATCH ? total - at : BATCH;
    whole = fetch(image, offset + at * sizeof *batch, batch, here * sizeof *batch);
    for (size_t i = 0; i < here && whole; i++) {
      if (!is_function(table, image, &batch[i])) continue;
      if (*count == capacity) {
        capacity = capacity == 0 ? 1024 : 2 * capacity;
        struct sortable *grown = realloc(found, capacity * sizeof *found);
        whole = grown != NULL;
        if (!whole) break;
        found = grown;
      }
      uint64_t value = worth(&batch[i]);
      if ((value & SIZED) == 0) value |= reach(image->elf, &batch[i]);
      found[(*count)++] = (struct sortable){batch[i].st_value, value, batch[i].st_name};
    }
  }
  free(batch);
  if (whole) return found;
  free(found);
  return NULL;
}

// Keeps the best symbol of each address, and no label in a function whose size is known. Returns how many there are.
static size_t keep_best(struct sortable *sorted, size_t count) {
  size_t kept = 0;
  uint64_t end = 0;
  for (size_t i = 0; i < count; i++) {
    if ((sorted[i].worth & SIZED) != 0 && sorted[i].address + (uint32_t)sorted[i].worth > end) {
      end = sorted[i].address + (uint32_t)sorted[i].worth;
    }
    if ((sorted[i].worth & (SIZED | TYPED)) == 0 && sorted[i].address < end) continue;
    if (kept > 0 && sorted[kept - 1].address == sorted[i].address) {
      if (sorted[i].worth > sorted[kept - 1].worth) sorted[kept - 1] = sorted[i];
    } else {
      sorted[kept++] = sorted[i];
    }
  }
  return kept;
}

bool csymbols_table_build(struct symbol_table *table, struct image *image, Elf64_Word type) {
  Elf64_Shdr *header = image->elf != NULL ? find_table(image, type) : NULL;
  if (header == NULL) return false;
  if ((header->sh_flags & SHF_COMPRESSED) != 0 || !find_strings(table, image, header->sh_link)) return false;
  if (header->sh_offset > image->length || header->sh_size > image->length - header->sh_offset) return false;
  size_t total = header->sh_size / sizeof(Elf64_Sym), count = 0;
  size_t limit = csymbols_limit(MAX_SYMBOLS, image->budget / sizeof(struct sortable));
  if (total > limit) total = limit;
  struct sortable *first = read_functions(table, image, header->sh_offset, total, &count);
  struct sortable *spare = first != NULL ? malloc(count * sizeof *spare) : NULL;
  if (spare == NULL) {
    free(first);
    return false;
  }
  struct sortable *sorted = sort(first, spare, count);
  size_t kept = keep_best(sorted, count);
  table->symbols = malloc(kept * sizeof(struct symbol));
  if (table->symbols != NULL) {
    for (size_t i = 0; i < kept; i++) {
      uint32_t size = (uint32_t)sorted[i].worth;
      if ((sorted[i].worth & SIZED) == 0 && i + 1 < kept && sorted[i + 1].address - sorted[i].address < size) {
        size = (uint32_t)(sorted[i + 1].address - sorted[i].address);
      }
      table->symbols[i] = (struct symbol){sorted[i].address, size, sorted[i].name};
    }
    table->count = kept;
  }
  free(first);
  free(spare);
  return table->symbols != NULL;
}

const char *csymbols_table_find(const struct symbol_table *table, uint64_t address, uint64_t *start) {
  size_t before = csymbols_count_up_to(table->symbols, table->count, sizeof *table->symbols, address);
  for (size_t back = 0; back < MAX_ENCLOSING && back < before; back++) {
    const struct symbol *symbol = &table->symbols[before - 1 - back];
    if (address - symbol->address >= symbol->size) continue;
    // The name must end inside the table, or is cut in it.
    const char *strings = table->image->bytes + table->strings;
    size_t left = table->strings_length - symbol->name;
    bool is_long = left > CSYMBOLS_MAX_TEXT;
    size_t limit = is_long ? CSYMBOLS_MAX_TEXT : left;
    const char *name = strings + symbol->name;
    name = is_long ? csymbols_image_name(table->image, name, limit) : csymbols_image_string(table->image, name, limit);
    if (name == NULL) return NULL;
    *start = symbol->address;
    return memchr(name, 0, limit) != NULL ? name : NULL;
  }
  return NULL;
}

// Goes to the next place in the names, from *at on, that has these bytes. False if there is none before the deadline.
static bool find_bytes(
    const struct symbol_table *table, const char *wanted, size_t length, uint64_t deadline, size_t *at) {
  char *bytes = malloc(CHUNK);
  const char *found = NULL;
  while (bytes != NULL && found == NULL && *at + length <= table->strings_length && csymbols_now() < deadline) {
    size_t left = table->strings_length - *at, here = left < CHUNK ? left : CHUNK;
    if (!fetch(table->image, table->strings + *at, bytes, here)) break;
    found = memmem(bytes, here, wanted, length);
    *at += found != NULL ? (size_t)(found - bytes) : here - length + 1;
  }
  free(bytes);
  return found != NULL;
}

bool csymbols_table_has(const struct symbol_table *table, const char *name, size_t length) {
  char wanted[MAX_LABEL + 2] = {0};
  size_t at = 0;
  if (table->count == 0 || length == 0 || length > MAX_LABEL) return false;
  // Every name begins behind a zero.
  memcpy(wanted + 1, name, length);
  return find_bytes(table, wanted, length + 2, UINT64_MAX, &at);
}

bool csymbols_table_defines(const struct symbol_table *table, const char *name, uint64_t deadline) {
  size_t at = 0;
  // A name may be the end of another one, where the linker has merged them.
  for (size_t tries = 0; tries < MAX_PLACES && table->count > 0; tries++, at++) {
    if (!find_bytes(table, name, strlen(name) + 1, deadline, &at)) return false;
    for (size_t i = 0; i < table->count; i++)
      if (table->symbols[i].name == at) return true;
  }
  return false;
}

void csymbols_table_free(struct symbol_table *table) {
  free(table->symbols);
  *table = (struct symbol_table){0};
}

#endif
