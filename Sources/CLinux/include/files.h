// statx(2), which glibc shows for _GNU_SOURCE alone, and extended attributes, which Swift's Glibc
// module lacks. It can go when that shows them.
#ifndef CLINUX_FILES_H
#define CLINUX_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/xattr.h>

/// When a file was made, in seconds since 1970; 0 where its file system does not keep that.
int64_t clinux_birth_time(int descriptor);

/// Writes a text beside a file's content, as an extended attribute; false where the file system cannot do that.
static inline bool clinux_set_attribute(int descriptor, const char *name, const char *text) {
  return fsetxattr(descriptor, name, text, strlen(text), 0) == 0;
}

/// Reads such a text, and ends it with a zero; its length, or -1.
static inline long clinux_attribute(int descriptor, const char *name, char *text, long size) {
  long length = fgetxattr(descriptor, name, text, size - 1);
  if (length >= 0) text[length] = 0;
  return length;
}

#endif
