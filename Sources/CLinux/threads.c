#include "threads.h"

int clinux_thread_create(clinux_thread_t *thread, size_t stack_size, void *(*body)(void *), void *argument) {
#ifndef __GLIBC__
  if (stack_size == 0) stack_size = 8 << 20;
#endif
  if (stack_size == 0) return pthread_create((pthread_t *)thread, NULL, body, argument);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_size);
  int code = pthread_create((pthread_t *)thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  return code;
}

size_t clinux_thread_stack_size(size_t least) {
#ifdef __GLIBC__
  size_t size = 0;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_getstacksize(&attributes, &size);
  pthread_attr_destroy(&attributes);
  if (size < least) return least;
#else
  (void)least;
#endif
  return 0;
}
