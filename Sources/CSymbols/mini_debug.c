// The symbol table that distributions put into .gnu_debugdata, packed by liblzma.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "internal.h"

#if CSYMBOLS_HAS_LIBDW

enum { MAX_MINI = 32 << 20 };

// lzma_stream_buffer_decode, declared here (lzma/container.h) so that liblzma's headers are not needed to build. libdw
// depends on liblzma itself, so opening it costs nothing more.
typedef int lzma_decode(
    uint64_t *memory_limit, uint32_t flags, const void *allocator, const uint8_t *in, size_t *in_position,
    size_t in_size, uint8_t *out, size_t *out_position, size_t out_size);
enum { LZMA_RET_OK = 0, LZMA_RET_BUFFER_TOO_SMALL = 10 };
static _Atomic(lzma_decode *) decode;

void csymbols_lzma_load(void) {
  void *handle = dlopen("liblzma.so.5", RTLD_NOW | RTLD_LOCAL);
  if (handle != NULL) atomic_store(&decode, (lzma_decode *)dlsym(handle, "lzma_stream_buffer_decode"));
}

void csymbols_mini_open(struct image *mini, struct image *image) {
  lzma_decode *unpack = atomic_load(&decode);
  size_t index = csymbols_section(image, ".gnu_debugdata", NULL);
  if (unpack == NULL || index == 0) return;
  csymbols_image_need_section(image, index);
  Elf_Data *packed = csymbols_libdw()->elf_rawdata(csymbols_libdw()->elf_getscn(image->elf, index), NULL);
  if (packed == NULL || packed->d_buf == NULL || packed->d_size > MAX_MINI) return;
  for (size_t size = packed->d_size * 4 + 4096; size <= csymbols_limit(MAX_MINI, image->budget); size *= 2) {
    uint64_t limit = 64 << 20;
    size_t in = 0, out = 0;
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) return;
    int result = unpack(&limit, 0, NULL, packed->d_buf, &in, packed->d_size, bytes, &out, size);
    if (result == LZMA_RET_OK && csymbols_image_borrow(mini, bytes, out)) {
      mini->kind = IMAGE_HEAP;
      return;
    }
    free(bytes);
    if (result != LZMA_RET_BUFFER_TOO_SMALL) return;
  }
}

#endif
