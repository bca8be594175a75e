#pragma once

// Maps and unmaps 256 MiB again and again, for that long: each time the lock of the memory map is held for some 100 ms.
void victim_map_for(unsigned milliseconds);
