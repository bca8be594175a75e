// Another process: its memory through /proc/PID/mem, its modules by /proc/PID/maps and their program headers.
//
// Both files belong to the program that the process runs when they are opened: after execve(2), or when the process has ended,
// nothing can be read.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "architecture.h"
#include "cunwind_snapshot.h"
#include "modules.h"

// Modules beyond these are not found.
#define MODULES_MAX 1024u
// What the modules' paths may take together; one that does not fit is cut off.
#define PATHS_MAX (128u << 10)
// A line of maps has a path of 4096 bytes at most, each of which may be written as four.
#define LINE_MAX_BYTES (20u << 10)
// What is read of maps at most.
#define MAPS_MAX (256u << 20)

struct other_module {
  struct cunwind_mapping mapping;
  struct cunwind_image image;
  uint32_t path;
  // Which file it is.
  uint64_t device, inode;
  // Whether code of it is mapped: a program may also map a module's file to read it.
  bool has_code;
};

struct other_process {
  struct cunwind_process shared;
  int memory, maps;
  unsigned count;
  uint32_t paths_length;
  // What /proc/PID/exe leads to; empty if that is not known.
  char executable[CUNWIND_PATH_MAX];
  // In the order of their addresses.
  struct other_module modules[MODULES_MAX];
  char paths[PATHS_MAX];
  unsigned char stack_copy[CUNWIND_STACK_CAPACITY];
};

// `shared` is the first member.
static const struct other_process *other_of(const cunwind_process *process) { return (const struct other_process *)process; }

// The kernel checks each page. A read that crosses into an unreadable page stops at the page before it.
static size_t read_other(const cunwind_process *process, uint64_t address, void *buffer, size_t length) {
  size_t done = 0;
  while (done < length) {
    long n = cunwind_raw_call(SYS_pread64, other_of(process)->memory, (long)((char *)buffer + done), (long)(length - done),
                              (long)(address + done), 0, 0);
    if (n <= 0) break;
    done += (size_t)n;
  }
  return done;
}

// -- Modules

// A line of maps (proc(5)).
struct line {
  uint64_t start, end, offset, device, inode;
  bool is_executable;
  const char *path;
};

// Scans a number that ends with `end`, and goes behind that.
static bool scan(const char **at, int radix, char end, uint64_t *number) {
  char *behind;
  *number = strtoull(*at, &behind, radix);
  if (behind == *at || *behind != end) return false;
  *at = behind + 1;
  return true;
}

static bool parse_line(const char *at, struct line *line) {
  uint64_t major, minor;
  if (!scan(&at, 16, '-', &line->start) || !scan(&at, 16, ' ', &line->end) || line->start >= line->end) return false;
  if (strnlen(at, 5) != 5 || at[4] != ' ') return false;
  line->is_executable = at[2] == 'x';
  at += 5;
  if (!scan(&at, 16, ' ', &line->offset) || !scan(&at, 16, ':', &major) || !scan(&at, 16, ' ', &minor)) return false;
  line->device = major << 32 | minor;
  char *behind;
  line->inode = strtoull(at, &behind, 10);
  if (behind == at) return false;
  line->path = behind + strspn(behind, " ");
  return true;
}

// Keeps a path without the kernel's mark of a removed file, and returns its place. That of the main executable is empty.
static uint32_t keep_path(struct other_process *other, const char *path, bool is_vdso) {
  static const char removed[] = " (deleted)";
  if (is_vdso) path = "linux-vdso.so.1";
  size_t length = strlen(path), mark = sizeof removed - 1;
  if (length > mark && strcmp(path + length - mark, removed) == 0) length -= mark;
  size_t known = strlen(other->executable);
  if (known > mark && strcmp(other->executable + known - mark, removed) == 0) known -= mark;
  if (known == length && memcmp(path, other->executable, length) == 0) length = 0;
  if (length > CUNWIND_PATH_MAX - 1) length = CUNWIND_PATH_MAX - 1;
  size_t space = PATHS_MAX - 1 - other->paths_length;
  if (length > space) length = space;
  uint32_t place = other->paths_length;
  memcpy(other->paths + place, path, length);
  other->paths[place + length] = 0;
  other->paths_length += (uint32_t)length + (place + length < PATHS_MAX - 1 ? 1 : 0);
  return place;
}

