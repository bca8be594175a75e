// Transfers inside the kernel that take long, and that a signal would end early.
#ifndef VICTIM_TRANSFERS_H
#define VICTIM_TRANSFERS_H

#include <stddef.h>

enum victim_transfer {
  VICTIM_TRANSFER_RANDOM,
  VICTIM_TRANSFER_SENDFILE,
  VICTIM_TRANSFER_COPY_FILE_RANGE,
  /// 100 MB over a TCP connection of the loopback, after 30 ms of computing.
  VICTIM_TRANSFER_SEND,
};

/// Makes the transfer in one call, several times. @return how many bytes were missing, or -1 if a call has failed.
long victim_transfer_run(enum victim_transfer transfer, unsigned times);

#endif
