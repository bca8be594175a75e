// Demangling by the runtimes that are in the process anyway.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

// libswiftCore exports it (swift/Demangling/Demangle.h). Weak: a process without Swift links, too.
extern char *swift_demangle(
    const char *name, size_t length, char *output, size_t *output_size, uint32_t flags) __attribute__((weak));
// libstdc++ exports it (cxxabi.h). Weak: with no C++ in the service there is nothing to demangle.
extern char *__cxa_demangle(const char *name, char *output, size_t *length, int *status) __attribute__((weak));

typedef char *cxx_demangle(const char *, char *, size_t *, int *);
static _Atomic(cxx_demangle *) cxx;

enum {
  // Both demanglers recurse with the name's depth, on the watchdog's stack.
  MAX_SWIFT = 8192,
  MAX_CXX = 2048,
};

void csymbols_demangle_load(void) {
  cxx_demangle *found = __cxa_demangle;
  // The linker may bind a weak reference to nothing although libstdc++ comes in with libswiftCore.
  if (found == NULL) found = (cxx_demangle *)dlsym(RTLD_DEFAULT, "__cxa_demangle");
  atomic_store(&cxx, found);
}

char *csymbols_demangle(const char *name, size_t length) {
  if (length < 3) return NULL;
  bool swift = (name[0] == '$' && (name[1] == 's' || name[1] == 'S' || name[1] == 'e'))
      || (name[0] == '_' && (name[1] == '$' || (name[1] == 'T' && name[2] == '0')));
  if (swift) return swift_demangle != NULL && length <= MAX_SWIFT ? swift_demangle(name, length, NULL, NULL, 0) : NULL;
  cxx_demangle *demangle = atomic_load_explicit(&cxx, memory_order_relaxed);
  if (name[0] != '_' || name[1] != 'Z' || demangle == NULL || length > MAX_CXX) return NULL;
  int status = 0;
  return demangle(name, NULL, NULL, &status);
}
