// A service on GLib's main loop that answers lines from standard input, and is watched.
#include <stallmonitor_glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// A blocking call in a handler, as most services have somewhere.
__attribute__((noinline)) static void wait_for_a_slow_backend(unsigned milliseconds) {
  usleep(milliseconds * 1000);
  fprintf(stderr, "The slow backend has answered.\n");
}

static gboolean timer_fires(gpointer milliseconds) {
  wait_for_a_slow_backend(GPOINTER_TO_UINT(milliseconds));
  return G_SOURCE_REMOVE;
}

static void answer(const char *line) {
  unsigned milliseconds;
  if (sscanf(line, "sleep %u", &milliseconds) == 1)
    wait_for_a_slow_backend(milliseconds);
  else if (sscanf(line, "later %u", &milliseconds) == 1)
    g_timeout_add(50, timer_fires, GUINT_TO_POINTER(milliseconds));
  else
    fprintf(stderr, "Hello, %s!\n", line);
}

static gboolean input_is_there(GIOChannel *input, GIOCondition condition, gpointer loop) {
  (void)condition;
  char *line = NULL;
  gsize end = 0;
  if (g_io_channel_read_line(input, &line, NULL, &end, NULL) != G_IO_STATUS_NORMAL) {
    g_main_loop_quit(loop);  // The end of the input: the service stops.
    return G_SOURCE_REMOVE;
  }
  line[end] = '\0';
  answer(line);
  g_free(line);
  return G_SOURCE_CONTINUE;
}

int main(void) {
  GMainLoop *loop = g_main_loop_new(NULL, FALSE);
  if (stallmonitor_start(NULL) != STALLMONITOR_OK || stallmonitor_glib_start(NULL, "requests", 0) != 0)
    fprintf(stderr, "Unwatched: %s\n", stallmonitor_error_text());
  GIOChannel *input = g_io_channel_unix_new(STDIN_FILENO);
  g_io_add_watch(input, G_IO_IN | G_IO_HUP, input_is_there, loop);
  fprintf(stderr, "Serving; the end of the input stops it.\n");
  g_main_loop_run(loop);
  stallmonitor_glib_stop(NULL);
  stallmonitor_stop();
  g_io_channel_unref(input);
  g_main_loop_unref(loop);
  fprintf(stderr, "Stopped.\n");
  return 0;
}
