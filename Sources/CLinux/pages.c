#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>

bool clinux_pages_show_file(void *pages, size_t size, int descriptor) {
  // Elsewhere first: what the kernel refuses it refuses there. Kernels before 6.13 unmap what is in the place of MAP_FIXED before they
  // ask whether the file can be mapped.
  void *file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (file == MAP_FAILED) return false;
  madvise(file, size, MADV_DONTFORK);
  if (mremap(file, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, pages) != MAP_FAILED) return true;
  int code = errno;
  // Without memory for its own records the kernel may have left a hole.
  clinux_pages_hide_file(pages, size);
  munmap(file, size);
  errno = code;
  return false;
}
