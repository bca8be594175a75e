#define _GNU_SOURCE
#include "libunwind_table.h"

#include <stddef.h>

#include "cunwind_unwind.h"

#if defined(__x86_64__)

struct libunwind_table libunwind;

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

const char *cunwind_load(void) {
  cunwind_memory_prepare();
  if (libunwind.loaded) return NULL;
  void *library = dlopen("libunwind-x86_64.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return "libunwind-x86_64.so.8 was not found (Debian package libunwind8)";
#define X(name)                                                                              \
  libunwind.name = (__typeof__(libunwind.name))dlsym(library, TEXT(UNW_OBJ(name)));           \
  if (libunwind.name == NULL) return "libunwind-x86_64.so.8 lacks " TEXT(UNW_OBJ(name));
  LIBUNWIND_FUNCTIONS(X)
#undef X
  libunwind.loaded = true;
  return NULL;
}

#else

const char *cunwind_load(void) { return "stacks are taken on x86_64 only"; }

#endif
