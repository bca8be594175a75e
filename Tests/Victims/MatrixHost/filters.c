// Hosts under a seccomp filter.
#include "host.h"

#include <linux/seccomp.h>
#include <linux/filter.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// The calls to inspect a process that systemd's @system-service lacks.
static const long service_kills[] = {SYS_perf_event_open, SYS_ptrace,       SYS_process_vm_readv, SYS_process_vm_writev,
                                     SYS_kcmp,            438 /* pidfd_getfd */, SYS_bpf,         SYS_userfaultfd,
                                     SYS_mount,           SYS_unshare,      SYS_setns,            SYS_reboot};
static const long refused[] = {436 /* close_range */, SYS_unshare};
static const long timers[] = {SYS_timer_create};
static const long killed_later[] = {SYS_perf_event_open, SYS_ptrace, SYS_process_vm_readv};
static const long refused_later[] = {
    SYS_openat, SYS_socket,
#ifdef SYS_open  // aarch64 has none.
    SYS_open,
#endif
};

#define EPERM_ACTION (SECCOMP_RET_ERRNO | EPERM)

static void stall_and_say(void) {
  for (int i = 0; i < 4; i++) stall(60);
  say("alive");
}

static void filtered(const long *calls, size_t count, unsigned action) {
  say("filter: %d", install_filter(calls, count, action, 0));
  watch_start();
  stall_and_say();
  watch_stop();
}

static void allow_all(void) {
  say("filter: %d", install_allow_filter());
  watch_start();
  stall_and_say();
  watch_stop();
}
static void system_service(void) { filtered(service_kills, COUNT(service_kills), SECCOMP_RET_KILL_PROCESS); }
static void no_own_table(void) { filtered(refused, COUNT(refused), EPERM_ACTION); }
static void no_timers(void) { filtered(timers, COUNT(timers), EPERM_ACTION); }

// As a sandbox does after its initialization: the filter reaches every thread of the process.
static void during_the_run(const long *calls, size_t count, unsigned action) {
  watch_start();
  stall(60);
  turn_begin();
  compute(40);
  say("filter: %d", install_filter(calls, count, action, SECCOMP_FILTER_FLAG_TSYNC));
  compute(40);
  turn_end();
  stall_and_say();
}
static void allow_during_the_run(void) {
  during_the_run(NULL, 0, SECCOMP_RET_ALLOW);
  watch_stop();
}
static void kill_during_the_run(void) {
  during_the_run(killed_later, COUNT(killed_later), SECCOMP_RET_KILL_PROCESS);
  watch_stop();
}
static void refuse_during_the_run(void) {
  during_the_run(refused_later, COUNT(refused_later), EPERM_ACTION);
  watch_stop();
}
static void on_one_thread_only(void) {
  watch_start();
  stall(60);
  say("filter: %d", install_filter(refused_later, COUNT(refused_later), EPERM_ACTION, 0));
  stall_and_say();
  watch_stop();
}

const struct scenario filter_hosts[] = {
    {"seccomp-allow-all", allow_all},
    {"seccomp-as-a-system-service", system_service},
    {"seccomp-without-a-table-of-ones-own", no_own_table},
    {"seccomp-without-timers", no_timers},
    {"seccomp-tsync-allow-during-the-run", allow_during_the_run},
    {"seccomp-tsync-kill-during-the-run", kill_during_the_run},
    {"seccomp-tsync-refuse-during-the-run", refuse_during_the_run},
    {"seccomp-on-the-loop-alone", on_one_thread_only},
    {NULL, NULL},
};
