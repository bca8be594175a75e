#if arch(x86_64)
/// The system calls, as `make system-calls` writes them.
enum SystemCallNumbers {
  /// A row for each call: its number, its name, and which of its arguments, from 0, are paths, or else which is a descriptor.
  static let table: StaticString = """
    0 read fd 0
    1 write fd 0
    2 open path 0
    3 close fd 0
    4 stat path 0
    5 fstat fd 0
    6 lstat path 0
    7 poll
    8 lseek fd 0
    9 mmap fd 4
    10 mprotect
    11 munmap
    12 brk
    13 rt_sigaction
    14 rt_sigprocmask
    15 rt_sigreturn
    16 ioctl fd 0
    17 pread64 fd 0
    18 pwrite64 fd 0
    19 readv fd 0
    20 writev fd 0
    21 access path 0
    22 pipe
    23 select
    24 sched_yield
    25 mremap
    26 msync
    27 mincore
    28 madvise
    29 shmget
    30 shmat
    31 shmctl
    32 dup fd 0
    33 dup2 fd 0
    34 pause
    35 nanosleep
    36 getitimer
    37 alarm
    38 setitimer
    39 getpid
    40 sendfile fd 0
    41 socket
    42 connect fd 0
    43 accept fd 0
    44 sendto fd 0
    45 recvfrom fd 0
    46 sendmsg fd 0
    47 recvmsg fd 0
    48 shutdown fd 0
    49 bind fd 0
    50 listen fd 0
    51 getsockname fd 0
    52 getpeername fd 0
    53 socketpair
    54 setsockopt fd 0
    55 getsockopt fd 0
    56 clone
    57 fork
    58 vfork
    59 execve path 0
    60 exit
    61 wait4
    62 kill
    63 uname
    64 semget
    65 semop
    66 semctl
    67 shmdt
    68 msgget
    69 msgsnd
    70 msgrcv
    71 msgctl
    72 fcntl fd 0
    73 flock fd 0
    74 fsync fd 0
    75 fdatasync fd 0
    76 truncate path 0
    77 ftruncate fd 0
    78 getdents fd 0
    79 getcwd
    80 chdir path 0
    81 fchdir fd 0
    82 rename path 0 1
    83 mkdir path 0
    84 rmdir path 0
    85 creat path 0
    86 link path 0 1
    87 unlink path 0
    88 symlink path 0 1
    89 readlink path 0
    90 chmod path 0
    91 fchmod fd 0
    92 chown path 0
    93 fchown fd 0
    94 lchown path 0
    95 umask
    96 gettimeofday
    97 getrlimit
    98 getrusage
    99 sysinfo
    100 times
    101 ptrace
    102 getuid
    103 syslog
    104 getgid
    105 setuid
    106 setgid
    107 geteuid
    108 getegid
    109 setpgid
    110 getppid
    111 getpgrp
    112 setsid
    113 setreuid
    114 setregid
    115 getgroups
    116 setgroups
    117 setresuid
    118 getresuid
    119 setresgid
    120 getresgid
    121 getpgid
    122 setfsuid
    123 setfsgid
    124 getsid
    125 capget
    126 capset
    127 rt_sigpending
    128 rt_sigtimedwait
    129 rt_sigqueueinfo
    130 rt_sigsuspend
    131 sigaltstack
    132 utime path 0
    133 mknod path 0
    134 uselib path 0
    135 personality
    136 ustat
    137 statfs path 0
    138 fstatfs fd 0
    139 sysfs
    140 getpriority
    141 setpriority
    142 sched_setparam
    143 sched_getparam
    144 sched_setscheduler
    145 sched_getscheduler
    146 sched_get_priority_max
    147 sched_get_priority_min
    148 sched_rr_get_interval
    149 mlock
    150 munlock
    151 mlockall
    152 munlockall
    153 vhangup
    154 modify_ldt
    155 pivot_root path 0 1
    156 _sysctl
    157 prctl
    158 arch_prctl
    159 adjtimex
    160 setrlimit
    161 chroot path 0
    162 sync
    163 acct path 0
    164 settimeofday
    165 mount path 0 1
    166 umount2 path 0
    167 swapon path 0
    168 swapoff path 0
    169 reboot
    170 sethostname
    171 setdomainname
    172 iopl
    173 ioperm
    174 create_module
    175 init_module
    176 delete_module
    177 get_kernel_syms
    178 query_module
    179 quotactl path 1
    180 nfsservctl
    181 getpmsg
    182 putpmsg
    183 afs_syscall
    184 tuxcall
    185 security
    186 gettid
    187 readahead fd 0
    188 setxattr path 0
    189 lsetxattr path 0
    190 fsetxattr fd 0
    191 getxattr path 0
    192 lgetxattr path 0
    193 fgetxattr fd 0
    194 listxattr path 0
    195 llistxattr path 0
    196 flistxattr fd 0
    197 removexattr path 0
    198 lremovexattr path 0
    199 fremovexattr fd 0
    200 tkill
    201 time
    202 futex
    203 sched_setaffinity
    204 sched_getaffinity
    205 set_thread_area
    206 io_setup
    207 io_destroy
    208 io_getevents
    209 io_submit
    210 io_cancel
    211 get_thread_area
    212 lookup_dcookie
    213 epoll_create
    214 epoll_ctl_old
    215 epoll_wait_old
    216 remap_file_pages
    217 getdents64 fd 0
    218 set_tid_address
    219 restart_syscall
    220 semtimedop
    221 fadvise64 fd 0
    222 timer_create
    223 timer_settime
    224 timer_gettime
    225 timer_getoverrun
    226 timer_delete
    227 clock_settime
    228 clock_gettime
    229 clock_getres
    230 clock_nanosleep
    231 exit_group
    232 epoll_wait fd 0
    233 epoll_ctl fd 0
    234 tgkill
    235 utimes path 0
    236 vserver
    237 mbind
    238 set_mempolicy
    239 get_mempolicy
    240 mq_open path 0
    241 mq_unlink path 0
    242 mq_timedsend fd 0
    243 mq_timedreceive fd 0
    244 mq_notify fd 0
    245 mq_getsetattr fd 0
    246 kexec_load
    247 waitid
    248 add_key
    249 request_key
    250 keyctl
    251 ioprio_set
    252 ioprio_get
    253 inotify_init
    254 inotify_add_watch path 1
    255 inotify_rm_watch fd 0
    256 migrate_pages
    257 openat path 1
    258 mkdirat path 1
    259 mknodat path 1
    260 fchownat path 1
    261 futimesat path 1
    262 newfstatat path 1
    263 unlinkat path 1
    264 renameat path 1 3
    265 linkat path 1 3
    266 symlinkat path 0 2
    267 readlinkat path 1
    268 fchmodat path 1
    269 faccessat path 1
    270 pselect6
    271 ppoll
    272 unshare
    273 set_robust_list
    274 get_robust_list
    275 splice fd 0
    276 tee fd 0
    277 sync_file_range fd 0
    278 vmsplice fd 0
    279 move_pages
    280 utimensat path 1
    281 epoll_pwait fd 0
    282 signalfd fd 0
    283 timerfd_create
    284 eventfd
    285 fallocate fd 0
    286 timerfd_settime fd 0
    287 timerfd_gettime fd 0
    288 accept4 fd 0
    289 signalfd4 fd 0
    290 eventfd2
    291 epoll_create1
    292 dup3 fd 0
    293 pipe2
    294 inotify_init1
    295 preadv fd 0
    296 pwritev fd 0
    297 rt_tgsigqueueinfo
    298 perf_event_open
    299 recvmmsg fd 0
    300 fanotify_init
    301 fanotify_mark path 4
    302 prlimit64
    303 name_to_handle_at path 1
    304 open_by_handle_at fd 0
    305 clock_adjtime
    306 syncfs fd 0
    307 sendmmsg fd 0
    308 setns fd 0
    309 getcpu
    310 process_vm_readv
    311 process_vm_writev
    312 kcmp
    313 finit_module fd 0
    314 sched_setattr
    315 sched_getattr
    316 renameat2 path 1 3
    317 seccomp
    318 getrandom
    319 memfd_create
    320 kexec_file_load fd 0
    321 bpf
    322 execveat path 1
    323 userfaultfd
    324 membarrier
    325 mlock2
    326 copy_file_range fd 0
    327 preadv2 fd 0
    328 pwritev2 fd 0
    329 pkey_mprotect
    330 pkey_alloc
    331 pkey_free
    332 statx path 1
    333 io_pgetevents
    334 rseq
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
  static let restart: Int64? = 219
}
#endif
