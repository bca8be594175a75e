// The last error of each thread: Swift has no thread-local variables.
#include "stallmonitor.h"
#include "stallmonitor_errors.h"

#include <stdatomic.h>
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

void cstallmonitor_forget_error(void) {
  last.code = 0;
  last.text[0] = 0;
}

int stallmonitor_error_code(void) { return last.code; }

const char *stallmonitor_error_text(void) { return last.text; }

static _Atomic(void *) home;

void *cstallmonitor_home(void) { return atomic_load(&home); }

bool cstallmonitor_replace_home(void *expected, void *replacement) {
  return atomic_compare_exchange_strong(&home, &expected, replacement);
}
