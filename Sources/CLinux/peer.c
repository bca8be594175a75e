#define _GNU_SOURCE
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

int clinux_peer_groups(int descriptor, gid_t *groups, int *capacity) {
  socklen_t size = (socklen_t)((size_t)*capacity * sizeof(gid_t));
  int result = getsockopt(descriptor, SOL_SOCKET, 59 /* SO_PEERGROUPS */, groups, &size);
  int count = (int)(size / sizeof(gid_t));
  if (result == 0) return count;
  if (errno == ERANGE) *capacity = count;
  return -1;
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

int clinux_sealed_memory(const char *name, size_t size) {
  // Linux 6.3; required where vm.memfd_noexec says so.
  int memory = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | 8u /* MFD_NOEXEC_SEAL */);
  if (memory < 0 && errno == EINVAL) memory = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0) return -1;
  if (ftruncate(memory, (off_t)size) == 0 && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) return memory;
  int code = errno;
  close(memory);
  errno = code;
  return -1;
}

bool clinux_is_sealed_memory(int descriptor, size_t size) {
  struct stat status;
  int seals = fcntl(descriptor, F_GET_SEALS);
  // Nobody may make it smaller, nor have a mapping for writing refused, now or after this.
  return seals >= 0 && (seals & F_SEAL_SHRINK) && (seals & F_SEAL_SEAL) &&
         !(seals & (F_SEAL_WRITE | 0x0010 /* F_SEAL_FUTURE_WRITE */)) && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_size == (off_t)size;
}

ssize_t clinux_send_with_descriptor(int socket, const void *bytes, size_t count, int descriptor) {
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec part = {(void *)bytes, count};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t clinux_receive_with_descriptor(int socket, void *bytes, size_t count, int *descriptor) {
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec part = {bytes, count};
  // Space for one: the kernel closes what is more.
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof(int))};
  *descriptor = -1;
  ssize_t result = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (result < 0) return result;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len >= CMSG_LEN(sizeof(int)))
    memcpy(descriptor, CMSG_DATA(header), sizeof(int));
  return result;
}

bool clinux_refuse_descriptors(int socket) {
  int off = 0;
  return setsockopt(socket, SOL_SOCKET, 83 /* SO_PASSRIGHTS */, &off, sizeof off) == 0;
}

int clinux_accept(int descriptor) {
  return accept4(descriptor, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

bool clinux_set_descriptor_flags(int descriptor) {
  int flags = fcntl(descriptor, F_GETFL);
  return flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0;
}
