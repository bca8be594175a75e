// A descriptor table that belongs to some threads of a process only. Swift cannot declare a thread-local variable in C's sense, and glibc
// 2.31 to 2.33 do not declare close_range(2). It can go when Swift has such variables.
#ifndef CLINUX_DESCRIPTOR_TABLE_H
#define CLINUX_DESCRIPTOR_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/// Gives the calling thread a descriptor table of its own (close_range(2), CLOSE_RANGE_UNSHARE; Linux 5.9). Threads that it makes share it.
///
/// The new table holds `kept`, unless it is negative, and nothing else of the process's; the others of 0, 1 and 2 accept no write, so that a
/// stray one reaches no file. The process's own table does not change.
/// @return false where the kernel or a seccomp filter refuses: then the thread shares the process's table as before.
bool clinux_enter_own_descriptor_table(int kept);

/// The number of the calling thread's table: 0 for the process's, another one for each own table.
uint32_t clinux_descriptor_table(void);

/// Notes that the calling thread was made by a thread with this table, which it shares.
void clinux_inherit_descriptor_table(uint32_t number);

#endif
