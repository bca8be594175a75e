// Opens a file whose path comes from another user: checks each step of the path, and opens the file once.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#if CSYMBOLS_HAS_LIBDW

enum { MAX_LINKS = 40 };

// A way through directories.
struct walk {
  // Where ".." stops, and where links begin that are absolute.
  int top;
  // Where the way has come to.
  int here;
  // Whose files are trusted besides root's and this process's user's: the owner of a directory in the settings, or root.
  uid_t owner;
  bool is_trusted;
  int links;
  char rest[2 * PATH_MAX];
};

// Root's, or of the process's own user, or of the owner of the directory in the settings.
static bool is_owned(const struct walk *walk, const struct stat *status) {
  return status->st_uid == 0 || status->st_uid == geteuid() || status->st_uid == walk->owner;
}

// Whether nobody else can put another file in the place of one that is there. In a sticky directory nobody can rename
// or remove another user's entry; that owner is checked next.
static bool is_safe_directory(const struct walk *walk, const struct stat *status) {
  return is_owned(walk, status) && ((status->st_mode & (S_IWGRP | S_IWOTH)) == 0 || (status->st_mode & S_ISVTX) != 0);
}

static void go_to(struct walk *walk, int directory) {
  if (walk->here != walk->top) close(walk->here);
  walk->here = directory;
}

// Puts a link's target before what is left of the path.
static bool follow(struct walk *walk, int link, const char *after) {
  char target[PATH_MAX];
  ssize_t length = readlinkat(link, "", target, sizeof target - 1);
  if (length <= 0 || ++walk->links > MAX_LINKS) return false;
  target[length] = 0;
  size_t rest = strlen(after);
  if ((size_t)length + 1 + rest >= sizeof walk->rest) return false;
  if (target[0] == '/') go_to(walk, walk->top);
  memmove(walk->rest + length + 1, after, rest + 1);
  memcpy(walk->rest, target, (size_t)length);
  walk->rest[length] = '/';
  if (rest == 0) walk->rest[length] = 0;
  return true;
}

// The file itself, which must be the checked one. O_NONBLOCK: a FIFO of that name must not block.
static int open_last(const struct walk *walk, const char *name, const struct stat *expected) {
  struct stat status;
  int file = openat(walk->here, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return -1;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_dev == expected->st_dev
      && status.st_ino == expected->st_ino) {
    return file;
  }
  close(file);
  return -1;
}

static bool is_top(const struct walk *walk) {
  struct stat here, top;
  return walk->here == walk->top
      || (fstat(walk->here, &here) == 0 && fstat(walk->top, &top) == 0 && here.st_dev == top.st_dev
          && here.st_ino == top.st_ino);
}

// Goes one step further. -2 if the path continues, the file, or -1.
static int step(struct walk *walk) {
  char name[NAME_MAX + 1];
  const char *start = walk->rest + strspn(walk->rest, "/");
  size_t length = strcspn(start, "/");
  if (length == 0 || length > NAME_MAX) return -1;
  memcpy(name, start, length);
  name[length] = 0;
  const char *after = start + length + strspn(start + length, "/");
  bool is_last = *after == 0;
  if (strcmp(name, ".") != 0 && (strcmp(name, "..") != 0 || !is_top(walk))) {
    struct stat status;
    int next = openat(walk->here, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) return -1;
    if (fstat(next, &status) != 0) {
      close(next);
      return -1;
    }
    if (!is_owned(walk, &status)) walk->is_trusted = false;
    if (S_ISLNK(status.st_mode)) {
      // What a client's last step leads to is not opened: it may lead elsewhere at any time.
      bool goes_on = (!is_last || walk->is_trusted) && follow(walk, next, after);
      close(next);
      return goes_on ? -2 : -1;
    }
    if (S_ISREG(status.st_mode) && is_last) {
      close(next);
      if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) walk->is_trusted = false;
      return open_last(walk, name, &status);
    }
    if (!S_ISDIR(status.st_mode)) {
      close(next);
      return -1;
    }
    if (!is_safe_directory(walk, &status)) walk->is_trusted = false;
    go_to(walk, next);
  }
  if (is_last) return -1;
  memmove(walk->rest, after, strlen(after) + 1);
  return -2;
}

static int go(struct walk *walk, const char *path) {
  size_t length = strlen(path);
  if (length == 0 || length >= PATH_MAX) return -1;
  memcpy(walk->rest, path, length + 1);
  int file = -2;
  while (file == -2) file = step(walk);
  go_to(walk, walk->top);
  return file;
}

int csymbols_open_module(int root, const char *path, bool *is_trusted) {
  int top = root >= 0 ? root : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  *is_trusted = false;
  if (top < 0) return -1;
  struct walk walk = {.top = top, .here = top, .owner = 0, .is_trusted = root < 0};
  int file = go(&walk, path);
  *is_trusted = file >= 0 && walk.is_trusted;
  if (root < 0) close(top);
  return file;
}

int csymbols_open_trusted(const char *root, const char *path) {
  struct stat status;
  int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), base = top;
  if (top < 0) return -1;
  struct walk walk = {.top = top, .here = top, .owner = 0, .is_trusted = true};
  if (root != NULL) {
    // The operator has named it: any path is allowed.
    base = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (base >= 0 && fstat(base, &status) == 0) {
      walk.owner = status.st_uid;
      walk.here = base;
    }
  }
  int file = walk.here == base && base >= 0 ? go(&walk, path) : -1;
  if (file >= 0 && !walk.is_trusted) {
    close(file);
    file = -1;
  }
  close(top);
  return file;
}

#endif
