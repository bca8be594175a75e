// Opening ELF files, checking that they are the right ones, and reading them in parts.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

#if CSYMBOLS_HAS_LIBDW

#if defined(__x86_64__)
#define NATIVE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define NATIVE_MACHINE EM_AARCH64
#else
#warning "unknown ELF machine: all symbol files are refused, and frames have no names"
#define NATIVE_MACHINE EM_NONE
#endif

enum {
  MAX_NOTES = 1 << 20,
  // What a copy is filled by.
  PAGE = 4096,
  // Zeros on both sides of a copy: a library that reads past a corrupt file's end reads them, and does not fault.
  MARGIN = 1 << 20,
};

static const size_t max_file = (size_t)4 << 30;
// If more than this is needed of a file, it is not read.
static const size_t max_copy = (size_t)512 << 20;
// The largest file that may be hostile and is read: the address space of who reads it is limited.
static const size_t max_strict_file = (size_t)1 << 30;

static bool right_kind(Elf *elf) {
  Elf64_Ehdr *header = csymbols_libdw()->elf64_getehdr(elf);
  // What dwz(1) has moved parts into is written as an object file.
  return header != NULL && header->e_ident[EI_DATA] == ELFDATA2LSB && header->e_machine == NATIVE_MACHINE
      && (header->e_type == ET_EXEC || header->e_type == ET_DYN || header->e_type == ET_REL);
}

bool csymbols_image_borrow(struct image *image, const void *base, size_t length) {
  // libelf asks for a writable pointer and writes through it only on request.
  image->bytes = (char *)(uintptr_t)base;
  image->length = length;
  image->kind = IMAGE_BORROWED;
  image->elf = csymbols_libdw()->elf_memory(image->bytes, length);
  if (image->elf != NULL && right_kind(image->elf)) return true;
  csymbols_image_close(image);
  return false;
}

// The running executable's own inode, which the kernel lets nobody write to (ETXTBSY).
static bool is_running(const struct csymbols_source *source) {
  return source->path != NULL && strcmp(source->path, "/proc/self/exe") == 0;
}

static bool right_build(const struct image *image, const struct csymbols_source *source) {
  const void *found = NULL;
  ssize_t length = csymbols_libdw()->dwelf_elf_gnu_build_id(image->elf, &found);
  if (length > 0) {
    return (size_t)length == source->build_id_length && memcmp(found, source->build_id, (size_t)length) == 0;
  }
  // Without IDs on both sides, only the time shows whether it is still the file that was loaded. A
  // rename counts as a change of the inode (ctime) on ext4, xfs and btrfs.
  uint64_t changed =
      (uint64_t)image->status.st_ctim.tv_sec * 1000000000u + (uint64_t)image->status.st_ctim.tv_nsec;
  return source->build_id_length == 0 && (changed < source->not_changed_after || is_running(source));
}

// MARK: The copy

static bool same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size
      && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool csymbols_image_changed(const struct image *image) {
  struct stat now;
  if (image->path == NULL) return false;
  int result = image->keeps ? fstat(image->fd, &now) : stat(image->path, &now);
  return image->broken || result != 0 || !same_file(&now, &image->status);
}

bool csymbols_image_real_path(const struct image *image, char path[PATH_MAX]) {
  char open_file[64];
  const char *link = image->path;
  // Of a file that stays open: wherever a client's path leads by now.
  if (image->keeps) {
    snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", image->fd);
    link = open_file;
  } else if (link == NULL || realpath(link, path) != NULL) {
    return link != NULL;
  }
  // A running executable that was removed: the link still says where it was.
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length > 0 ? length : 0] = 0;
  return length > 0 && path[0] == '/';
}

