#define _GNU_SOURCE
#include "cunwind_perf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "architecture.h"
#include "snapshot_internal.h"

#if CUNWIND_HAS_STACKS

#include <linux/capability.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

// The kernel takes a multiple of 8 below 65536, and gives less if the record would not fit into 64 KiB.
#define STACK_BYTES 65528u
// One record and the rest of another.
#define RING_BYTES (128u << 10)
// More than any thread's id: the kernel finds no such thread.
#define NO_SUCH_THREAD 0x7ffffffe

static uint64_t register_mask(void) {
  uint64_t mask = 0;
  for (int i = 0; i < CUNWIND_REGISTERS; i++) mask |= 1ull << cunwind_perf_registers[i];
  return mask;
}

// What all events have: they are enabled later.
static struct perf_event_attr attributes_of(uint32_t type) {
  struct perf_event_attr attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.size = sizeof attributes;
  attributes.type = type;
  attributes.disabled = 1;
  attributes.exclude_hv = 1;
  return attributes;
}

static long open_event(int32_t thread, bool samples_kernel) {
  struct perf_event_attr attributes = attributes_of(PERF_TYPE_SOFTWARE);
  attributes.config = PERF_COUNT_SW_CPU_CLOCK;
  attributes.sample_period = CUNWIND_PERF_PERIOD_NS;
  attributes.sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
  attributes.sample_regs_user = register_mask();
  attributes.sample_stack_user = STACK_BYTES;
  attributes.exclude_kernel = samples_kernel ? 0 : 1;
  attributes.exclude_callchain_kernel = 1;
  attributes.wakeup_events = 1;
  return syscall(SYS_perf_event_open, &attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

bool cunwind_perf_is_permitted(void) {
  int kept = errno;
  // The permission is checked before the thread is looked for: no event comes into being.
  bool permitted = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0 && open_event(NO_SUCH_THREAD, false) < 0 && errno == ESRCH;
  errno = kept;
  return permitted;
}

void cunwind_perf_keep_ready(void) {
  static __thread bool is_kept;
  if (is_kept || prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0) return;
  int kept = errno;
  struct perf_event_attr attributes = attributes_of(PERF_TYPE_SOFTWARE);
  attributes.config = PERF_COUNT_SW_DUMMY;
  attributes.exclude_kernel = 1;
  // The kernel closes it with the thread's descriptor table.
  is_kept = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) >= 0;
  errno = kept;
}

// Asked beforehand, because a refusal is written to the audit log where a security module checks capabilities.
static bool may_sample_kernel(void) {
  char level[8];
  int file = open("/proc/sys/kernel/perf_event_paranoid", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    ssize_t length = read(file, level, sizeof level);
    close(file);
    if (length > 0 && (level[0] == '-' || level[0] == '0' || (level[0] == '1' && (length == 1 || level[1] == '\n'))))
      return true;
  }
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  struct __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data) != 0) return false;
  uint64_t effective = (uint64_t)data[1].effective << 32 | data[0].effective;
  return (effective & (1ull << 38 /* CAP_PERFMON */ | 1ull << CAP_SYS_ADMIN)) != 0;
}

enum cunwind_capture_result cunwind_perf_open(cunwind_perf *perf, cunwind_process *process, int32_t thread) {
  memset(perf, 0, sizeof *perf);
  perf->descriptor = -1;
  perf->process = process;
  perf->thread = thread;
  if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0) return CUNWIND_CAPTURE_UNSUPPORTED;
  long descriptor = -1;
  if (may_sample_kernel()) {
    descriptor = open_event(thread, true);
    perf->samples_kernel = descriptor >= 0;
  }
  if (descriptor < 0) descriptor = open_event(thread, false);
  if (descriptor < 0) {
    if (errno == ESRCH) return CUNWIND_CAPTURE_NO_THREAD;
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? CUNWIND_CAPTURE_REFUSED
                                                                 : CUNWIND_CAPTURE_UNSUPPORTED;
  }
  perf->descriptor = (int)descriptor;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  perf->size = page + (RING_BYTES > page ? RING_BYTES : page);
  perf->pages = mmap(NULL, perf->size, PROT_READ | PROT_WRITE, MAP_SHARED, perf->descriptor, 0);
  if (perf->pages == MAP_FAILED) {
    perf->pages = NULL;
    cunwind_perf_close(perf);
    return CUNWIND_CAPTURE_REFUSED;
  }
  return CUNWIND_CAPTURED;
}

