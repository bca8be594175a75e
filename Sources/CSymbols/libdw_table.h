// The functions of libelf and libdw that the symbolizer uses, as a table filled once by dlopen and dlsym.
//
// Neither library is linked: a service must not gain a dependency, and must start where elfutils is not installed.
// libdw.so.1 depends on libelf.so.1, so one handle finds the functions of both.
#pragma once

#include <features.h>

// Stacks, whose names are looked up, need glibc. With musl, a static executable cannot open libdw either,
// and Swift's Static Linux SDK has no headers of it.
#ifdef __GLIBC__
#define CSYMBOLS_HAS_LIBDW 1
#else
#define CSYMBOLS_HAS_LIBDW 0
#endif

#if CSYMBOLS_HAS_LIBDW

// In front of the compiler's own message, which does not name a package.
#if !__has_include(<elfutils/libdw.h>) || !__has_include(<dwarf.h>)
#error "elfutils/libdw.h is missing: install libdw-dev (Debian, Ubuntu) or elfutils-devel (Fedora)"
#endif
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <libelf.h>

#define CSYMBOLS_LIBDW_FUNCTIONS(X) \
  X(elf_version) \
  X(elf_errno) \
  X(elf_memory) \
  X(elf_end) \
  X(elf_nextscn) \
  X(elf_getscn) \
  X(elf_getdata) \
  X(elf_rawdata) \
  X(elf_strptr) \
  X(elf_getshdrstrndx) \
  X(elf64_getehdr) \
  X(elf64_getshdr) \
  X(elf64_getchdr) \
  X(dwarf_errno) \
  X(dwarf_begin_elf) \
  X(dwarf_end) \
  X(dwarf_setalt) \
  X(dwarf_new_oom_handler) \
  X(dwarf_nextcu) \
  X(dwarf_offdie) \
  X(dwarf_dieoffset) \
  X(dwarf_diecu) \
  X(dwarf_tag) \
  X(dwarf_haschildren) \
  X(dwarf_child) \
  X(dwarf_siblingof) \
  X(dwarf_ranges) \
  X(dwarf_haspc) \
  X(dwarf_attr) \
  X(dwarf_attr_integrate) \
  X(dwarf_formudata) \
  X(dwarf_formflag) \
  X(dwarf_formref_die) \
  X(dwarf_formstring) \
  X(dwarf_getsrcfiles) \
  X(dwarf_getsrclines) \
  X(dwarf_filesrc) \
  X(dwarf_getsrc_die) \
  X(dwarf_linesrc) \
  X(dwarf_lineno) \
  X(dwarf_lineaddr) \
  X(dwarf_lineprologueend) \
  X(dwarf_onesrcline) \
  X(dwelf_elf_gnu_build_id) \
  X(dwelf_elf_gnu_debuglink) \
  X(dwelf_dwarf_gnu_debugaltlink)

struct csymbols_libdw_table {
#define X(name) __typeof__(&name) name;
  CSYMBOLS_LIBDW_FUNCTIONS(X)
#undef X
};

// The table, or NULL before csymbols_load() succeeded. Any thread; never takes a lock.
const struct csymbols_libdw_table *csymbols_libdw(void);

#endif
