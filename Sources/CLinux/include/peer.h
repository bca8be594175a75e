// Who is at the other end of a Unix socket, and how a process that is not our child has ended: socket options and an ioctl
// that Swift's Glibc module does not show (_GNU_SOURCE), or that are newer than its headers.
#ifndef CLINUX_PEER_H
#define CLINUX_PEER_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

typedef struct {
  pid_t pid;
  uid_t uid;
  gid_t gid;
} clinux_peer;

/// SO_PEERCRED, unix(7): as they were when the peer connected. The pid is 0 if it is in a PID namespace that cannot be seen.
static inline bool clinux_peer_credentials(int descriptor, clinux_peer *peer) {
  struct { pid_t pid; uid_t uid; gid_t gid; } raw = {0, -1, -1};
  socklen_t size = sizeof raw;
  if (getsockopt(descriptor, SOL_SOCKET, 17 /* SO_PEERCRED */, &raw, &size) != 0) return false;
  peer->pid = raw.pid;
  peer->uid = raw.uid;
  peer->gid = raw.gid;
  return true;
}

/// SO_PEERPIDFD (Linux 6.5): the very process that connected, whatever its number means by now. -1 with errno if there is none.
static inline int clinux_peer_pidfd(int descriptor) {
  int result = -1;
  socklen_t size = sizeof result;
  return getsockopt(descriptor, SOL_SOCKET, 77 /* SO_PEERPIDFD */, &result, &size) == 0 ? result : -1;
}

/// SO_PEERGROUPS (Linux 4.13): the supplementary groups. Returns how many there are, -1 with errno; ERANGE if more than `capacity`.
static inline int clinux_peer_groups(int descriptor, gid_t *groups, int capacity) {
  socklen_t size = (socklen_t)((size_t)capacity * sizeof(gid_t));
  if (getsockopt(descriptor, SOL_SOCKET, 59 /* SO_PEERGROUPS */, groups, &size) != 0) return -1;
  return (int)(size / sizeof(gid_t));
}

/// PIDFD_GET_INFO with PIDFD_INFO_EXIT (Linux 6.15): the status of wait(2), once the process has been reaped by its parent.
static inline bool clinux_pidfd_exit_status(int pidfd, int *status) {
  // struct pidfd_info of linux/pidfd.h, its first version.
  struct {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
  } info = {.mask = 1u << 3 /* PIDFD_INFO_EXIT */};
  if (ioctl(pidfd, _IOWR(0xff, 11, info), &info) != 0 || !(info.mask & (1u << 3))) return false;
  *status = info.exit_code;
  return true;
}

/// accept4(2) with SOCK_CLOEXEC and SOCK_NONBLOCK; glibc declares it for _GNU_SOURCE alone.
static inline int clinux_accept(int descriptor) {
  extern int accept4(int, struct sockaddr *, socklen_t *, int);
  return accept4(descriptor, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/// What a descriptor that was handed over by systemd lacks: FD_CLOEXEC and O_NONBLOCK (fcntl(2) is variadic).
static inline bool clinux_set_descriptor_flags(int descriptor) {
  int flags = fcntl(descriptor, F_GETFL);
  return flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0;
}

#endif
