// A service on libuv that answers lines from standard input, and is watched.
#include <stallmonitor_uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static stallmonitor_uv watch;
static uv_timer_t timer;
static uv_work_t work;
static unsigned milliseconds;

// A blocking call in a handler, as most services have somewhere.
__attribute__((noinline)) static void wait_for_a_slow_backend(unsigned time) {
  usleep(time * 1000);
  fprintf(stderr, "The slow backend has answered.\n");
}

static void timer_fires(uv_timer_t *handle) {
  (void)handle;
  wait_for_a_slow_backend(milliseconds);
}

// On a thread of libuv's pool: that blocks nobody.
static void work_in_background(uv_work_t *request) {
  (void)request;
  usleep(milliseconds * 1000);
}

static void work_is_done(uv_work_t *request, int status) {
  (void)request, (void)status;
  fprintf(stderr, "The work in the background is done.\n");
}

static void answer(uv_loop_t *loop, const char *line) {
  if (sscanf(line, "sleep %u", &milliseconds) == 1)
    wait_for_a_slow_backend(milliseconds);
  else if (sscanf(line, "later %u", &milliseconds) == 1)
    uv_timer_start(&timer, timer_fires, 50, 0);
  else if (sscanf(line, "background %u", &milliseconds) == 1)
    uv_queue_work(loop, &work, work_in_background, work_is_done);
  else
    fprintf(stderr, "Hello, %s!\n", line);
}

static void make_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  static char room[4096];
  (void)handle, (void)suggested;
  *buffer = uv_buf_init(room, sizeof room - 1);
}

static void close_handle(uv_handle_t *handle, void *ignored) {
  (void)ignored;
  if (!uv_is_closing(handle)) uv_close(handle, NULL);
}

static void input_is_there(uv_stream_t *input, ssize_t count, const uv_buf_t *buffer) {
  if (count < 0) {  // The end of the input: the service stops.
    stallmonitor_uv_stop(&watch);
    uv_walk(input->loop, close_handle, NULL);
    return;
  }
  buffer->base[count] = '\0';
  for (char *rest = buffer->base, *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) answer(input->loop, line);
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  uv_pipe_t input;
  if (stallmonitor_start(NULL) != STALLMONITOR_OK || stallmonitor_uv_start(&watch, loop, "requests", 0) != 0)
    fprintf(stderr, "Unwatched: %s\n", stallmonitor_error_text());
  uv_timer_init(loop, &timer);
  uv_pipe_init(loop, &input, 0);
  uv_pipe_open(&input, STDIN_FILENO);
  uv_read_start((uv_stream_t *)&input, make_room, input_is_there);
  fprintf(stderr, "Serving; the end of the input stops it.\n");
  uv_run(loop, UV_RUN_DEFAULT);
  int closed = uv_loop_close(loop);
  stallmonitor_stop();
  fprintf(stderr, "Stopped.\n");
  return closed == 0 ? 0 : 1;
}
