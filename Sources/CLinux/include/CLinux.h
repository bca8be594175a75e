// Kernel and runtime entry points that Swift cannot import. Each header says why it exists.
#ifndef CLINUX_H
#define CLINUX_H

#include "loop.h"

#endif
