// Everything in this module is in the headers; this file exists so that the target has something to compile.
#include "CLinux.h"