// Adds the module whose file is mapped from its beginning, if it is one.
static void add_module(struct other_process *other, const struct line *line, bool is_vdso) {
  ElfW(Ehdr) header;
  ElfW(Phdr) segments[CUNWIND_SEGMENTS_MAX];
  const cunwind_process *process = &other->shared;
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), lowest = UINT64_MAX, highest = 0, table = 0, dynamic = 0;
  if (other->count == MODULES_MAX || !cunwind_read_exactly(process, line->start, &header, sizeof header)) return;
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof *segments) return;
  if (header.e_phnum == 0 || header.e_phnum > CUNWIND_SEGMENTS_MAX) return;
  uint64_t headers = line->start + header.e_phoff;
  if (!cunwind_read_exactly(process, headers, segments, header.e_phnum * sizeof *segments)) return;
  for (unsigned i = 0; i < header.e_phnum; i++) {
    const ElfW(Phdr) *segment = &segments[i];
    if (segment->p_type == PT_GNU_EH_FRAME) table = segment->p_vaddr;
    if (segment->p_type == PT_DYNAMIC) dynamic = segment->p_vaddr;
    if (segment->p_type != PT_LOAD) continue;
    if ((segment->p_vaddr & ~(page - 1)) < lowest) lowest = segment->p_vaddr & ~(page - 1);
    if (segment->p_vaddr + segment->p_memsz > highest) highest = segment->p_vaddr + segment->p_memsz;
  }
  uint64_t bias = line->start - lowest;
  if (lowest >= highest || bias + highest <= line->start) return;
  struct other_module *module = &other->modules[other->count++];
  *module = (struct other_module){
      .mapping = {line->start, bias + highest, table == 0 ? 0 : bias + table, line->start},
      .image = {line->start, bias, dynamic == 0 ? 0 : bias + dynamic, headers, header.e_phnum},
      .path = keep_path(other, line->path, is_vdso),
      .device = line->device,
      .inode = line->inode,
      .has_code = line->is_executable,
  };
}

// Notes that code of a module is mapped. The vDSO may lie between the module's segments.
static void note_code(struct other_process *other, const struct line *line) {
  for (unsigned i = other->count; i > 0 && other->count - i < 2; i--) {
    struct other_module *module = &other->modules[i - 1];
    // Code may have been moved to large pages, which are of no file.
    bool is_its = line->inode == 0 || (line->inode == module->inode && line->device == module->device);
    if (is_its && line->start >= module->mapping.start && line->start < module->mapping.end) module->has_code = true;
  }
}

static void read_line(struct other_process *other, const char *text) {
  struct line line;
  if (!parse_line(text, &line)) return;
  bool is_vdso = strcmp(line.path, "[vdso]") == 0;
  if (is_vdso || (line.offset == 0 && line.inode != 0 && line.path[0] == '/')) add_module(other, &line, is_vdso);
  if (line.is_executable) note_code(other, &line);
}

static void read_maps(struct other_process *other) {
  char text[LINE_MAX_BYTES + 1];
  size_t length = 0, total = 0;
  bool is_cut = false;
  other->count = other->paths_length = 0;
  if (lseek(other->maps, 0, SEEK_SET) != 0) return;
  while (total < MAPS_MAX) {
    ssize_t count = read(other->maps, text + length, LINE_MAX_BYTES - length);
    if (count <= 0) break;
    total += (size_t)count;
    length += (size_t)count;
    size_t begin = 0;
    for (char *end; (end = memchr(text + begin, '\n', length - begin)) != NULL; begin = (size_t)(end - text) + 1) {
      *end = 0;
      if (!is_cut) read_line(other, text + begin);
      is_cut = false;
    }
    length -= begin;
    memmove(text, text + begin, length);
    // No line of the kernel's is as long.
    if (length == LINE_MAX_BYTES) length = 0, is_cut = true;
  }
  unsigned kept = 0;
  for (unsigned i = 0; i < other->count; i++)
    if (other->modules[i].has_code) other->modules[kept++] = other->modules[i];
  other->count = kept;
}

