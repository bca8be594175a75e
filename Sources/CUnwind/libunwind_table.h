// The functions of libunwind's remote API, found at run time.
//
// Never linked: libunwind.so.8 exports _Unwind_RaiseException and its kin ahead of libgcc_s in the look-up order, and
// C++ throws in the service become 35 times slower. Opened with RTLD_LOCAL its names reach nobody else.
#ifndef LIBUNWIND_TABLE_H
#define LIBUNWIND_TABLE_H

#include <dlfcn.h>
#include <stdbool.h>

#include "architecture.h"

#if CUNWIND_HAS_STACKS
// In front of the compiler's own message, which does not name a package.
#if !__has_include(CUNWIND_LIBUNWIND_HEADER)
#error "libunwind's headers are missing: install libunwind-dev (Debian, Ubuntu) or libunwind-devel (Fedora)"
#endif
#include CUNWIND_LIBUNWIND_HEADER

// Exported by the library, and declared in no public header.
extern int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t *, unw_proc_info_t *, int,
                                              void *);

#define LIBUNWIND_FUNCTIONS(X)                                                                       \
  X(create_addr_space) X(destroy_addr_space) X(set_caching_policy) X(flush_cache) X(init_remote) X(step) \
  X(get_reg) X(dwarf_search_unwind_table)

struct libunwind_table {
  bool loaded;
  // Whether `unw_dyn_info_t` has `load_offset`; libunwind 1.3 has none.
  bool has_load_offset;
#define X(name) __typeof__(&UNW_OBJ(name)) name;
  LIBUNWIND_FUNCTIONS(X)
#undef X
};
extern struct libunwind_table libunwind __attribute__((visibility("hidden")));
#endif

#endif
