// Who is at the other end of a Unix socket, and how a process that is not our child has ended: socket options and an ioctl
// that Swift's Glibc module does not show (_GNU_SOURCE), or that are newer than its headers. Not inline: a header of sockets that is
// included here would take their names away from that module. It can go when that module shows them.
#ifndef CLINUX_PEER_H
#define CLINUX_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct {
  pid_t pid;
  uid_t uid;
  gid_t gid;
} clinux_peer;

/// SO_PEERCRED, unix(7): as they were when the peer connected. The pid is 0 if it is in a PID namespace that cannot be seen.
bool clinux_peer_credentials(int descriptor, clinux_peer *peer);

/// SO_PEERPIDFD (Linux 6.5): the very process that connected, whatever its number means by now. -1 with errno if there is none.
int clinux_peer_pidfd(int descriptor);

/// SO_PEERGROUPS (Linux 4.13): the supplementary groups. Returns how many there are; -1 with errno. With ERANGE, `capacity` becomes their number.
int clinux_peer_groups(int descriptor, gid_t *groups, int *capacity);

/// PIDFD_GET_INFO with PIDFD_INFO_EXIT (Linux 6.15): the status of wait(2), once the process has been reaped by its parent.
bool clinux_pidfd_exit_status(int pidfd, int *status);

/// Memory of so many bytes that nobody can make smaller or larger (memfd_create(2), F_ADD_SEALS). -1 with errno.
int clinux_sealed_memory(const char *name, size_t size);

/// Whether a descriptor is memory of just so many bytes that nobody can make smaller or keep from being written to. Waits for nobody, whatever it is.
bool clinux_is_sealed_memory(int descriptor, size_t size);

/// sendmsg(2) with a descriptor (SCM_RIGHTS), without waiting. Returns how many bytes were sent, -1 with errno.
ssize_t clinux_send_with_descriptor(int socket, const void *bytes, size_t count, int descriptor);

/// recvmsg(2) without waiting; `descriptor` is one that came with the bytes, closed on exec, or -1.
ssize_t clinux_receive_with_descriptor(int socket, void *bytes, size_t count, int *descriptor);

/// Has the kernel refuse descriptors that are sent to a socket, and to those that it accepts (SO_PASSRIGHTS, Linux 6.16). False on older ones.
bool clinux_refuse_descriptors(int socket);

/// accept4(2) with SOCK_CLOEXEC and SOCK_NONBLOCK; glibc declares it for _GNU_SOURCE alone.
int clinux_accept(int descriptor);

/// What a descriptor that was handed over by systemd lacks: FD_CLOEXEC and O_NONBLOCK (fcntl(2) is variadic).
bool clinux_set_descriptor_flags(int descriptor);

#endif