static const struct other_module *find(const struct other_process *other, uint64_t address) {
  unsigned low = 0, high = other->count;
  while (low < high) {
    unsigned middle = low + (high - low) / 2;
    if (other->modules[middle].mapping.start <= address)
      low = middle + 1;
    else
      high = middle;
  }
  // The module in front of it may have a gap in which that one lies.
  for (unsigned i = low; i > 0 && low - i < 2; i--)
    if (address < other->modules[i - 1].mapping.end) return &other->modules[i - 1];
  return NULL;
}

static bool find_other_mapping(const cunwind_process *process, uint64_t address, struct cunwind_mapping *mapping) {
  const struct other_module *module = find(other_of(process), address);
  if (module != NULL) *mapping = module->mapping;
  return module != NULL;
}

static bool describe_other(const cunwind_process *process, const struct cunwind_mapping *mapping, cunwind_module *module) {
  const struct other_module *found = find(other_of(process), mapping->start);
  if (found == NULL) return false;
  module->load_bias = found->image.load_bias;
  snprintf(module->path, sizeof module->path, "%s", other_of(process)->paths + found->path);
  return true;
}

// The list of mappings is long: it is read when the handle is opened, and when modules may have been unloaded.
static void refresh_other(cunwind_process *process, bool forgets) {
  if (forgets) read_maps((struct other_process *)process);
}

static bool each_other_image(const cunwind_process *process, const struct cunwind_mapping *near,
                             bool (*body)(void *argument, const struct cunwind_image *image), void *argument) {
  (void)near;
  const struct other_process *other = other_of(process);
  for (unsigned i = 0; i < other->count; i++)
    if (!body(argument, &other->modules[i].image)) break;
  return other->count < MODULES_MAX;
}

// -- The handle

static const struct cunwind_access other_access = {
    .read = read_other,
    .find_mapping = find_other_mapping,
    .describe = describe_other,
    .refresh = refresh_other,
    .each_image = each_other_image,
};

static int open_file(int32_t id, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)id, name);
  return open(path, O_RDONLY | O_CLOEXEC);
}

cunwind_process *cunwind_process_open(int32_t id, int *error) {
  struct other_process *other = calloc(1, sizeof *other);
  if (other == NULL) {
    *error = ENOMEM;
    return NULL;
  }
  other->shared.access = &other_access;
  other->shared.id = id;
  other->shared.stack_copy = other->stack_copy;
  other->maps = -1;
  other->memory = open_file(id, "mem");
  if (other->memory >= 0) other->maps = open_file(id, "maps");
  *error = errno;
  if (other->maps < 0) {
    cunwind_process_close(&other->shared);
    return NULL;
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)id);
  ssize_t length = readlink(path, other->executable, sizeof other->executable - 1);
  other->executable[length > 0 ? length : 0] = 0;
  read_maps(other);
  // A process that has ended has memory that nobody can read, and no modules.
  if (other->count == 0) {
    *error = ESRCH;
    cunwind_process_close(&other->shared);
    return NULL;
  }
  return &other->shared;
}

bool cunwind_process_is_over(const cunwind_process *process) {
  char byte;
  // Where nothing lies, an error; but where there is no memory any more, the end of the file.
  return process->id != 0 && pread(other_of(process)->memory, &byte, 1, 0) == 0;
}

void cunwind_process_close(cunwind_process *process) {
  if (process == NULL) return;
  struct other_process *other = (struct other_process *)process;
  if (other->memory >= 0) close(other->memory);
  if (other->maps >= 0) close(other->maps);
  free(other);
}
