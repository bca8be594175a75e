#pragma once

// Starts a profiler: a handler and a timer of the process's processor time.
void victim_profile(void);

// How often its handler has run on the watchdog's thread, and on other threads.
int victim_samples_of_watchdog(void);
int victim_samples_of_others(void);
