// What the symbolizer's C files share. Formats: the System V gABI (ELF), DWARF 4 and 5.
#pragma once

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "CSymbols.h"
#include "libdw_table.h"

void csymbols_demangle_load(void);
// Whether a symbol is a part that GCC has cut from a coroutine: what runs when that is resumed.
bool csymbols_is_coroutine_part(const char *symbol);

#if CSYMBOLS_HAS_LIBDW

// A file in memory: the part that was asked for, decompressed into the heap, or bytes of another
// owner.
//
// A file is never mapped: one that is cut while it is mapped raises SIGBUS, in a thread of the service's process. The copy
// has the file's length and is filled by pread(2) in pages, by csymbols_image_need(); what was not asked for reads as
// zeros.
struct image {
  char *bytes;
  size_t length;
  enum { IMAGE_NONE, IMAGE_COPY, IMAGE_HEAP, IMAGE_BORROWED } kind;
  Elf *elf;
  // One bit a page of a copy that was filled, and how many bytes that makes.
  uint64_t *filled;
  size_t filled_bytes;
  // Open only during a look-up: a service may close all descriptors, and must not run out of them.
  int fd;
  bool is_open;
  // It stays open as long as the image: the path is not opened again.
  bool keeps;
  // What the image may need at most; 0 is no such limit.
  size_t budget;
  // The file could not be read as it was when it was opened: what it said is not to be trusted.
  bool broken;
  // Of the file when it was opened, to notice a change. `path` is NULL for an image that has none.
  char *path;
  struct stat status;
};

// How many elements have a key of at most `key`. Each begins with its key, a uint64_t, and they are sorted by it.
static inline size_t csymbols_count_up_to(const void *elements, size_t count, size_t size, uint64_t key) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    uint64_t found;
    memcpy(&found, (const char *)elements + middle * size, sizeof found);
    if (found <= key) low = middle + 1;
    else high = middle;
  }
  return low;
}

// A function symbol. `name` is an offset into the string table of the image it came from.
struct symbol {
  uint64_t address;
  uint32_t size;
  uint32_t name;
};

struct symbol_table {
  struct symbol *symbols;
  size_t count;
  // Where its names are, which are read when they are asked for.
  struct image *image;
  size_t strings, strings_length;
  bool built;
};

// A function that DWARF describes: [low, low + size) and the offset of its DIE in .debug_info.
struct function {
  uint64_t low;
  uint64_t die;
  uint32_t size;
};

struct unit {
  uint64_t die;
  // Where the unit begins and ends in .debug_info.
  uint64_t begin;
  const char *end;
  struct function *functions;
  size_t count, capacity;
  // Where the walk over the unit's DIEs continues after a deadline.
  Dwarf_Die cursor;
  uint32_t level;
  enum { UNIT_NEW, UNIT_WALKING, UNIT_DONE } state;
  bool lines_read;
};

struct unit_range {
  uint64_t low, high;
  uint32_t unit;
};

// A name that is in no file.
struct made_name {
  struct made_name *next;
  char text[];
};

struct debug_info {
  Dwarf *dwarf;
  Dwarf *alternate;
  // True after libdw ran out of memory during a call: its state is unknown, so it is neither used nor freed.
  bool poisoned;
  bool tried;
  uint64_t next_unit;
  bool units_done, ranges_sorted;
  struct unit *units;
  size_t unit_count, unit_capacity;
  struct unit_range *ranges;
  size_t range_count, range_capacity;
  // The image that `dwarf` reads.
  struct image *image;
  // Where .debug_info and .debug_line lie in it; decompressed ones lie in the heap and are whole.
  const char *units_begin;
  size_t units_length;
  // To know a unit's size before libdw reads all of it.
  const unsigned char *lines;
  size_t lines_length;
  // Heap that libelf holds for unpacked sections, and an estimate of all that libelf and libdw hold.
  size_t unpacked, library_bytes;
  struct made_name *made_names;
};

struct csymbols_module {
  // The module's own file, its separate debug file, the dwz file that one shares, and .gnu_debugdata.
  struct image file, debug, shared, mini;
  struct symbol_table symbols, mini_symbols;
  struct debug_info info;
  bool is_strict;
  size_t budget;
};

static inline uint64_t csymbols_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Opens the file at `path` below `root` (NULL: at `path`). False unless it is a 64-bit little-endian executable or library
// of this machine whose build ID is the one asked for; `source` NULL asks for none.
bool csymbols_image_open(
    struct image *image, const struct csymbols_source *source, const char *root, const char *path);
// The same for a file that is open, which the image takes over. `path` is only remembered.
bool csymbols_image_open_descriptor(
    struct image *image, const struct csymbols_source *source, int descriptor, const char *path);
