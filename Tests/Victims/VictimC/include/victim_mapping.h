#pragma once

// Maps and unmaps 256 MiB repeatedly, for that long: each time the lock of the memory map is held for some 100 ms.
void victim_map_for(unsigned milliseconds);

// The memory that the process has, as /proc/self/statm says, in KiB; -1 if that cannot be read.
long victim_resident_kib(void);
