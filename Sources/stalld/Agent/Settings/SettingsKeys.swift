import StallMonitor

// The table that the reader, `stalld check`, the variables' names, the shipped file and the manual are made from.

extension AgentSettings {
  static let keys: [SettingsKey<AgentSettings>] = [
    .init(
      "socket.path", \.socket.path, .socketPath, needsRestart: true,
      "The Unix socket that hosts hand their reports to. Under socket activation the unit stalld.socket decides."),
    .init("socket.mode", \.socket.mode, .mode, needsRestart: true, "The permissions of the socket's file."),
    .init(
      "socket.group", orOff: \.socket.group, .group, needsRestart: true,
      "The group of the socket's file; off leaves it the agent's own."),
    .init(
      "socket.allow.users", listOf: .user, \.socket.allow.users,
      "Users whose processes may hand in reports. If both lists are empty, everyone may who may open the socket."),
    .init(
      "socket.allow.groups", listOf: .group, \.socket.allow.groups, "Groups whose processes may hand in reports."),
    .init(
      "control.path", \.control.path, .socketPath, needsRestart: true, "The socket of stalld status and stalld tail."),
    .init(
      "limits.lines_per_second", \.limits.linesPerSecond, .count(1...1_000_000),
      "Lines of one unit or container, and of all processes of a user that have none. A line counts once for each 8 KiB that it has begun. Four seconds' worth may come at once. The agent reads no faster."
    ),
    .init(
      "limits.user_lines_per_second", \.limits.userLinesPerSecond, .count(1...1_000_000),
      "Lines of one user in all its units, which have their turns; at least what one unit may send."),
    .init(
      "limits.user_bytes_per_day", orOff: \.limits.userBytesPerDay, .size(1 << 20...1 << 50),
      "Reports of one user that are written in a day (UTC), of one of its units at most half of it. What is more is counted, and not written. Never more than a quarter of what the files hold that are kept; off admits all."
    ),
    .init(
      "limits.line_bytes", \.limits.lineBytes, .size(8 << 10...16 << 20),
      "The longest line. A client that sends a longer one is refused it. At most a quarter of limits.memory."),
    .init(
      "limits.connections", \.limits.connections, .count(1...1_000_000),
      "Connections at a time. When all are taken, the user with the most gives way to one that has fewer."),
    .init(
      "limits.connections_per_user", \.limits.connectionsPerUser, .count(1...1_000_000),
      "Connections of one user at a time, and of one of its units at most half of them."),
    .init(
      "limits.memory", \.limits.memory, .size(1 << 20...64 << 30),
      "What may wait in the agent to be written: of one user as much as is free, and of one of its units as much as is left of its user's half. Beyond it the agent reads nothing, and hosts keep their reports."
    ),
    .init(
      "limits.incomplete_line_timeout", \.limits.incompleteLineTimeout, .time(.seconds(1) ... .seconds(3600)),
      "A client that leaves a line unfinished for so long is disconnected."),
    .init(
      "details.directory", \.details.directory, .path, "Where the file of each stall goes that has all its samples."),
    .init(
      "details.max_age", orOff: \.details.maxAge, .time(.seconds(60) ... .seconds(3650 * 86400)),
      "Older ones are removed; off keeps them."),
    .init(
      "details.max_size", \.details.maxSize, .size(1 << 20...1 << 50),
      "Of all of them together; the oldest of the user that has most are removed."),
    .init(
      "symbolication.enabled", \.symbolication.enabled, .bool,
      "Whether the agent looks names up for hosts that leave it to the agent."),
    .init("symbolication.cache", \.symbolication.cache, .size(1 << 20...64 << 30), "Memory for what was looked up."),
    .init(
      "symbolication.debug_directories", listOf: .path, \.symbolication.debugDirectories,
      "Where separate debug files lie (DIR/.build-id/xx/REST.debug)."),
    .init(
      "symbolication.time_limit", \.symbolication.timeLimit, .time(.milliseconds(10) ... .seconds(60)),
      "A report is written without the names that took longer."),
    .init(
      "metrics.listen", orOff: \.metrics.listen, .metricsAddress,
      "Where Prometheus finds /metrics, and anybody /healthz."),
    .init(
      "metrics.textfile", orOff: \.metrics.textfile, .textfile,
      "A file with the same numbers for node_exporter's textfile collector."),
    .init(
      "metrics.textfile_interval", \.metrics.textfileInterval, .time(.seconds(1) ... .seconds(3600)),
      "How often that file is written."),
  ]

