#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <stdlib.h>

bool clinux_has_room(size_t small, size_t large) {
  void *volatile block = malloc(small);
  if (block == NULL) return false;
  free(block);
  if (large == 0) return true;
  // Not by malloc(3): a freed block of that size would change the limits by which it serves the rest of the process.
  void *pages = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return false;
  munmap(pages, large);
  return true;
}

int clinux_open_unnamed_at(int directory, unsigned mode) {
  return openat(directory, ".", O_RDWR | O_CLOEXEC | O_TMPFILE, mode);
}

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
