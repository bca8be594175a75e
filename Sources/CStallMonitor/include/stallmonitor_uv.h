/* Watches a libuv loop (1.44.2 or later) with stallmonitor.h. Include it in one C or C++ file, and
 * call these after stallmonitor_start() and uv_loop_init(), before the service starts its timers:
 *
 *   static stallmonitor_uv watch;
 *   stallmonitor_uv_start(&watch, loop, "requests", 0);  // 0: the monitor's threshold
 *   uv_run(loop, UV_RUN_DEFAULT);
 *   stallmonitor_uv_stop(&watch);       // before uv_loop_close()
 *
 * libuv calls the callbacks of descriptors, requests and uv_async_send() inside its own poll,
 * before any uv_check_t. With uv_prepare_t and uv_check_t alone, the loop would count as waiting
 * while these callbacks run, and their stalls would never be reported. Therefore the loop waits
 * here, in a uv_prepare_t, until libuv has something to do or a timer is due, and libuv's own poll
 * never waits. The cost is one more poll(2) per turn, and one more pass when the loop begins to
 * watch a descriptor.
 *
 * Use it only with uv_run(loop, UV_RUN_DEFAULT): UV_RUN_NOWAIT would wait. The options
 * UV_METRICS_IDLE_TIME and UV_LOOP_BLOCK_SIGNAL have no effect. Handles of type uv_prepare_t that
 * are started after this one run before the wait, and others after it.
 */
#ifndef STALLMONITOR_UV_H
#define STALLMONITOR_UV_H

#include <poll.h>
#include <stallmonitor.h>
#include <string.h>
#include <uv.h>

/* In earlier versions, uv_backend_timeout() ignored descriptors that are not yet registered with
 * the kernel (github.com/libuv/libuv/pull/1568). */
#define STALLMONITOR_UV_VERSION 0x012c02
#if UV_VERSION_HEX < STALLMONITOR_UV_VERSION
#error "stallmonitor_uv.h needs libuv 1.44.2 or later"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A watched loop. It must exist until its handles are closed: make it static, or destroy it with
 * the loop. */
typedef struct stallmonitor_uv {
  stallmonitor_loop *watch;
  uv_prepare_t before_poll;
  /* While it is active, libuv's poll does not wait. */
  uv_idle_t no_wait;
  /* Begins the first turn: libuv calls timers before any uv_prepare_t. */
  uv_timer_t first_pass;
} stallmonitor_uv;

static inline void stallmonitor_uv_no_wait(uv_idle_t *handle) { (void)handle; }

static inline void stallmonitor_uv_before_poll(uv_prepare_t *handle) {
  stallmonitor_uv *self = (stallmonitor_uv *)handle->data;
  uv_idle_stop(&self->no_wait);
  /* Also 0 if libuv has not yet registered a descriptor with the kernel: its poll does that, and
   * the next pass waits. */
  int timeout = uv_backend_timeout(handle->loop);
  uv_idle_start(&self->no_wait, stallmonitor_uv_no_wait);
  if (timeout != 0) {
    struct pollfd backend = {uv_backend_fd(handle->loop), POLLIN, 0};
    stallmonitor_loop_idle(self->watch);
    poll(&backend, 1, timeout);
  }
  stallmonitor_loop_busy(self->watch);
  if (timeout != 0) uv_update_time(handle->loop);
}

static inline void stallmonitor_uv_begin(uv_timer_t *handle) {
  stallmonitor_loop_busy(((stallmonitor_uv *)handle->data)->watch);
}

/* Starts the watch, on the loop's thread. It keeps no loop alive. Returns 0. If the loop cannot be
 * watched, it returns stallmonitor_error_code(), and the loop runs as usual. With a libuv before
 * 1.44.2 at run time, it returns STALLMONITOR_INVALID.
 *
 * The first turn begins in uv_run(): what the service does before that is no turn. libuv does not
 * say whether it runs. In a callback, call stallmonitor_loop_busy(self->watch) as well, to watch
 * the rest of that turn. */
static inline int stallmonitor_uv_start(stallmonitor_uv *self, uv_loop_t *loop, const char *name,
                                        unsigned threshold_ms) {
  memset(self, 0, sizeof *self);
  if (uv_version() < STALLMONITOR_UV_VERSION) return STALLMONITOR_INVALID;
  self->watch = stallmonitor_loop_create(name, threshold_ms);
  if (self->watch == NULL) return stallmonitor_error_code();
  uv_prepare_init(loop, &self->before_poll);
  uv_idle_init(loop, &self->no_wait);
  uv_timer_init(loop, &self->first_pass);
  self->before_poll.data = self->first_pass.data = self;
  uv_unref((uv_handle_t *)&self->before_poll);
  uv_unref((uv_handle_t *)&self->no_wait);
  uv_unref((uv_handle_t *)&self->first_pass);
  uv_prepare_start(&self->before_poll, stallmonitor_uv_before_poll);
  uv_idle_start(&self->no_wait, stallmonitor_uv_no_wait);
  uv_timer_start(&self->first_pass, stallmonitor_uv_begin, 0, 0);
  return 0;
}

/* Ends the watch, on the loop's thread, and closes its handles. libuv needs one more uv_run() to
 * close them. */
static inline void stallmonitor_uv_stop(stallmonitor_uv *self) {
  if (self->watch == NULL) return;
  stallmonitor_loop_destroy(self->watch);
  self->watch = NULL;
  uv_close((uv_handle_t *)&self->before_poll, NULL);
  uv_close((uv_handle_t *)&self->no_wait, NULL);
  uv_close((uv_handle_t *)&self->first_pass, NULL);
}

#ifdef __cplusplus
}
#endif

#endif
