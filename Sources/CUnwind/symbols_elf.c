// Opening ELF files, checking that they are the right ones, and their symbol tables.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols_internal.h"

#if defined(__x86_64__)
#define NATIVE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define NATIVE_MACHINE EM_AARCH64
#else
#define NATIVE_MACHINE EM_NONE
#endif

enum {
  MAX_SECTIONS = 1 << 16,
  MAX_SYMBOLS = 1 << 23,
  // A function without a size (hand-written assembly) reaches to the next symbol or the section's end, but no further
  // than this.
  MAX_UNSIZED = 4096,
  // How far back an enclosing function is looked for, when the nearest symbol has ended before the address.
  MAX_ENCLOSING = 32,
  MAX_MINI = 32 << 20,
};

// Set in a candidate's worth if the symbol table gives its size.
static const uint64_t SIZED = (uint64_t)1 << 40;
static const size_t max_file = (size_t)4 << 30;

static bool right_kind(Elf *elf) {
  Elf64_Ehdr *header = cunwind_libdw()->elf64_getehdr(elf);
  return header != NULL && header->e_ident[EI_DATA] == ELFDATA2LSB && header->e_machine == NATIVE_MACHINE
      && (header->e_type == ET_EXEC || header->e_type == ET_DYN);
}

bool symbols_image_borrow(struct image *image, const void *base, size_t length) {
  // libelf asks for a writable pointer and writes through it only when told to.
  image->bytes = (char *)(uintptr_t)base;
  image->length = length;
  image->kind = IMAGE_BORROWED;
  image->elf = cunwind_libdw()->elf_memory(image->bytes, length);
  if (image->elf != NULL && right_kind(image->elf)) return true;
  symbols_image_close(image);
  return false;
}

// The running executable's own inode, which the kernel lets nobody write to (ETXTBSY).
static bool is_running(const struct cunwind_symbols_source *source) {
  return source->path != NULL && strcmp(source->path, "/proc/self/exe") == 0;
}

static bool right_build(const struct image *image, const struct cunwind_symbols_source *source) {
  const void *found = NULL;
  ssize_t length = cunwind_libdw()->dwelf_elf_gnu_build_id(image->elf, &found);
  if (length > 0) {
    return (size_t)length == source->build_id_length && memcmp(found, source->build_id, (size_t)length) == 0;
  }
  // Without ids on both sides only the time tells whether it is still the file that was loaded. A rename counts as a
  // change of the inode (ctime) on ext4, xfs and btrfs.
  uint64_t changed =
      (uint64_t)image->status.st_ctim.tv_sec * 1000000000u + (uint64_t)image->status.st_ctim.tv_nsec;
  return source->build_id_length == 0 && (changed < source->not_changed_after || is_running(source));
}

