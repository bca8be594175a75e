// Demangling by the runtimes that are in the process anyway.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

// libswiftCore exports it (swift/Demangling/Demangle.h). Weak: a process without Swift links, too.
extern char *swift_demangle(
    const char *name, size_t length, char *output, size_t *output_size, uint32_t flags) __attribute__((weak));
// libstdc++ exports it (cxxabi.h). Weak: with no C++ in the service there is nothing to demangle.
extern char *__cxa_demangle(const char *name, char *output, size_t *length, int *status) __attribute__((weak));

typedef char *cxx_demangle(const char *, char *, size_t *, int *);
static _Atomic(cxx_demangle *) cxx;

enum {
  // Both demanglers recurse with the name's depth, on the watchdog's stack.
  MAX_SWIFT = 8192,
  MAX_CXX = 2048,
  // Back references to later things than this count as one to the last of them.
  MAX_REFERENCES = 256,
  // Dots of a name that its end is looked for at.
  MAX_DOTS = 16,
  // The text of a character that is no part of an identifier, roughly.
  BYTES_PER_OPERATOR = 6,
  // Units for a byte that is read. The demanglers make objects of it.
  UNITS_PER_BYTE_READ = 8,
  // libstdc++ walks over so many template arguments in the time of one unit.
  ARGUMENTS_PER_UNIT = 32,
};

// The rule: demangling one name costs at most this many units, whatever is tried for it, and else the name stays mangled.
//
// A unit is a byte of text that is made. All units together are less than 1 ms, and the text has at most as many bytes.
static const uint64_t max_work = 64 << 10;

// What may still be spent on a name.
struct work {
  uint64_t left;
  bool is_refused;
};

// Spends units; false, and the name is refused, if there are not so many.
static bool spend(struct work *work, uint64_t units) {
  if (units > work->left) {
    work->is_refused = true;
    return false;
  }
  work->left -= units;
  return true;
}

void csymbols_demangle_load(void) {
  cxx_demangle *found = __cxa_demangle;
  // The linker may bind a weak reference to nothing although libstdc++ comes in with libswiftCore.
  if (found == NULL) found = (cxx_demangle *)dlsym(RTLD_DEFAULT, "__cxa_demangle");
  atomic_store(&cxx, found);
}

// How long the demangled text of a name can get.
//
// A few bytes of back references make a text of megabytes: what is referred to may contain references, so that the text
// doubles with each. The demanglers have no limit. What has the number i was complete where i, or a later number, is
// referred to first, and is no longer than the text before that place.
struct estimate {
  uint64_t text;
  size_t known;
  uint64_t longest[MAX_REFERENCES];
};

static void add(struct estimate *estimate, uint64_t bytes) {
  estimate->text = estimate->text + bytes < UINT32_MAX ? estimate->text + bytes : UINT32_MAX;
}

static void add_reference(struct estimate *estimate, uint64_t number, uint64_t times) {
  size_t index = number < MAX_REFERENCES ? (size_t)number : MAX_REFERENCES - 1;
  for (; estimate->known <= index; estimate->known++) estimate->longest[estimate->known] = estimate->text;
  if (number >= MAX_REFERENCES) estimate->longest[index] = estimate->text;
  add(estimate, times < UINT32_MAX ? estimate->longest[index] * times : UINT32_MAX);
}

// MARK: Swift

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

static uint64_t natural(const char **at, const char *end) {
  uint64_t value = 0;
  for (; *at < end && is_digit(**at); ++*at) value = value < UINT32_MAX ? value * 10 + (uint64_t)(**at - '0') : value;
  return value;
}

// Format: docs/ABI/Mangling.rst of the Swift compiler. `A` and letters refer to what came before; `A3B` does it three times.
static uint64_t swift_text(const char *name, size_t length) {
  struct estimate estimate = {0};
  const char *at = name, *end = name + length;
  while (at < end) {
    bool refers = *at == 'A';
    if (refers || *at == 'S') {
      uint64_t times = 1;
      for (at++; at < end; at++) {
        if (is_digit(*at)) {
          times = natural(&at, end);
          at--;
        } else if (is_lower(*at) || is_upper(*at)) {
          bool is_last = is_upper(*at) || !refers;
          if (refers) add_reference(&estimate, (uint64_t)(*at - (is_upper(*at) ? 'A' : 'a')), times);
          else add(&estimate, times * BYTES_PER_OPERATOR);
          times = 1;
          if (is_last) break;
        } else {
          if (refers && *at == '_') add_reference(&estimate, times + 27, 1);
          break;
        }
      }
      if (at < end) at++;
      continue;
    }
    if (!is_digit(*at)) {
      add(&estimate, BYTES_PER_OPERATOR);
      at++;
      continue;
    }
    // An identifier. After a zero, letters are words that an identifier had before.
    if (*at == '0') {
      for (at++; at < end && (is_lower(*at) || is_upper(*at)); at++) {
        add(&estimate, 2 * BYTES_PER_OPERATOR);
        if (is_upper(*at)) {
          at++;
          break;
        }
      }
    }
    uint64_t identifier = natural(&at, end);
    if (identifier > (uint64_t)(end - at)) identifier = (uint64_t)(end - at);
    add(&estimate, identifier + 1);
    at += identifier;
  }
  return estimate.text;
}

