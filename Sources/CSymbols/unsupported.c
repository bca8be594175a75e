// Another C library than glibc: addresses have no names, and one line says so.
#include "internal.h"

#if !CSYMBOLS_HAS_LIBDW

static const char *const problem = "names are read with glibc only";

int csymbols_load(void) {
  csymbols_demangle_load();
  return -1;
}
const char *csymbols_problem(void) { return problem; }
void csymbols_prepare_thread(void) {}

csymbols_module *csymbols_open(const struct csymbols_source *source, const char **reason) {
  (void)source;
  *reason = problem;
  return NULL;
}
csymbols_module *csymbols_open_image(const void *base, size_t length, const char **reason) {
  (void)base, (void)length;
  *reason = problem;
  return NULL;
}
void csymbols_close(csymbols_module *module) { (void)module; }

int csymbols_open_module(int root, const char *path, bool *is_trusted) {
  (void)root, (void)path;
  *is_trusted = false;
  return -1;
}
bool csymbols_identify_descriptor(int descriptor, struct csymbols_identity *identity) {
  (void)descriptor, (void)identity;
  return false;
}
bool csymbols_identify(const char *path, struct csymbols_identity *identity) {
  (void)path, (void)identity;
  return false;
}
const void *csymbols_vdso(size_t *length) {
  *length = 0;
  return NULL;
}

bool csymbols_changed(const csymbols_module *module) {
  (void)module;
  return false;
}
void csymbols_trim(csymbols_module *module) { (void)module; }
size_t csymbols_bytes(const csymbols_module *module) {
  (void)module;
  return 0;
}
enum csymbols_status csymbols_lookup(csymbols_module *module, uint64_t address, uint64_t deadline,
                                     struct csymbols_frame frames[CSYMBOLS_MAX_FRAMES], size_t *count) {
  (void)module, (void)address, (void)deadline, (void)frames;
  *count = 0;
  return CSYMBOLS_COMPLETE;
}
enum csymbols_status csymbols_defines(
    csymbols_module *module, const char *const *names, size_t count, uint64_t deadline, bool *defines) {
  (void)module, (void)names, (void)count, (void)deadline;
  *defines = false;
  return CSYMBOLS_COMPLETE;
}
const char *csymbols_qualified_name(csymbols_module *module, const struct csymbols_frame *frame, uint64_t deadline) {
  (void)module, (void)frame, (void)deadline;
  return NULL;
}
struct csymbols_facts csymbols_facts(const csymbols_module *module) {
  (void)module;
  return (struct csymbols_facts){0};
}

#endif