// O_NONBLOCK: a FIFO of that name must not hold the watchdog up.
static bool open_file(struct image *image) {
  image->fd = open(image->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  image->is_open = image->fd >= 0;
  return image->is_open;
}

void csymbols_image_rest(struct image *image) {
  if (!image->is_open || image->keeps) return;
  close(image->fd);
  image->is_open = false;
}

bool csymbols_image_read(struct image *image, size_t offset, void *buffer, size_t length) {
  struct stat now;
  if (image->broken) return false;
  if (!image->is_open && (!open_file(image) || fstat(image->fd, &now) != 0 || !same_file(&now, &image->status))) {
    image->broken = true;
    return false;
  }
  for (size_t done = 0; done < length;) {
    ssize_t count = pread(image->fd, (char *)buffer + done, length - done, (off_t)(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      image->broken = true;
      return false;
    }
    done += (size_t)count;
  }
  return true;
}

static bool is_filled(const struct image *image, size_t page) {
  return (image->filled[page / 64] >> page % 64 & 1) != 0;
}

bool csymbols_image_need(struct image *image, const void *start, size_t length) {
  const char *first = start;
  if (image->kind != IMAGE_COPY || first < image->bytes || first >= image->bytes + image->length) return true;
  size_t offset = (size_t)(first - image->bytes);
  if (length == 0) return true;
  if (length > image->length - offset) length = image->length - offset;
  size_t last = (offset + length - 1) / PAGE;
  for (size_t page = offset / PAGE; page <= last;) {
    size_t end = page;
    while (end <= last && !is_filled(image, end)) end++;
    if (end == page) {
      page++;
      continue;
    }
    size_t from = page * PAGE, to = end * PAGE < image->length ? end * PAGE : image->length;
    if (image->filled_bytes + (to - from) > csymbols_limit(max_copy, image->budget)) {
      image->broken = true;
      return false;
    }
    if (!csymbols_image_read(image, from, image->bytes + from, to - from)) return false;
    image->filled_bytes += to - from;
    for (; page < end; page++) image->filled[page / 64] |= (uint64_t)1 << page % 64;
  }
  return true;
}

const char *csymbols_image_string(struct image *image, const char *text, size_t limit) {
  if (text == NULL || image->kind != IMAGE_COPY || text < image->bytes || text >= image->bytes + image->length) {
    return text;
  }
  size_t left = (size_t)(image->bytes + image->length - text);
  if (limit > left) limit = left;
  for (size_t length = 0; length < limit;) {
    size_t page_left = PAGE - (size_t)(text + length - image->bytes) % PAGE;
    size_t here = page_left < limit - length ? page_left : limit - length;
    if (!csymbols_image_need(image, text + length, here)) return NULL;
    if (memchr(text + length, 0, here) != NULL) return text;
    length += here;
  }
  return NULL;
}

const char *csymbols_image_name(struct image *image, const char *text, size_t limit) {
  const char *whole = csymbols_image_string(image, text, limit);
  bool is_ours = text >= image->bytes && text < image->bytes + image->length && image->kind != IMAGE_BORROWED;
  if (!is_ours || image->broken || (size_t)(image->bytes + image->length - text) < limit) return whole;
  if (whole != NULL && memchr(text, 0, limit) != NULL) return whole;
  char *end = image->bytes + (text - image->bytes) + limit - 1;
  // The bytes of a character of UTF-8 behind its first one, which are three at most.
  for (size_t i = 0; i < 3 && (*end & 0xC0) == 0x80; i++) end--;
  *end = 0;
  return text;
}

void csymbols_image_need_section(struct image *image, size_t index) {
  Elf_Scn *section = index != 0 ? csymbols_libdw()->elf_getscn(image->elf, index) : NULL;
  Elf64_Shdr *header = section != NULL ? csymbols_libdw()->elf64_getshdr(section) : NULL;
  if (header == NULL || header->sh_type == SHT_NOBITS || header->sh_offset >= image->length) return;
  csymbols_image_need(image, image->bytes + header->sh_offset, header->sh_size);
}

// Fills what libelf reads when it opens a file, and the notes, which have the build ID.
static bool fill_headers(struct image *image) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)image->bytes;
  if (!csymbols_image_need(image, header, PAGE)) return false;
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return false;
  // From here on the header's own numbers are used, for better or worse: libelf checks them, and we only fill.
  size_t sections = header->e_shnum;
  if (header->e_shoff < image->length) {
    const Elf64_Shdr *first = (const Elf64_Shdr *)(image->bytes + header->e_shoff);
    if (image->length - header->e_shoff >= sizeof *first) {
      if (!csymbols_image_need(image, first, sizeof *first)) return false;
      Elf64_Shdr zeroth;
      memcpy(&zeroth, first, sizeof zeroth);
      if (sections == 0) sections = zeroth.sh_size;
      if (sections > CSYMBOLS_MAX_SECTIONS) return false;
      if (!csymbols_image_need(image, first, sections * sizeof *first)) return false;
    }
  }
  if (header->e_phoff < image->length) {
    if (!csymbols_image_need(image, image->bytes + header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr))) return false;
  }
  image->elf = dw->elf_memory(image->bytes, image->length);
  if (image->elf == NULL || !right_kind(image->elf)) return false;
  size_t names = 0;
  if (dw->elf_getshdrstrndx(image->elf, &names) == 0) csymbols_image_need_section(image, names);
  Elf_Scn *section = NULL;
  for (size_t index = 1; index < CSYMBOLS_MAX_SECTIONS && (section = dw->elf_nextscn(image->elf, section)) != NULL; index++) {
    Elf64_Shdr *note = dw->elf64_getshdr(section);
    if (note != NULL && note->sh_type == SHT_NOTE && note->sh_size <= MAX_NOTES) {
      csymbols_image_need_section(image, index);
    }
  }
  // A file whose sections were cut off has them in segments only.
  for (size_t i = 0; i < header->e_phnum; i++) {
    Elf64_Phdr segment;
    size_t at = header->e_phoff + i * sizeof segment;
    if (at > image->length || image->length - at < sizeof segment) break;
    memcpy(&segment, image->bytes + at, sizeof segment);
    if (segment.p_type != PT_NOTE || segment.p_offset >= image->length || segment.p_filesz > MAX_NOTES) continue;
    csymbols_image_need(image, image->bytes + segment.p_offset, segment.p_filesz);
  }
  return !image->broken;
}

