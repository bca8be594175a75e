#if arch(arm64)
/// The system calls, as `make system-calls` writes them.
enum SystemCallNumbers {
  /// A row for each call: its number, its name, and which of its arguments, from 0, are paths, or else which is a descriptor.
  static let table: StaticString = """
    0 io_setup
    1 io_destroy
    2 io_submit
    3 io_cancel
    4 io_getevents
    5 setxattr path 0
    6 lsetxattr path 0
    7 fsetxattr fd 0
    8 getxattr path 0
    9 lgetxattr path 0
    10 fgetxattr fd 0
    11 listxattr path 0
    12 llistxattr path 0
    13 flistxattr fd 0
    14 removexattr path 0
    15 lremovexattr path 0
    16 fremovexattr fd 0
    17 getcwd
    18 lookup_dcookie
    19 eventfd2
    20 epoll_create1
    21 epoll_ctl fd 0
    22 epoll_pwait fd 0
    23 dup fd 0
    24 dup3 fd 0
    25 fcntl fd 0
    26 inotify_init1
    27 inotify_add_watch path 1
    28 inotify_rm_watch fd 0
    29 ioctl fd 0
    30 ioprio_set
    31 ioprio_get
    32 flock fd 0
    33 mknodat path 1
    34 mkdirat path 1
    35 unlinkat path 1
    36 symlinkat path 0 2
    37 linkat path 1 3
    38 renameat path 1 3
    39 umount2 path 0
    40 mount path 0 1
    41 pivot_root path 0 1
    42 nfsservctl
    43 statfs path 0
    44 fstatfs fd 0
    45 truncate path 0
    46 ftruncate fd 0
    47 fallocate fd 0
    48 faccessat path 1
    49 chdir path 0
    50 fchdir fd 0
    51 chroot path 0
    52 fchmod fd 0
    53 fchmodat path 1
    54 fchownat path 1
    55 fchown fd 0
    56 openat path 1
    57 close fd 0
    58 vhangup
    59 pipe2
    60 quotactl path 1
    61 getdents64 fd 0
    62 lseek fd 0
    63 read fd 0
    64 write fd 0
    65 readv fd 0
    66 writev fd 0
    67 pread64 fd 0
    68 pwrite64 fd 0
    69 preadv fd 0
    70 pwritev fd 0
    71 sendfile fd 0
    72 pselect6
    73 ppoll
    74 signalfd4 fd 0
    75 vmsplice fd 0
    76 splice fd 0
    77 tee fd 0
    78 readlinkat path 1
    79 newfstatat path 1
    80 fstat fd 0
    81 sync
    82 fsync fd 0
    83 fdatasync fd 0
    84 sync_file_range fd 0
    85 timerfd_create
    86 timerfd_settime fd 0
    87 timerfd_gettime fd 0
    88 utimensat path 1
    89 acct path 0
    90 capget
    91 capset
    92 personality
    93 exit
    94 exit_group
    95 waitid
    96 set_tid_address
    97 unshare
    98 futex
    99 set_robust_list
    100 get_robust_list
    101 nanosleep
    102 getitimer
    103 setitimer
    104 kexec_load
    105 init_module
    106 delete_module
    107 timer_create
    108 timer_gettime
    109 timer_getoverrun
    110 timer_settime
    111 timer_delete
    112 clock_settime
    113 clock_gettime
    114 clock_getres
    115 clock_nanosleep
    116 syslog
    117 ptrace
    118 sched_setparam
    119 sched_setscheduler
    120 sched_getscheduler
    121 sched_getparam
    122 sched_setaffinity
    123 sched_getaffinity
    124 sched_yield
    125 sched_get_priority_max
    126 sched_get_priority_min
    127 sched_rr_get_interval
    128 restart_syscall
    129 kill
    130 tkill
    131 tgkill
    132 sigaltstack
    133 rt_sigsuspend
    134 rt_sigaction
    135 rt_sigprocmask
    136 rt_sigpending
    137 rt_sigtimedwait
    138 rt_sigqueueinfo
    139 rt_sigreturn
    140 setpriority
    141 getpriority
    142 reboot
    143 setregid
    144 setgid
    145 setreuid
    146 setuid
    147 setresuid
    148 getresuid
    149 setresgid
    150 getresgid
    151 setfsuid
    152 setfsgid
    153 times
    154 setpgid
    155 getpgid
    156 getsid
    157 setsid
    158 getgroups
    159 setgroups
    160 uname
    161 sethostname
    162 setdomainname
    163 getrlimit
    164 setrlimit
    165 getrusage
    166 umask
    167 prctl
    168 getcpu
    169 gettimeofday
    170 settimeofday
    171 adjtimex
    172 getpid
    173 getppid
    174 getuid
    175 geteuid
    176 getgid
    177 getegid
    178 gettid
    179 sysinfo
    180 mq_open path 0
    181 mq_unlink path 0
    182 mq_timedsend fd 0
    183 mq_timedreceive fd 0
    184 mq_notify fd 0
    185 mq_getsetattr fd 0
    186 msgget
    187 msgctl
    188 msgrcv
    189 msgsnd
    190 semget
    191 semctl
    192 semtimedop
    193 semop
    194 shmget
    195 shmctl
    196 shmat
    197 shmdt
    198 socket
    199 socketpair
    200 bind fd 0
    201 listen fd 0
    202 accept fd 0
    203 connect fd 0
    204 getsockname fd 0
    205 getpeername fd 0
    206 sendto fd 0
    207 recvfrom fd 0
    208 setsockopt fd 0
    209 getsockopt fd 0
    210 shutdown fd 0
    211 sendmsg fd 0
    212 recvmsg fd 0
    213 readahead fd 0
    214 brk
    215 munmap
    216 mremap
    217 add_key
    218 request_key
    219 keyctl
    220 clone
    221 execve path 0
    222 mmap fd 4
    223 fadvise64 fd 0
    224 swapon path 0
    225 swapoff path 0
    226 mprotect
    227 msync
    228 mlock
    229 munlock
    230 mlockall
    231 munlockall
    232 mincore
    233 madvise
    234 remap_file_pages
    235 mbind
    236 get_mempolicy
    237 set_mempolicy
    238 migrate_pages
    239 move_pages
    240 rt_tgsigqueueinfo
    241 perf_event_open
    242 accept4 fd 0
    243 recvmmsg fd 0
    260 wait4
    261 prlimit64
    262 fanotify_init
    263 fanotify_mark path 4
    264 name_to_handle_at path 1
    265 open_by_handle_at fd 0
    266 clock_adjtime
    267 syncfs fd 0
    268 setns fd 0
    269 sendmmsg fd 0
    270 process_vm_readv
    271 process_vm_writev
    272 kcmp
    273 finit_module fd 0
    274 sched_setattr
    275 sched_getattr
    276 renameat2 path 1 3
    277 seccomp
    278 getrandom
    279 memfd_create
    280 bpf
    281 execveat path 1
    282 userfaultfd
    283 membarrier
    284 mlock2
    285 copy_file_range fd 0
    286 preadv2 fd 0
    287 pwritev2 fd 0
    288 pkey_mprotect
    289 pkey_alloc
    290 pkey_free
    291 statx path 1
    292 io_pgetevents
    293 rseq
    294 kexec_file_load fd 0
    424 pidfd_send_signal fd 0
    425 io_uring_setup
    426 io_uring_enter fd 0
    427 io_uring_register fd 0
    428 open_tree path 1
    429 move_mount path 1 3
    430 fsopen
    431 fsconfig fd 0
    432 fsmount fd 0
    433 fspick path 1
    434 pidfd_open
    435 clone3
    436 close_range fd 0
    437 openat2 path 1
    438 pidfd_getfd fd 0
    439 faccessat2 path 1
    440 process_madvise fd 0
    441 epoll_pwait2 fd 0
    442 mount_setattr path 1
    443 quotactl_fd fd 0
    444 landlock_create_ruleset
    445 landlock_add_rule fd 0
    446 landlock_restrict_self fd 0
    447 memfd_secret
    448 process_mrelease fd 0
    449 futex_waitv
    450 set_mempolicy_home_node
    451 cachestat fd 0
    452 fchmodat2 path 1
    453 map_shadow_stack
    454 futex_wake
    455 futex_wait
    456 futex_requeue
    457 statmount
    458 listmount
    459 lsm_get_self_attr
    460 lsm_set_self_attr
    461 lsm_list_modules
    462 mseal
    463 setxattrat path 1
    464 getxattrat path 1
    465 listxattrat path 1
    466 removexattrat path 1
    467 open_tree_attr path 1
    468 file_getattr path 1
    469 file_setattr path 1
    """

  /// `restart_syscall(2)`: a call with a time limit continues after a stop signal or a freeze, with
  /// the arguments that it had.
  static let restart: Int64? = 128
}
#endif
