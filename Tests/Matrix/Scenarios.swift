extension Scenario {
  /// Every transfer in every role, with and without a filter.
  public static let transfers: [Scenario] = transferNames.flatMap { name in
    Role.allCases.flatMap { role in
      [false, true].map { .transfer(name, role: role, isFiltered: $0) }
    }
  }

  /// A third of the transfers: each in three or four of its ten roles, and each role with a third of them.
  public static let someTransfers = transfers.enumerated()
    .filter { ($0.offset + $0.offset / 10) % 3 == 0 }.map(\.element)

  /// The transfers of Tests/Victims/MatrixHost.
  public static let transferNames = [
    "getrandom", "read-urandom", "read-zero", "read-tmpfs", "pread-tmpfs", "readv-tmpfs", "preadv-tmpfs",
    "write-tmpfs", "pwrite-tmpfs", "writev-tmpfs", "pwritev2-tmpfs", "write-memfd", "sendfile-to-file",
    "copy_file_range", "copy-in-pieces", "splice-files", "fallocate", "fallocate-punch-hole", "ftruncate", "fsync",
    "sync_file_range", "msync", "readahead", "io_uring-read", "getdents",
    "tcp-send", "tcp-sendto", "tcp-write", "tcp-writev", "tcp-sendmsg", "tcp-sendmmsg", "tcp-sendfile",
    "tcp-recv-waitall", "tcp-recvmsg-waitall", "unix-send", "unix-write", "unix-writev", "unix-sendmsg",
    "unix-recv-waitall",
    "mmap-populate", "madvise-populate", "madvise-dontneed", "mlock", "mremap", "mprotect", "process_vm_readv",
    "process_vm_writev", "fork",
    "pipe-write", "pipe-writev", "pipe-vmsplice", "pipe-splice", "pipe-read", "pipe-tee",
  ]

  /// The hosts of Tests/Victims/MatrixHost.
  public static let hosts: [Scenario] =
    descriptorHosts + stackHosts + signalHosts + limitHosts + filterHosts + processHosts + outputHosts + otherHosts

  private static let descriptorHosts: [Scenario] = [
    .host("closefrom-with-the-sink-stdout", sink: .standardOutput),
    .host("closefrom-with-a-file-as-sink"),
    .host("closefrom-with-an-agent-as-sink", sink: .agent),
    .host("close-0-in-a-stall"),
    .host("open-to-the-limit", isReported: false),
    .host("all-numbers-taken-at-start", isReported: false),
    .host("list-of-descriptors"),
    .host("dup2-over-0-to-23"),
    .host("end-of-file-of-stdout"),
    .host("end-of-file-of-stderr"),
    .host("end-of-file-of-a-socket"),
    .host("port-is-free-after-close"),
    .host("flock-lives"),
    .host("fcntl-lock-of-the-program"),
  ]

  private static let stackHosts: [Scenario] = [
    .host("alternate-stack-of-2048-bytes"),
    .host("deep-handler-without-alternate-stack"),
    .host("handler-on-its-alternate-stack"),
    .host("alternate-stacks-come-and-go"),
    .host("alternate-stack-queried-at-start"),
    .host("recovered-stack-overflow"),
    .host("coroutine-below-the-main-stack"),
    .host("coroutine-in-a-thread-stack"),
    .host("coroutine-on-the-heap"),
    .host("recursion-to-3000-bytes-left"),
    .host("loop-on-a-stack-of-16-kib"),
  ]

  private static let signalHosts: [Scenario] = [
    .host("signalfd-reads-all-real-time-signals"),
    .host("handlers-for-all-real-time-signals"),
    .host("handlers-for-all-after-the-start"),
    .host("sigwait-loop"),
    .host("profiler-with-itimer-prof"),
    .host("timers-by-signal"),
    .host("timers-by-thread"),
    .host("timer-on-a-thread-clock"),
    .host("threads-in-pause-and-sigsuspend", threads: "all"),
    .host("pending-signals-and-masks"),
    .host("loop-that-blocks-all-signals"),
    .host("child-signals"),
  ]

  private static let limitHosts: [Scenario] = [
    .host("rlimit-data-malloc-returns-null"),
    .host("rlimit-as-malloc-returns-null"),
    .host("rlimit-as-until-after-the-stall"),
    .host("rlimit-as-until-the-end", isReported: false),
    .host("rlimit-data-before-the-first-stall", isReported: false),
    .host("rlimit-as-before-the-first-stall", isReported: false),
    .host("rlimit-data-before-the-start", isReported: false),
    .host("rlimit-memlock-is-the-hosts"),
    .host("rlimit-memlock-0"),
    .host("mlockall-of-the-future", isReported: false),
    .host("rlimit-nproc-reached", isReported: false),
    .host("rlimit-nproc-with-room"),
    .host("rlimit-sigpending-0"),
    .host("rlimit-sigpending-is-the-hosts"),
    .host("rlimit-fsize-with-a-handler", isReported: false),
    .host("rlimit-fsize-without-a-handler", isReported: false),
  ]

  private static let filterHosts: [Scenario] = [
    .host("seccomp-allow-all"),
    .host("seccomp-as-a-system-service"),
    .host("seccomp-without-a-table-of-ones-own"),
    .host("seccomp-without-timers"),
    .host("seccomp-tsync-allow-during-the-run"),
    .host("seccomp-tsync-kill-during-the-run"),
    .host("seccomp-tsync-refuse-during-the-run"),
    .host("seccomp-on-the-loop-alone"),
  ]

  private static let processHosts: [Scenario] = [
    .host("fork-with-work-in-the-child"),
    .host("fork-and-exec-in-a-stall"),
    .host("vfork-and-exec-in-a-stall"),
    .host("posix_spawn-in-a-stall"),
    .host("posix_spawn-of-fifty", threshold: "1ms"),
    .host("exec-in-a-stall"),
    .host("daemon"),
    .host("monitor-in-the-child-of-a-fork"),
    .host("setuid-at-run-time"),
    .host("chroot-at-run-time"),
    .host("main-thread-ends"),
    .host("exit-in-a-stall"),
    .host("killed-in-a-stall"),
  ]

  private static let outputHosts: [Scenario] = [
    .host("stdout-is-a-full-pipe", sink: .own),
    .host("stdout-is-a-full-pipe-of-roots", sink: .own),
    .host("stderr-is-a-full-pipe-of-roots", sink: .own),
    .host("stdout-is-closed", sink: .own),
    .host("stdout-has-no-reader", sink: .own),
    .host("stdout-is-a-full-socket", sink: .own),
    .host("service-manager-and-a-stuck-stdout", sink: .own),
    .host("service-manager-and-a-stuck-fifo", sink: .own),
    .host("service-manager-and-a-frozen-disk", sink: .own),
  ]

  private static let otherHosts: [Scenario] = [
    .host("attributes-stay"),
    .host("registers-stay"),
    .host("threads-come-and-go"),
    .host("signals-blocked-in-a-stall", isReported: false),
    .host("masks-of-waiting-calls", isReported: false),
    .host("own-interruptions", isReported: false),
    .host("stack-protected-after-a-capture"),
    .host("loop-made-on-a-coroutine"),
  ]
}
