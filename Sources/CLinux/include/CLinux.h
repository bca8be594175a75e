// Kernel and runtime entry points that Swift cannot import. Each header says why it exists.
#ifndef CLINUX_H
#define CLINUX_H

#include "barrier.h"
#include "confine.h"
#include "core_foundation.h"
#include "descriptor_table.h"
#include "dispatch_queue.h"
#include "files.h"
#include "fork.h"
#include "loop.h"
#include "main_queue.h"
#include "memory.h"
#include "peer.h"
#include "process.h"
#include "task_pool.h"
#include "tasks.h"
#include "threads.h"
#include "time_stamp_counter.h"
#include "turn_stamp.h"

#endif
