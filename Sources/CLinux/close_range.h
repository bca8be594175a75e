// close_range(2), which glibc 2.31 to 2.33 do not declare.
#pragma once

#include <sys/syscall.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