// MARK: C++

// `S_`, `S0_`, … and `T_`, `T0_`, … (Itanium C++ ABI, 5.1.10 and 5.1.5.8). Identifiers that look like one count, too.
struct reference {
  uint16_t at, length, number;
  bool is_parameter;
};

static size_t find_references(const char *name, size_t length, struct reference *found) {
  size_t count = 0;
  for (size_t at = 2; at + 1 < length; at++) {
    bool is_parameter = name[at] == 'T';
    if (name[at] != 'S' && !is_parameter) continue;
    uint16_t number = 0;
    size_t end = at + 1;
    // Two digits of base 36 are more than a name of this length can refer to.
    for (; end < at + 3 && (is_digit(name[end]) || (is_upper(name[end]) && !is_parameter)); end++) {
      number = (uint16_t)(number * 36 + (is_digit(name[end]) ? name[end] - '0' : name[end] - 'A' + 10));
    }
    if (name[end] != '_') continue;
    if (end > at + 1) number++;
    found[count++] = (struct reference){(uint16_t)at, (uint16_t)(end + 1 - at), number, is_parameter};
    at = end;
  }
  return count;
}

// How long the text can get that has `text` bytes without the references to the numbers from `first` up to `last`.
static uint64_t text_up_to(
    uint64_t text, const struct reference *references, size_t count, uint16_t first, uint16_t last) {
  struct estimate estimate = {.text = text};
  for (size_t i = 0; i < count; i++) {
    uint16_t number = references[i].number;
    if (!references[i].is_parameter && number >= first && number <= last) {
      add_reference(&estimate, (uint64_t)(number - first), 1);
    }
  }
  return estimate.text;
}

// What is known of a C++ name beside its text's length: of its template parameters, and of the packs among these.
struct parameters {
  // How many there are in the text, and the highest number of one.
  uint64_t count, highest;
  // Whether packs are expanded (`Dp`), and whether in anything but plain `T_`, `T_ &&` and the like.
  bool has_packs, has_patterns;
  // No pack has more elements.
  uint64_t elements;
};

static struct parameters find_packs(const char *name) {
  struct parameters found = {0};
  for (const char *at = strstr(name, "Dp"); at != NULL; at = strstr(at, "Dp")) {
    found.has_packs = true;
    at += 2;
    const char *pattern = at + strspn(at, "ORPK");
    if (*pattern != 'T' || pattern - at > 2) found.has_patterns = true;
  }
  return found;
}

// The most units that it can cost to make a text that has `text` bytes without what its template parameters add.
static uint64_t units_to_make(uint64_t text, const struct parameters *parameters, const char *name) {
  // Each parameter is a part of the text, which may have parameters of the function around it.
  uint64_t levels = 1;
  for (const char *at = name; *at != 0; at++) levels += *at == 'Z';
  for (uint64_t i = 0; i < levels && parameters->count > 0 && text < UINT32_MAX; i++) {
    text += text * parameters->count / levels;
  }
  uint64_t walk = parameters->highest;
  if (parameters->has_packs) {
    // Commas and two characters of a reference or a pointer.
    text += parameters->count * parameters->elements * 8;
    if (parameters->has_patterns) text *= parameters->elements + 1;
    walk += parameters->elements;
  }
  text = text < UINT32_MAX ? text : UINT32_MAX;
  return text + text * walk / ARGUMENTS_PER_UNIT;
}

// Demangles a name in which template parameters and references to the numbers from `first` on are identifiers of one byte.
// Returns the text's length, and what it shows of the parameters; 0 if it is no name, or if there is no work left.
static uint64_t measure(
    cxx_demangle *demangle, const char *name, const struct reference *references, size_t count, uint16_t first,
    struct parameters *parameters, struct work *work) {
  static const char parameter = 1;
  char changed[MAX_CXX + 1], *to = changed;
  const char *from = name;
  for (size_t i = 0; i < count; i++) {
    const struct reference *reference = &references[i];
    if (!reference->is_parameter && reference->number < first) continue;
    size_t before = (size_t)(name + reference->at - from);
    memcpy(to, from, before);
    to += before;
    *to++ = '1';
    *to++ = reference->is_parameter ? parameter : '_';
    from = name + reference->at + reference->length;
  }
  strcpy(to, from);
  if (!spend(work, strlen(changed) * UNITS_PER_BYTE_READ)) return 0;
  int status = 0;
  char *text = demangle(changed, NULL, NULL, &status);
  if (text == NULL) return 0;
  size_t length = strlen(text);
  parameters->count = 0;
  parameters->elements = 1;
  for (size_t i = 0; i < length; i++) {
    parameters->count += text[i] == parameter;
    parameters->elements += text[i] == ',';
  }
  // Empty packs in a pack are elements without a text.
  for (const char *at = strchr(name, 'J'); at != NULL; at = strchr(at + 1, 'J')) parameters->elements++;
  free(text);
  return spend(work, length) ? length : 0;
}

