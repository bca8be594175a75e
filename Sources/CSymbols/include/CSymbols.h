// Symbol names, files, lines and inlined frames of one ELF module, from .symtab and DWARF.
//
// In C because libdw's interface is structs with unions, callbacks that must not return (longjmp) and
// pointers into its own memory; and because these readers are fuzzed as they are. It can go when Swift
// has an ELF and DWARF reader of its own that was fuzzed as long.
//
// Threads: a module belongs to one thread at a time; different modules may be used at once. Nothing here but
// csymbols_load() and csymbols_prepare_thread() takes the loader's lock, and nothing writes to a stream, raises a signal
// or ends the process.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Opens libdw once. 0, or -1 with csymbols_problem() saying why. Takes the loader's lock: call it when the
// monitor starts, never during a stall.
int csymbols_load(void);

// Why symbolication is not available (a constant string), or NULL if it is.
const char *csymbols_problem(void);

// Touches libdw's thread-local storage, which may take a lock of the loader's. Call it once on the thread that will
// look symbols up, before the first stall.
void csymbols_prepare_thread(void);

typedef struct csymbols_module csymbols_module;

struct csymbols_source {
  // The module's file, or NULL. "/proc/self/exe" is the running executable even after it was deleted or replaced.
  const char *path;
  // The GNU build ID that was found in memory; length 0 if the module has none.
  const uint8_t *build_id;
  size_t build_id_length;
  // Where separate debug files lie, usually "/usr/lib/debug"; the first that has one is taken.
  const char *const *debug_roots;
  size_t debug_root_count;
  // For a module without a build ID: a file that changed at or after this moment is not trusted, unless it is
  // /proc/self/exe. In ns of CLOCK_REALTIME_COARSE, which is what file systems stamp with.
  uint64_t not_changed_after;
  // Files are others' and may be hostile: each is opened once and kept open; the module's is `descriptor` (-1: there is
  // none), which the module takes over, and debug files are only taken from directories that nobody else can write to.
  bool is_strict;
  int descriptor;
  // No step takes much more memory than this; 0 is no such limit.
  size_t budget;
};

// Opens a module. NULL with *problem (a constant string) if neither the file nor separate debug
// information with the same build ID can be read. Cost: reading its headers; tables are built by
// the first look-up. No descriptor stays open, unless `is_strict`.
//
// Files are read and never mapped: one that is cut while it is in use gives no answer, and raises no SIGBUS.
csymbols_module *csymbols_open(const struct csymbols_source *source, const char **problem);

// Opens an image that lies in memory (the vDSO). The bytes must outlive the module.
csymbols_module *csymbols_open_image(const void *base, size_t length, const char **problem);

// What an ELF file says of itself.
struct csymbols_identity {
  uint8_t build_id[64];
  size_t build_id_length;
  bool has_symtab, has_dwarf;
};

// Opens a regular file that a client has named, and checks each step of its path. -1 if it cannot
// be opened, or if the last step of a path that others can change is a symbolic link.
//
// *is_trusted is set if the file, and each directory and link on the path, is root's (or this
// process's own user's), and no other user can write to it, except to a sticky directory. `root` is
// a directory that the path starts from, in which nothing is trusted, or -1.
int csymbols_open_module(int root, const char *path, bool *is_trusted);

// Reads what the file behind a descriptor says of itself; the descriptor stays the caller's.
bool csymbols_identify_descriptor(int descriptor, struct csymbols_identity *identity);

// Reads it. False if it is no executable, library or separate debug file of this machine.
bool csymbols_identify(const char *path, struct csymbols_identity *identity);

// The vDSO's image in this process and its length in bytes, or NULL.
const void *csymbols_vdso(size_t *length);

// Whether a file behind the module was changed or replaced since it was opened. One stat(2) a file.
bool csymbols_changed(const csymbols_module *module);

// Frees everything the module holds. Strings from its frames die with it.
void csymbols_close(csymbols_module *module);

// Drops the debug information's tables and what was read of the files, and keeps the symbol table. Strings from frames
// die.
void csymbols_trim(csymbols_module *module);

// Memory held, in bytes: exact for our own tables and for what was read of the files, estimated for libdw's.
size_t csymbols_bytes(const csymbols_module *module);

// One function at an address. Strings live until csymbols_trim() or csymbols_close(), and are NULL where unknown; `line`
// is 0 where unknown.
struct csymbols_frame {
  const char *linkage_name;
  const char *name;
  const char *file;
  uint32_t line;
  bool inlined;
  // Whether DWARF describes the function; whether it says the compiler made it (DW_AT_artificial); and whether it gives
  // a line of its declaration, which Swift's thunks and accessors lack.
  bool described, artificial, declared;
  // The symbol table shows that the code of several functions was merged into one. DWARF names the
  // first of them.
  bool merged;
  // The linkage name is that of a function of the module with a dot and the compiler's name of a copy behind it: `sum.avx2`.
  bool is_copy;
  // The file that declares the function, and the source file whose compilation saw the declaration, with the directory
  // that relative names start from.
  const char *declared_in, *unit_name, *unit_directory;
  // Where DWARF declares the function, and where its unit begins, for csymbols_qualified_name(); 0 if it does not.
  uint64_t die, unit;
};

enum {
  // The most functions at one address. Of more, the innermost ones and the outermost (physical) one are kept.
  CSYMBOLS_MAX_FRAMES = 64,
};

enum csymbols_status {
  CSYMBOLS_COMPLETE = 0,
  // The deadline passed, or libdw had no memory. What was found is valid; after a deadline, the next
  // look-up continues where the building of tables stopped.
  CSYMBOLS_INCOMPLETE = 1,
};

// Writes the functions at an ELF virtual address, innermost first, the last being the physical one, and their number to
// *count (0: nothing is known). `deadline` is CLOCK_MONOTONIC in ns.
enum csymbols_status csymbols_lookup(
    csymbols_module *module, uint64_t address, uint64_t deadline,
    struct csymbols_frame frames[CSYMBOLS_MAX_FRAMES], size_t *count);

// Whether the module defines one of these functions, by its symbol table. A function that it calls in another module does
// not count. Cost: one pass over the table's names for each function that it lacks.
enum csymbols_status csymbols_defines(
    csymbols_module *module, const char *const *names, size_t count, uint64_t deadline, bool *defines);

// The name in a frame of the last look-up with those of its namespaces and classes, `a::b::f`, for a function whose linkage name no
// demangler knows. NULL if there are none around it, or if they are not found by the deadline. Lives as long as the frame's strings.
const char *csymbols_qualified_name(
    csymbols_module *module, const struct csymbols_frame *frame, uint64_t deadline);

// What the module's information comes from, for tests and diagnostics.
struct csymbols_facts {
  size_t symbols, units;
  bool has_file, has_debug_file, has_dwarf;
};
struct csymbols_facts csymbols_facts(const csymbols_module *module);

// A demangled copy of a Swift or C++ linkage name, to be freed with free(); NULL if it is not mangled.
//
// What a compiler has put behind the name of a copy or a part of a function is left out. NULL also if demangling might take more work
// than a text of 64 KiB: the rule is stated in demangle.c.
char *csymbols_demangle(const char *linkage_name, size_t length);

#ifdef __cplusplus
}
#endif
