#define _GNU_SOURCE
#include "cunwind_memory.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// /proc/self/mem as it was when the calling thread prepared, or -1.
// Each thread that reads has its own, because a thread may have a descriptor table of its own. The mem file of a forked
// child's parent reads the parent's memory, so the process is kept with it.
static __thread struct {
  bool is_open;
  int file;
  dev_t device;
  ino_t inode;
  pid_t process;
} memory __attribute__((tls_model("initial-exec")));

static bool file_is_ours(void) {
  struct stat status;
  return memory.is_open && memory.process == getpid() && fstat(memory.file, &status) == 0 &&
         status.st_dev == memory.device && status.st_ino == memory.inode;
}

void cunwind_memory_prepare(void) {
  if (!file_is_ours()) {
    // A descriptor that the process has closed, and perhaps given to another file, is not ours to close.
    memory.file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    struct stat status;
    memory.is_open = memory.file >= 0 && fstat(memory.file, &status) == 0;
    if (memory.is_open) memory.device = status.st_dev, memory.inode = status.st_ino, memory.process = getpid();
  }
}

void cunwind_memory_finish(void) {
  if (file_is_ours()) close(memory.file);
  memory.is_open = false;
}

#if defined(__x86_64__)

static long raw_call(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "+a"(number)
                   : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return number;
}

#else

static long raw_call(long number, long a, long b, long c, long d, long e, long f) {
  int kept = errno;
  long result = syscall(number, a, b, c, d, e, f);
  if (result < 0) result = -errno;
  errno = kept;
  return result;
}

#endif

// The kernel checks each page, so a page that another thread unmaps is an error code and not a fault. A filter may kill
// for process_vm_readv, and may be installed for all threads in the middle of a capture; pread is allowed wherever
// anything is.
static long read_raw(uint64_t address, void *buffer, size_t length) {
  if (memory.is_open) return raw_call(SYS_pread64, memory.file, (long)buffer, (long)length, (long)address, 0, 0);
  if (prctl(PR_GET_SECCOMP) > 0) return -EPERM;
  struct iovec local = {buffer, length}, remote = {(void *)(uintptr_t)address, length};
  long self = raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
  return raw_call(SYS_process_vm_readv, self, (long)&local, 1, (long)&remote, 1, 0);
}

size_t cunwind_read(uint64_t address, void *buffer, size_t length) {
  size_t done = 0;
  while (done < length) {
    // A read that crosses into an unreadable page stops at the page before it.
    long n = read_raw(address + done, (char *)buffer + done, length - done);
    if (n <= 0) break;
    done += (size_t)n;
  }
  return done;
}

static bool read_exactly(uint64_t address, void *buffer, size_t length) {
  return cunwind_read(address, buffer, length) == length;
}

// GNU build id: the note of type NT_GNU_BUILD_ID with the name "GNU" in a PT_NOTE segment (ELF gABI, "Note Section").
static void read_build_id(const cunwind_module *found, cunwind_module *module) {
  module->build_id_length = 0;
  ElfW(Ehdr) header;
  if (!read_exactly(found->start, &header, sizeof header)) return;
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr))) return;
  for (unsigned i = 0; i < header.e_phnum && i < 64; i++) {
    ElfW(Phdr) segment;
    uint64_t at = found->start + header.e_phoff + i * sizeof segment;
    if (!read_exactly(at, &segment, sizeof segment)) return;
    if (segment.p_type != PT_NOTE) continue;
    uint64_t note = found->load_bias + segment.p_vaddr, end = note + segment.p_memsz;
    for (unsigned n = 0; n < 32 && note + sizeof(ElfW(Nhdr)) <= end; n++) {
      ElfW(Nhdr) entry;
      if (!read_exactly(note, &entry, sizeof entry)) break;
      uint64_t name = note + sizeof entry, body = name + ((entry.n_namesz + 3u) & ~3u);
      char owner[4];
      if (entry.n_type == NT_GNU_BUILD_ID && entry.n_namesz == 4 && entry.n_descsz <= CUNWIND_BUILD_ID_MAX &&
          read_exactly(name, owner, 4) && memcmp(owner, "GNU", 4) == 0 &&
          read_exactly(body, module->build_id, entry.n_descsz)) {
        module->build_id_length = entry.n_descsz;
        return;
      }
      note = body + (((uint64_t)entry.n_descsz + 3u) & ~3ull);
    }
  }
}

bool cunwind_find_module(uint64_t address, cunwind_module *module) {
  struct dl_find_object object;
  if (_dl_find_object((void *)(uintptr_t)address, &object) != 0) return false;
  module->start = (uint64_t)(uintptr_t)object.dlfo_map_start;
  module->end = (uint64_t)(uintptr_t)object.dlfo_map_end;
  module->eh_frame_header = (uint64_t)(uintptr_t)object.dlfo_eh_frame;
  // The link map may be freed by a dlclose at any moment, so it is read as foreign memory.
  struct link_map map;
  if (!read_exactly((uint64_t)(uintptr_t)object.dlfo_link_map, &map, sizeof map)) return false;
  module->load_bias = map.l_addr;
  size_t length = cunwind_read((uint64_t)(uintptr_t)map.l_name, module->path, CUNWIND_PATH_MAX - 1);
  module->path[length] = 0;
  read_build_id(module, module);
  return true;
}

// The binary search table of .eh_frame_hdr, as in unwind.c: pairs of a function's beginning and its entry, relative to the header.
uint64_t cunwind_function_start(uint64_t address) {
  struct dl_find_object object;
  if (_dl_find_object((void *)(uintptr_t)address, &object) != 0 || object.dlfo_eh_frame == NULL) return 0;
  uint64_t header = (uint64_t)(uintptr_t)object.dlfo_eh_frame;
  unsigned char bytes[12];
  static const unsigned char expected[4] = {0x01, 0x1b, 0x03, 0x3b};
  if (!read_exactly(header, bytes, sizeof bytes) || memcmp(bytes, expected, sizeof expected) != 0) return 0;
  uint32_t low = 0, high;
  memcpy(&high, bytes + 8, sizeof high);
  uint64_t found = 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    int32_t start;
    if (!read_exactly(header + 12 + 8 * (uint64_t)middle, &start, sizeof start)) return 0;
    uint64_t begin = header + (uint64_t)(int64_t)start;
    if (begin <= address) {
      found = begin;
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return found;
}