bool cunwind_perf_request(cunwind_perf *perf) {
  struct perf_event_mmap_page *page = perf->pages;
  __atomic_store_n(&page->data_tail, __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
  return ioctl(perf->descriptor, PERF_EVENT_IOC_REFRESH, 1) == 0;
}

struct ring {
  const unsigned char *bytes;
  uint64_t size;
};

static void ring_read(struct ring ring, uint64_t at, void *to, size_t length) {
  uint64_t offset = at % ring.size;
  size_t first = length < ring.size - offset ? length : (size_t)(ring.size - offset);
  memcpy(to, ring.bytes + offset, first);
  memcpy((char *)to + first, ring.bytes, length - first);
}

// A record of type PERF_RECORD_SAMPLE (perf_event_open(2)): abi, registers, size, stack, size of what was copied.
static bool copy_sample(cunwind_process *process, struct ring ring, uint64_t at, uint64_t end, bool was_in_kernel,
                        cunwind_snapshot *snapshot) {
  uint64_t abi, registers[64], size, copied;
  unsigned count = 0;
  if (end - at < 16) return false;
  ring_read(ring, at, &abi, 8);
  at += 8;
  if (abi != PERF_SAMPLE_REGS_ABI_64 || end - at < CUNWIND_REGISTERS * 8 + 16) return false;
  for (unsigned bit = 0; bit < 64; bit++) {
    if ((register_mask() >> bit & 1) == 0) continue;
    ring_read(ring, at + 8 * count++, &registers[bit], 8);
  }
  at += 8 * count;
  ring_read(ring, at, &size, 8);
  at += 8;
  if (size == 0 || size > end - at - 8) return false;
  ring_read(ring, at + size, &copied, 8);
  if (copied > size) return false;
  unsigned char *copy = cunwind_copy_begin(process);
  if (copy == NULL) return false;
  memset(snapshot, 0, sizeof *snapshot);
  for (int i = 0; i < CUNWIND_REGISTERS; i++) {
    snapshot->registers[i] = registers[cunwind_perf_registers[i]];
    // Inside a system call the kernel may not know the preserved registers, and gives all ones.
    bool is_preserved = (CUNWIND_PRESERVED >> i & 1) != 0;
    if (!was_in_kernel || !is_preserved || snapshot->registers[i] != ~0ull) snapshot->known |= 1ull << i;
  }
  ring_read(ring, at, copy, copied);
  snapshot->stack_address = snapshot->registers[CUNWIND_STACK_POINTER];
  snapshot->stack_length = copied;
  snapshot->stack = copy;
  return true;
}

enum cunwind_capture_result cunwind_perf_wait(cunwind_perf *perf, uint64_t timeout_ns, cunwind_snapshot *snapshot) {
  struct perf_event_mmap_page *page = perf->pages;
  struct ring ring = {(unsigned char *)perf->pages + page->data_offset, page->data_size};
  uint64_t end = cunwind_now_ns() + timeout_ns;
  for (;;) {
    uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), tail = page->data_tail;
    while (head - tail >= sizeof(struct perf_event_header)) {
      struct perf_event_header header;
      ring_read(ring, tail, &header, sizeof header);
      if (header.size < sizeof header || header.size > head - tail) break;
      bool is_sample =
          header.type == PERF_RECORD_SAMPLE &&
          copy_sample(perf->process, ring, tail + sizeof header, tail + header.size,
                      (header.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER, snapshot);
      tail += header.size;
      __atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
      if (is_sample) return CUNWIND_CAPTURED;
    }
    uint64_t now = cunwind_now_ns();
    if (now >= end) return CUNWIND_CAPTURE_WAITING;
    struct pollfd entry = {.fd = perf->descriptor, .events = POLLIN};
    struct timespec left = {0, (long)(end - now)};
    int ready = ppoll(&entry, 1, &left, NULL);
    // A sample hangs up as well, so this is the end only if there is none.
    bool is_over = ready > 0 && (entry.revents & POLLIN) == 0;
    if (is_over && __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE) == tail) {
      if (cunwind_thread_is_gone(perf->process, perf->thread)) return CUNWIND_CAPTURE_NO_THREAD;
      struct timespec pause = {0, 50000};
      clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
  }
}

void cunwind_perf_close(cunwind_perf *perf) {
  if (perf->pages != NULL) munmap(perf->pages, perf->size);
  if (perf->descriptor >= 0) close(perf->descriptor);
  perf->pages = NULL;
  perf->descriptor = -1;
}

int cunwind_breakpoint_begin(int32_t thread, uint64_t address, enum cunwind_breakpoint kind) {
  if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0) return -1;
  struct perf_event_attr attributes = attributes_of(PERF_TYPE_BREAKPOINT);
  attributes.bp_type = kind == CUNWIND_BREAKPOINT_WRITE ? HW_BREAKPOINT_W : HW_BREAKPOINT_X;
  attributes.bp_addr = address;
  // Of an instruction, the kernel wants the size of a word.
  attributes.bp_len = HW_BREAKPOINT_LEN_8;
  attributes.sample_period = 1;
  attributes.exclude_kernel = 1;
  int descriptor = (int)syscall(SYS_perf_event_open, &attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (descriptor < 0) return -1;
  // Until the first hit.
  if (ioctl(descriptor, PERF_EVENT_IOC_REFRESH, 1) == 0) return descriptor;
  close(descriptor);
  return -1;
}

bool cunwind_breakpoint_is_hit(int descriptor) {
  uint64_t count;
  return read(descriptor, &count, sizeof count) != sizeof count || count != 0;
}

#endif
