// The last error of each thread: Swift has no thread-local variables.
#include "stallmonitor.h"
#include "stallmonitor_errors.h"

#include <stdio.h>

static __thread struct {
  int code;
  char text[512];
} last;

int cstallmonitor_keep_error(int code, const char *text) {
  last.code = code;
  snprintf(last.text, sizeof last.text, "%s", text);
  return code;
}

int stallmonitor_error_code(void) { return last.code; }

const char *stallmonitor_error_text(void) { return last.text; }
