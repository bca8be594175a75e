// A process whose threads are captured: its memory and its modules, read without a fault whatever its threads unmap meanwhile.
#ifndef CUNWIND_PROCESS_H
#define CUNWIND_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// A process that is read: the own one or another one.
typedef struct cunwind_process cunwind_process;

/// The process that this code runs in. From any thread; it lives as long as the process.
cunwind_process *cunwind_own_process(void);

/// Opens the memory and the list of mappings of another process, and reads where its modules lie. It is not stopped, and notices
/// nothing. The handle is of the program that it runs now: nothing can be read through it after execve(2).
///
/// Used by one thread at a time.
/// @param error becomes the errno value if the process cannot be opened.
/// @return NULL if the process cannot be opened, or without memory (704 KiB).
cunwind_process *cunwind_process_open(int32_t id, int *error);

/// Closes a handle of another process; NULL is none.
void cunwind_process_close(cunwind_process *process);

/// Whether the program that a handle is of has ended: the process has, or runs another one. False for the own process.
bool cunwind_process_is_over(const cunwind_process *process);

/// Opens what the calling thread reads the own process's memory through: /proc/self/mem, which a process that later becomes
/// non-dumpable cannot open any more. Without it, and without a seccomp filter, process_vm_readv(2) is used. Call it when the watch
/// starts, and again when a stall begins: it notices a descriptor that the process has closed, and a fork.
void cunwind_memory_prepare(void);

/// Closes what the calling thread has opened. Call it before the thread ends.
void cunwind_memory_finish(void);

/// Copies up to `length` bytes from `address` of the process into `buffer`.
/// @return the number of bytes copied before the first unreadable page; 0 if the first byte cannot be read.
size_t cunwind_read(const cunwind_process *process, uint64_t address, void *buffer, size_t length);

#define CUNWIND_PATH_MAX 1024
#define CUNWIND_BUILD_ID_MAX 32

/// A module (executable, shared library or vDSO) that is mapped into the process.
typedef struct cunwind_module {
  /// The mapped range.
  uint64_t start, end;
  /// What to subtract from an address to get the ELF virtual address that `addr2line` takes.
  uint64_t load_bias;
  /// GNU build ID, `build_id_length` bytes; 0 bytes if the module has none.
  uint8_t build_id[CUNWIND_BUILD_ID_MAX];
  uint32_t build_id_length;
  /// The path as the loader or the kernel knows it: empty for the main executable, `linux-vdso.so.1` for the vDSO.
  char path[CUNWIND_PATH_MAX];
} cunwind_module;

/// Finds the module that holds the code address `address`. In the own process without the loader's lock, so it works while
/// another thread is inside `dlopen`. Costs a few system calls; callers cache by range.
/// @return false if no module holds the address; `module` is then undefined.
bool cunwind_find_module(cunwind_process *process, uint64_t address, cunwind_module *module);

/// Where the function begins that holds the code address `address`, by the module's unwind table; 0 if that
/// does not say. Without the loader's lock as well; it reads some twenty words.
uint64_t cunwind_function_start(const cunwind_process *process, uint64_t address);

/// Makes modules of the own process be found as before glibc 2.36, by the loader's list. For tests.
void cunwind_use_module_list(bool use);

#endif
