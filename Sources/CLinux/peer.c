#define _GNU_SOURCE
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

bool clinux_peer_credentials(int descriptor, clinux_peer *peer) {
  struct ucred raw = {0, -1, -1};
  socklen_t size = sizeof raw;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &raw, &size) != 0) return false;
  peer->pid = raw.pid;
  peer->uid = raw.uid;
  peer->gid = raw.gid;
  return true;
}

int clinux_peer_pidfd(int descriptor) {
  int result = -1;
  socklen_t size = sizeof result;
  return getsockopt(descriptor, SOL_SOCKET, 77 /* SO_PEERPIDFD */, &result, &size) == 0 ? result : -1;
}

int clinux_peer_groups(int descriptor, gid_t *groups, int capacity) {
  socklen_t size = (socklen_t)((size_t)capacity * sizeof(gid_t));
  if (getsockopt(descriptor, SOL_SOCKET, 59 /* SO_PEERGROUPS */, groups, &size) != 0) return -1;
  return (int)(size / sizeof(gid_t));
}

bool clinux_pidfd_exit_status(int pidfd, int *status) {
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

int clinux_accept(int descriptor) {
  return accept4(descriptor, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

bool clinux_set_descriptor_flags(int descriptor) {
  int flags = fcntl(descriptor, F_GETFL);
  return flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0;
}
