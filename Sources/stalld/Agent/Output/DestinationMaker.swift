/// Makes destinations of settings.
struct DestinationMaker: Sendable {
  /// The descriptor that represents standard output.
  var standardOutput: Int32
  var keeper: RotatedFileKeeper
  var say: OutputWriter.Say

  func make(_ settings: AgentSettings.Output) -> any LineDestination {
    switch settings {
    case .file(let file): FileDestination(file, keeper: keeper, say: say)
    case .standardOutput: DescriptorDestination(standardOutput, name: settings.name)
    case .syslog(let syslog): SyslogDestination(syslog)
    }
  }

  /// Gives an output that stays its new settings.
  static func update(_ destination: any LineDestination, to settings: AgentSettings.Output) {
    switch settings {
    case .file(let file): (destination as? FileDestination)?.update(file)
    case .standardOutput: break
    case .syslog(let syslog): (destination as? SyslogDestination)?.update(syslog)
    }
  }
}