static bool map(struct image *image, const struct cunwind_symbols_source *source, int fd) {
  if (fstat(fd, &image->status) != 0 || !S_ISREG(image->status.st_mode)) return false;
  if (image->status.st_size < (off_t)sizeof(Elf64_Ehdr) || (size_t)image->status.st_size > max_file) return false;
  image->length = (size_t)image->status.st_size;
  // Writable, privately: elf_compress() changes a section's header in place when it unpacks it.
  void *bytes = mmap(NULL, image->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  if (bytes == MAP_FAILED) return false;
  image->bytes = bytes;
  image->kind = IMAGE_MAPPED;
  // elf_memory and not elf_begin: nothing is read lazily, so the descriptor can be closed at once.
  image->elf = cunwind_libdw()->elf_memory(image->bytes, image->length);
  return image->elf != NULL && right_kind(image->elf) && right_build(image, source);
}

bool symbols_image_open(struct image *image, const struct cunwind_symbols_source *source, const char *path, int fd) {
  int opened = -1;
  if (fd < 0) {
    if (path == NULL) return false;
    // O_NONBLOCK: a FIFO of that name must not hold the watchdog up.
    opened = fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return false;
    image->path = strdup(path);
  }
  bool good = map(image, source, fd);
  if (opened >= 0) close(opened);
  if (!good) symbols_image_close(image);
  return good;
}

void symbols_image_close(struct image *image) {
  if (image->elf != NULL) cunwind_libdw()->elf_end(image->elf);
  if (image->kind == IMAGE_MAPPED) munmap(image->bytes, image->length);
  if (image->kind == IMAGE_HEAP) free(image->bytes);
  free(image->path);
  *image = (struct image){.kind = IMAGE_NONE};
}

void symbols_image_repack(struct image *image) {
  cunwind_libdw()->elf_end(image->elf);
  // Back to what the file says.
  madvise(image->bytes, image->length, MADV_DONTNEED);
  image->elf = cunwind_libdw()->elf_memory(image->bytes, image->length);
}

size_t symbols_section(const struct image *image, const char *name, const char *compressed_name) {
  const struct cunwind_libdw_table *dw = cunwind_libdw();
  size_t names = 0;
  if (image->elf == NULL || dw->elf_getshdrstrndx(image->elf, &names) != 0) return 0;
  Elf_Scn *section = NULL;
  for (size_t index = 1; index < MAX_SECTIONS && (section = dw->elf_nextscn(image->elf, section)) != NULL; index++) {
    Elf64_Shdr *header = dw->elf64_getshdr(section);
    if (header == NULL || header->sh_type == SHT_NOBITS) continue;
    const char *found = dw->elf_strptr(image->elf, names, header->sh_name);
    if (found == NULL) continue;
    if (strcmp(found, name) == 0 || (compressed_name != NULL && strcmp(found, compressed_name) == 0)) return index;
  }
  return 0;
}

// A candidate's worth among symbols at one address: global before weak before local, then the longer one.
static uint64_t worth(const Elf64_Sym *symbol) {
  uint64_t binding = 0;
  switch (ELF64_ST_BIND(symbol->st_info)) {
  case STB_GLOBAL: binding = 2; break;
  case STB_WEAK: binding = 1; break;
  default: break;
  }
  uint64_t size = symbol->st_size > UINT32_MAX ? UINT32_MAX : symbol->st_size;
  return (size != 0 ? SIZED : 0) | (binding << 32) | size;
}

// How far a function without a size may reach, as far as its section is concerned.
static uint64_t reach(Elf *elf, const Elf64_Sym *symbol) {
  Elf_Scn *section = cunwind_libdw()->elf_getscn(elf, symbol->st_shndx);
  Elf64_Shdr *header = section != NULL ? cunwind_libdw()->elf64_getshdr(section) : NULL;
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

bool symbols_table_build(struct symbol_table *table, const struct image *image, Elf64_Word type) {
  const struct cunwind_libdw_table *dw = cunwind_libdw();
  if (image->elf == NULL) return false;
  Elf_Scn *section = NULL;
  Elf64_Shdr *header = NULL;
  for (size_t index = 1; index < MAX_SECTIONS && (section = dw->elf_nextscn(image->elf, section)) != NULL; index++) {
    header = dw->elf64_getshdr(section);
    if (header != NULL && header->sh_type == type) break;
  }
  if (section == NULL || header == NULL || header->sh_type != type) return false;
  Elf_Scn *names = dw->elf_getscn(image->elf, header->sh_link);
  Elf_Data *symbols = dw->elf_getdata(section, NULL);
  Elf_Data *strings = names != NULL ? dw->elf_getdata(names, NULL) : NULL;
  if (symbols == NULL || symbols->d_buf == NULL || strings == NULL || strings->d_buf == NULL) return false;
  // The table outlives what libelf holds, so it points into the file's bytes or at nothing.
  if ((char *)strings->d_buf < image->bytes || strings->d_size > image->length
      || (char *)strings->d_buf + strings->d_size > image->bytes + image->length) {
    return false;
  }
  // The last name must end inside the table; after that any offset inside it is a terminated string.
  size_t strings_length = strings->d_size;
  const char *text = strings->d_buf;
  while (strings_length > 0 && text[strings_length - 1] != 0) strings_length--;

  const Elf64_Sym *all = symbols->d_buf;
  size_t total = symbols->d_size / sizeof(Elf64_Sym), wanted = 0;
  if (total > MAX_SYMBOLS) total = MAX_SYMBOLS;
#define WANTED(symbol) \
  ((ELF64_ST_TYPE((symbol).st_info) == STT_FUNC || ELF64_ST_TYPE((symbol).st_info) == STT_GNU_IFUNC) \
      && (symbol).st_shndx != SHN_UNDEF && (symbol).st_shndx != SHN_ABS && (symbol).st_value != 0 \
      && (symbol).st_name != 0 && (symbol).st_name < strings_length)
  for (size_t i = 0; i < total; i++) wanted += WANTED(all[i]);
  if (wanted == 0) return false;
  struct sortable *first = malloc(2 * wanted * sizeof(struct sortable));
  if (first == NULL) return false;
  size_t count = 0;
  for (size_t i = 0; i < total && count < wanted; i++) {
    if (!WANTED(all[i])) continue;
    uint64_t value = worth(&all[i]);
    if ((value & SIZED) == 0) value |= reach(image->elf, &all[i]);
    first[count++] = (struct sortable){all[i].st_value, value, all[i].st_name};
  }
#undef WANTED
  struct sortable *sorted = sort(first, first + wanted, count);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (kept > 0 && sorted[kept - 1].address == sorted[i].address) {
      if (sorted[i].worth > sorted[kept - 1].worth) sorted[kept - 1] = sorted[i];
    } else {
      sorted[kept++] = sorted[i];
    }
  }
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
    table->strings = text;
    table->strings_length = strings_length;
  }
  free(first);
  return table->symbols != NULL;
}