// Opens a file below `root` if nobody but root, this process's user and the owner of `root` can have put it there. -1 else.
int csymbols_open_trusted(const char *root, const char *path);
// The smaller one of a limit and what the budget allows.
static inline size_t csymbols_limit(size_t limit, size_t budget) {
  return budget != 0 && budget < limit ? budget : limit;
}
// Where the file lies, with all symbolic links resolved. False if it is not known any more.
bool csymbols_image_real_path(const struct image *image, char path[PATH_MAX]);
bool csymbols_image_borrow(struct image *image, const void *base, size_t length);
void csymbols_image_close(struct image *image);
// Reads `length` bytes at `offset` of the file. What it does not give makes the image broken.
bool csymbols_image_read(struct image *image, size_t offset, void *buffer, size_t length);
// Reads the bytes into the copy, as far as they lie in it and are not there yet. False, and the image is broken, if the
// file does not give them any more.
bool csymbols_image_need(struct image *image, const void *start, size_t length);
// The string at `text` as far as it can be read; NULL if it does not end in the image within `limit` bytes.
const char *csymbols_image_string(struct image *image, const char *text, size_t limit);
// The same for a name: one that is longer is cut in the copy, at the beginning of a character, to less than `limit` bytes.
const char *csymbols_image_name(struct image *image, const char *text, size_t limit);
// A whole section's bytes.
void csymbols_image_need_section(struct image *image, size_t index);
// Closes the file until more of it is needed.
void csymbols_image_rest(struct image *image);
// Whether the file is another one by now, or another build of it.
bool csymbols_image_changed(const struct image *image);
// Frees the copy and what libelf unpacked. What it handed out is gone.
bool csymbols_image_repack(struct image *image);
// The section's index, or 0; `compressed_name` is its old name (.zdebug_…) or NULL.
size_t csymbols_section(struct image *image, const char *name, const char *compressed_name);

bool csymbols_table_build(struct symbol_table *table, struct image *image, Elf64_Word type);
// The name of the function at the address, and where it begins; NULL if there is none.
const char *csymbols_table_find(const struct symbol_table *table, uint64_t address, uint64_t *start);
// Whether a symbol has this name. Reads the names of the table, a chunk at a time.
bool csymbols_table_has(const struct symbol_table *table, const char *name, size_t length);
// Whether a function of the table has this name. Reads the names of the table until the deadline.
bool csymbols_table_defines(const struct symbol_table *table, const char *name, uint64_t deadline);
void csymbols_table_free(struct symbol_table *table);

// Fills `mini` from the image's .gnu_debugdata.
void csymbols_mini_open(struct image *mini, struct image *image);

// `start` is where the symbol table says that the function at the address begins, or 0.
enum csymbols_status csymbols_dwarf_lookup(
    csymbols_module *module, uint64_t address, uint64_t start, uint64_t deadline, struct csymbols_frame *frames,
    size_t *count);
const char *csymbols_dwarf_qualified(
    csymbols_module *module, const struct csymbols_frame *frame, uint64_t deadline);
void csymbols_dwarf_free(csymbols_module *module);

enum {
  CSYMBOLS_MAX_SECTIONS = 1 << 16,
  // Names have at most as many bytes, their end included: what is longer is cut. Other texts are left out.
  CSYMBOLS_MAX_TEXT = 64 << 10,
  // DIEs that one takes its attributes from; libdw follows as many.
  CSYMBOLS_MAX_ORIGINS = 16,
};

// A string that libdw found, once it can be read; the shared file's sections are whole.
static inline const char *csymbols_dwarf_string(struct debug_info *info, const char *text) {
  return text != NULL ? csymbols_image_string(info->image, text, CSYMBOLS_MAX_TEXT) : NULL;
}

// The same for a name, which is cut if it is too long.
static inline const char *csymbols_dwarf_name(struct debug_info *info, const char *text) {
  return text != NULL ? csymbols_image_name(info->image, text, CSYMBOLS_MAX_TEXT) : NULL;
}

// Goes to the DIE that `die` takes missing attributes from, which may lie in another unit, and reads it. False if there
// is none.
bool csymbols_dwarf_origin(struct debug_info *info, Dwarf_Die *die);

// Whether the lines of the unit with this first DIE can be read within the deadline: libdw reads all of them in one
// call. *cut is set if there is no time for it, *read once they are.
bool csymbols_lines_affordable(struct debug_info *info, Dwarf_Die *die, bool *read, uint64_t deadline, bool *cut);
// Where the function's own code begins, behind what the compiler adds; its first address if that is not known. The unit's lines have been read.
uint64_t csymbols_lines_body(Dwarf_Die *unit, const struct function *function);
// Fills in files and lines: of the address, and of the calls that were inlined there.
void csymbols_lines_places(
    Dwarf_Die *unit, uint64_t address, Dwarf_Die *calls, size_t calls_count, struct csymbols_frame *frames);
// Takes the file of a function's beginning for the one that declares it, where DWARF does not describe the function.
void csymbols_lines_beginning(Dwarf_Die *unit, uint64_t start, struct csymbols_frame *frame);
// Fills in where the function was declared, and in which source file's unit.
void csymbols_lines_declaration(
    struct debug_info *info, Dwarf_Die *function, uint64_t deadline, bool *cut, struct csymbols_frame *frame);
// The image that has the debug information, or NULL.
struct image *csymbols_dwarf_image(csymbols_module *module);

void csymbols_lzma_load(void);

#endif
