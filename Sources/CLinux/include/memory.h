// Pages of their own: memory that the child of a fork does not get, and a file in their place. Swift's Glibc module shows neither
// MAP_FAILED nor the MADV_ values, and open(2) and openat(2) are variadic. It can go when that module shows them.
#ifndef CLINUX_MEMORY_H
#define CLINUX_MEMORY_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/// Whether malloc(3) returns `small` bytes and the kernel `large` bytes at this moment: allocates
/// and frees them. Swift ends the process where an allocation fails.
bool clinux_has_room(size_t small, size_t large);

/// Zeroed pages of this process's own, or NULL. Not touched, they cost address space alone.
static inline void *clinux_pages(size_t size) {
  void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? NULL : pages;
}

static inline void clinux_pages_free(void *pages, size_t size) { munmap(pages, size); }

/// Makes the child of any fork find zeros in these pages. False on kernels before 4.14.
static inline bool clinux_pages_wipe_on_fork(void *pages, size_t size) {
#ifdef MADV_WIPEONFORK
  return madvise(pages, size, MADV_WIPEONFORK) == 0;
#else
  return false;
#endif
}

/// Puts a file in the place of pages that were made by `clinux_pages`; there is no moment without either. The child of a fork has
/// nothing there, and so does not keep the file's lock. If it fails, with errno, there may be new pages instead.
bool clinux_pages_show_file(void *pages, size_t size, int descriptor);

/// Takes the file out again.
static inline bool clinux_pages_hide_file(void *pages, size_t size) {
  return mmap(pages, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// TMPFS_MAGIC of linux/magic.h, which Swift's Static Linux SDK lacks.
enum { CLINUX_TMPFS = 0x01021994 };

/// Whether a file or a directory lies on tmpfs: its pages are never written to a disk, and once allocated are always there.
static inline bool clinux_is_on_tmpfs(int descriptor) {
  struct statfs system;
  return fstatfs(descriptor, &system) == 0 && system.f_type == CLINUX_TMPFS;
}

/// Whether a quarter at least is free of the file system that a file or a directory lies on, or it has no limit.
static inline bool clinux_has_quarter_free(int descriptor) {
  struct statfs system;
  return fstatfs(descriptor, &system) == 0 && system.f_bavail >= system.f_blocks / 4;
}

static inline int clinux_open_at(int directory, const char *name, int flags, unsigned mode) {
  return openat(directory, name, flags | O_CLOEXEC, mode);
}

/// A file without a name (O_TMPFILE, which glibc shows for _GNU_SOURCE alone): it vanishes with its last user unless it is named.
int clinux_open_unnamed_at(int directory, unsigned mode);

#endif
