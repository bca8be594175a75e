#define _GNU_SOURCE
#include "libdw_table.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include "internal.h"

#if CSYMBOLS_HAS_LIBDW

static struct csymbols_libdw_table table;
static _Atomic(const struct csymbols_libdw_table *) published;
static _Atomic(const char *) problem = "the symbolizer is not loaded";
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
  csymbols_demangle_load();
  // RTLD_NOW: nothing is left to be bound, under the loader's lock, in the middle of a stall.
  // RTLD_LOCAL: its dependencies don't take part in the service's symbol look-up.
  void *handle = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    // Names the library that is missing, which may be one that libdw needs.
    // A path may have 4096 bytes.
    static char text[4096 + 256];
    const char *words = dlerror();
    snprintf(text, sizeof text, "%s (Debian package libdw1)", words != NULL ? words : "libdw.so.1");
    atomic_store(&problem, (const char *)text);
    return;
  }
#define X(name) \
  table.name = (__typeof__(table.name))dlsym(handle, #name); \
  if (table.name == NULL) { \
    atomic_store(&problem, "libdw.so.1 has no function " #name); \
    return; \
  }
  CSYMBOLS_LIBDW_FUNCTIONS(X)
#undef X
  if (table.elf_version(EV_CURRENT) == EV_NONE) {
    atomic_store(&problem, "libelf.so.1 does not know this version of ELF");
    return;
  }
  csymbols_lzma_load();
  atomic_store(&problem, (const char *)NULL);
  atomic_store(&published, &table);
}

const struct csymbols_libdw_table *csymbols_libdw(void) {
  return atomic_load_explicit(&published, memory_order_acquire);
}

int csymbols_load(void) {
  pthread_once(&once, load);
  return csymbols_libdw() != NULL ? 0 : -1;
}

const char *csymbols_problem(void) {
  return atomic_load(&problem);
}

void csymbols_prepare_thread(void) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  if (dw == NULL) return;
  // A thread's first touch of a dlopen'ed library's thread-local storage allocates and takes the loader's TLS lock.
  (void)dw->elf_errno();
  (void)dw->dwarf_errno();
}

#endif