static bool copy(struct image *image, const struct csymbols_source *source) {
  if (!image->keeps) {
    // Not every file is one to open: a tape winds back.
    if (stat(image->path, &image->status) != 0 || !S_ISREG(image->status.st_mode) || !open_file(image)) return false;
  }
  if (fstat(image->fd, &image->status) != 0 || !S_ISREG(image->status.st_mode)) return false;
  size_t limit = image->keeps ? max_strict_file : max_file;
  if (image->status.st_size < (off_t)sizeof(Elf64_Ehdr) || (size_t)image->status.st_size > limit) return false;
  image->length = (size_t)image->status.st_size;
  image->filled = calloc(image->length / PAGE / 64 + 1, sizeof *image->filled);
  if (image->filled == NULL) return false;
  // Memory of our own of the file's length; a page of it costs something once it is filled. Writable: elf_compress()
  // changes a section's header in place when it unpacks it.
  size_t size = image->length + 2 * MARGIN;
  char *bytes = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == MAP_FAILED) return false;
  // A service that locks its memory (mlockall) would get all of it at once, were it accessible before it is unlocked.
  munlock(bytes, size);
  if (mprotect(bytes, size, PROT_READ | PROT_WRITE) != 0) {
    munmap(bytes, size);
    return false;
  }
  madvise(bytes, size, MADV_NOHUGEPAGE);
  madvise(bytes, size, MADV_DONTDUMP);
  image->bytes = bytes + MARGIN;
  image->kind = IMAGE_COPY;
  return fill_headers(image) && (source == NULL || right_build(image, source));
}

static bool open_path(struct image *image, const struct csymbols_source *source, char *path) {
  image->path = path;
  bool good = image->path != NULL && copy(image, source);
  csymbols_image_rest(image);
  if (!good) csymbols_image_close(image);
  return good;
}

bool csymbols_image_open_descriptor(
    struct image *image, const struct csymbols_source *source, int descriptor, const char *path) {
  image->fd = descriptor;
  image->is_open = image->keeps = true;
  image->budget = source != NULL ? source->budget : 0;
  return open_path(image, source, strdup(path));
}

bool csymbols_image_open(
    struct image *image, const struct csymbols_source *source, const char *root, const char *path) {
  if (path == NULL) return false;
  size_t before = root != NULL ? strlen(root) : 0, length = strlen(path);
  char *whole = malloc(before + length + 1);
  if (whole == NULL) return false;
  if (before > 0) memcpy(whole, root, before);
  memcpy(whole + before, path, length + 1);
  if (source == NULL || !source->is_strict) return open_path(image, source, whole);
  int descriptor = csymbols_open_trusted(root, path);
  bool good = descriptor >= 0 && csymbols_image_open_descriptor(image, source, descriptor, whole);
  free(whole);
  return good;
}

void csymbols_image_close(struct image *image) {
  image->keeps = false;
  csymbols_image_rest(image);
  if (image->elf != NULL) csymbols_libdw()->elf_end(image->elf);
  if (image->kind == IMAGE_COPY) munmap(image->bytes - MARGIN, image->length + 2 * MARGIN);
  if (image->kind == IMAGE_HEAP) free(image->bytes);
  free(image->filled);
  free(image->path);
  *image = (struct image){.kind = IMAGE_NONE};
}

bool csymbols_image_repack(struct image *image) {
  if (image->kind != IMAGE_COPY) return true;
  if (image->elf != NULL) csymbols_libdw()->elf_end(image->elf);
  image->elf = NULL;
  // Anonymous memory that is given back reads as zeros.
  madvise(image->bytes, image->length, MADV_DONTNEED);
  memset(image->filled, 0, (image->length / PAGE / 64 + 1) * sizeof *image->filled);
  image->filled_bytes = 0;
  bool good = fill_headers(image);
  csymbols_image_rest(image);
  if (!good) image->broken = true;
  return good;
}

size_t csymbols_section(struct image *image, const char *name, const char *compressed_name) {
  const struct csymbols_libdw_table *dw = csymbols_libdw();
  size_t names = 0;
  if (image->elf == NULL || dw->elf_getshdrstrndx(image->elf, &names) != 0) return 0;
  Elf_Scn *section = NULL;
  for (size_t index = 1; index < CSYMBOLS_MAX_SECTIONS && (section = dw->elf_nextscn(image->elf, section)) != NULL; index++) {
    Elf64_Shdr *header = dw->elf64_getshdr(section);
    if (header == NULL || header->sh_type == SHT_NOBITS) continue;
    const char *found = dw->elf_strptr(image->elf, names, header->sh_name);
    if (found == NULL) continue;
    if (strcmp(found, name) == 0 || (compressed_name != NULL && strcmp(found, compressed_name) == 0)) return index;
  }
  return 0;
}

#endif