// Whether there is work left to make the text of a name. Measures it with more and more of its references where an
// estimate does not show it.
static bool is_affordable(cxx_demangle *demangle, const char *name, size_t length, struct work *work) {
  struct reference references[MAX_CXX / 2];
  size_t count = find_references(name, length, references);
  struct parameters parameters = find_packs(name);
  uint64_t text = length * BYTES_PER_OPERATOR;
  uint16_t last = 0;
  for (size_t i = 0; i < count; i++) {
    uint16_t number = references[i].number;
    parameters.count += references[i].is_parameter;
    if (references[i].is_parameter && number > parameters.highest) parameters.highest = number;
    if (!references[i].is_parameter && number > last) last = number;
  }
  // Each element of a pack has a byte of the name.
  parameters.elements = length;
  text = text_up_to(text, references, count, 0, last);
  uint64_t to_read = length * UNITS_PER_BYTE_READ;
  if (to_read + units_to_make(text, &parameters, name) <= work->left) return true;
  for (uint16_t first = 0; first <= last;) {
    text = measure(demangle, name, references, count, first, &parameters, work);
    if (text == 0) return false;
    // The next text must be affordable even if it is the last one.
    uint16_t next = first;
    while (next <= last && to_read + text_up_to(text, references, count, first, next) <= work->left) next++;
    if (next == first) return false;
    first = next;
  }
  text = measure(demangle, name, references, count, UINT16_MAX, &parameters, work);
  return text > 0 && to_read + units_to_make(text, &parameters, name) <= work->left;
}

// MARK: Both

// The text of a whole mangled name; NULL if it is none, or is refused.
static char *demangle_whole(const char *name, size_t length, struct work *work) {
  bool is_swift = (name[0] == '$' && (name[1] == 's' || name[1] == 'S' || name[1] == 'e'))
      || (name[0] == '_' && (name[1] == '$' || (name[1] == 'T' && name[2] == '0')));
  char *text = NULL;
  if (is_swift) {
    if (swift_demangle == NULL) return NULL;
    if (length > MAX_SWIFT || length * UNITS_PER_BYTE_READ + swift_text(name, length) > work->left) {
      work->is_refused = true;
      return NULL;
    }
    text = swift_demangle(name, length, NULL, NULL, 0);
  } else if (name[0] == '_' && name[1] == 'Z') {
    cxx_demangle *demangle = atomic_load_explicit(&cxx, memory_order_relaxed);
    if (demangle == NULL) return NULL;
    char copy[MAX_CXX + 1];
    if (length <= MAX_CXX) {
      memcpy(copy, name, length);
      copy[length] = 0;
    }
    if (length > MAX_CXX || !is_affordable(demangle, copy, length, work)) {
      work->is_refused = true;
      return NULL;
    }
    int status = 0;
    text = demangle(copy, NULL, NULL, &status);
  } else {
    return NULL;
  }
  if (!spend(work, length * UNITS_PER_BYTE_READ + (text != NULL ? strlen(text) : 0))) {
    free(text);
    return NULL;
  }
  return text;
}

// The mangled name of the coroutine that GCC cut this part from, if it is one, and its length.
//
// Such a part takes a pointer to a structure that is named after the coroutine: `_Z3getP10_Z3getv.Frame.actor`.
static const char *coroutine(const char *part, const char *end, size_t *length) {
  for (const char *at = part + 3; at + 3 < end; at++) {
    if (at[0] != '_' || at[1] != 'Z' || !is_digit(at[-1])) continue;
    const char *dot = memchr(at, '.', (size_t)(end - at));
    if (dot == NULL) return NULL;
    *length = (size_t)(dot - at);
    return at;
  }
  return NULL;
}

bool csymbols_is_coroutine_part(const char *symbol) {
  size_t length = 0;
  return strncmp(symbol, "_Z", 2) == 0 && coroutine(symbol, symbol + strlen(symbol), &length) != NULL;
}

char *csymbols_demangle(const char *name, size_t length) {
  if (length < 3) return NULL;
  // No mangled name has a dot but in an identifier, whose length it says. Behind the name's end there is what a compiler
  // calls this copy or this part of the function.
  struct work work = {.left = max_work};
  const char *end = name + length, *dot = name;
  for (size_t tries = 0; tries < MAX_DOTS && dot != NULL && !work.is_refused; tries++) {
    dot = memchr(dot + 1, '.', (size_t)(end - dot - 1));
    size_t part = (size_t)((dot != NULL ? dot : end) - name), whole = 0;
    char *text = part >= 3 ? demangle_whole(name, part, &work) : NULL;
    if (text == NULL) continue;
    const char *inner = dot != NULL ? coroutine(name, dot, &whole) : NULL;
    char *better = inner != NULL ? demangle_whole(inner, whole, &work) : NULL;
    if (better == NULL) return text;
    free(text);
    return better;
  }
  return NULL;
}
