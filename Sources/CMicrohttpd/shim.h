#include <microhttpd.h>

// MHD_get_daemon_info() is variadic, which Swift cannot call. The descriptor to poll of a daemon with MHD_USE_EPOLL, or -1.
static inline int cmicrohttpd_epoll_descriptor(struct MHD_Daemon *daemon) {
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
  return info ? info->epoll_fd : -1;
}

// MHD_get_connection_info() is variadic as well. The socket of a connection, or -1.
static inline int cmicrohttpd_connection_descriptor(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}