  /// What is said of each mapping, in the order of the file.
  static let groups: [(name: String, summary: String)] = [
    ("socket", "The socket that hosts connect to, and who may."),
    ("control", "The socket of the operator's commands."),
    ("limits", "What clients may take; one above its limits is held back or disconnected, and no other is."),
    (
      "outputs",
      "Where reports are written: a list of files, stdout and syslog, each with its type. While a file cannot be written, reports wait."
    ),
    ("details", "The files of single stalls."),
    ("symbolication", "Names for the frames of reports."),
    ("metrics", "The agent's own numbers, for Prometheus."),
    (
      "services",
      "What single services are told instead of their own settings, when they connect and when this file is read again. A list; the first entry that matches a service counts."
    ),
  ]
}

extension AgentSettings.Output {
  /// The words for `type`.
  static let types = ["file", "stdout", "syslog"]

  static let fileKeys: [SettingsKey<File>] = [
    .init("path", \.path, .path, "The file, of JSON lines."),
    .init("mode", \.mode, .mode, "The permissions of the file."),
    .init(
      "max_size", orOff: \.maxSize, .size(64 << 10...1 << 40),
      "The file is rotated before it gets larger; off leaves that to others."),
    .init(
      "max_age", orOff: \.maxAge, .time(.seconds(60) ... .seconds(366 * 86400)),
      "The file is rotated when its first line is older; off leaves that to others."),
    .init("keep", \.keep, .count(1...10000), "How many rotated files are kept."),
    .init("compress", \.compress, .choice, "What rotated files are compressed with."),
    .init(
      "fsync", \.fsync, .choice,
      "When reports are brought to the disk: by the kernel (a power cut takes what is younger than half a minute), within a second, or each before it is acknowledged."
    ),
  ]

  static let syslogKeys: [SettingsKey<Syslog>] = [
    .init(
      "address", \.address, .syslogAddress,
      "Where messages are sent: in the format of syslog(3) to a socket, in that of RFC 5424 by TCP."),
    .init("facility", \.facility, .choice, "The facility of each message."),
  ]

  /// What stdout takes beside its type.
  static let standardOutputKeys: [SettingsKey<Void>] = []
}

extension AgentSettings.ServiceOverride {
  static let keys: [SettingsKey<AgentSettings.ServiceOverride>] = [
    .init(
      "match", \.match, .glob,
      "Which services: a glob for the unit's name, with or without .service, or the service's name. Needed."),
    .init(
      "enabled", optional: \.isEnabled, .bool,
      "Whether the service is watched. With no, it takes no samples and sends no reports; with yes, it resumes. A service whose own configuration says no is not affected."
    ),
    .init(
      "captures", optional: \.captures, .choice,
      "Whose stacks are taken. With blocked-only no thread that runs is sampled, so none gets a signal or a perf event: such stalls are reported without a stack."
    ),
    .init(
      "threshold", optional: \.threshold, .time(.milliseconds(1) ... .seconds(3600)),
      "How long a turn may take before it is a stall."),
    .init(
      "repeat_window", optional: \.repeatWindow, .time(.zero ... .seconds(3600)),
      "How long a stall that has been told is counted instead of told again; 0s tells each."),
    .init("budget", optional: \.budget, .count(0...10000), "Stalls told in full a minute; 0 is no limit."),
    .init(
      "sampling", optional: \.sampling, .time(.milliseconds(10) ... .seconds(60)),
      "How long after the first look at a stall the second one comes; then it doubles."),
    .init("threads", optional: \.threads, .choice, "Which other threads reports tell of."),
    .init("symbolication", optional: \.symbolication, .choice, "Who looks names up."),
  ]
}