const char *symbols_table_find(const struct symbol_table *table, uint64_t address) {
  size_t low = 0, high = table->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (table->symbols[middle].address <= address) low = middle + 1;
    else high = middle;
  }
  for (size_t back = 0; back < MAX_ENCLOSING && back < low; back++) {
    const struct symbol *symbol = &table->symbols[low - 1 - back];
    if (address - symbol->address < symbol->size) return table->strings + symbol->name;
  }
  return NULL;
}

void symbols_table_free(struct symbol_table *table) {
  free(table->symbols);
  *table = (struct symbol_table){0};
}

// lzma_stream_buffer_decode, declared here (lzma/container.h) so that liblzma's headers are not needed to build. libdw
// depends on liblzma itself, so opening it costs nothing more.
typedef int lzma_decode(
    uint64_t *memory_limit, uint32_t flags, const void *allocator, const uint8_t *in, size_t *in_position,
    size_t in_size, uint8_t *out, size_t *out_position, size_t out_size);
enum { LZMA_RET_OK = 0, LZMA_RET_BUFFER_TOO_SMALL = 10 };
static _Atomic(lzma_decode *) decode;

void cunwind_lzma_load(void) {
  void *handle = dlopen("liblzma.so.5", RTLD_NOW | RTLD_LOCAL);
  if (handle != NULL) atomic_store(&decode, (lzma_decode *)dlsym(handle, "lzma_stream_buffer_decode"));
}

void symbols_mini_open(struct image *mini, const struct image *image) {
  lzma_decode *unpack = atomic_load(&decode);
  size_t index = symbols_section(image, ".gnu_debugdata", NULL);
  if (unpack == NULL || index == 0) return;
  Elf_Data *packed = cunwind_libdw()->elf_rawdata(cunwind_libdw()->elf_getscn(image->elf, index), NULL);
  if (packed == NULL || packed->d_buf == NULL || packed->d_size > MAX_MINI) return;
  for (size_t size = packed->d_size * 4 + 4096; size <= MAX_MINI; size *= 2) {
    uint64_t limit = 64 << 20;
    size_t in = 0, out = 0;
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) return;
    int result = unpack(&limit, 0, NULL, packed->d_buf, &in, packed->d_size, bytes, &out, size);
    if (result == LZMA_RET_OK && symbols_image_borrow(mini, bytes, out)) {
      mini->kind = IMAGE_HEAP;
      return;
    }
    free(bytes);
    if (result != LZMA_RET_BUFFER_TOO_SMALL) return;
  }
}
