#ifndef CUNWIND_H
#define CUNWIND_H

#include "cunwind_symbols.h"

#endif
