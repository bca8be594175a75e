/// stalld.yaml(5), as troff reads it, made from the table of keys.
struct SettingsManual {
  private(set) var text = ""

  init() {
    let settings = AgentSettings()
    text = Self.head
    for group in AgentSettings.groups {
      line(".Ss \(group.name)")
      say(group.summary)
      switch group.name {
      case "outputs":
        line(".Bl -tag -width Ds")
        for kind in AgentSettings.Output.Kind.allCases {
          line(".It Cm type\\&: \(kind.rawValue)")
          switch kind {
          case .file: list(AgentSettings.Output.File.keys, AgentSettings.Output.File())
          case .standardOutput: say("Standard output, one JSON object per line. No further keys.")
          case .syslog: list(AgentSettings.Output.Syslog.keys, AgentSettings.Output.Syslog())
          }
        }
        line(".El")
        say("The default is one file.")
      case "services": list(AgentSettings.ServiceOverride.keys, AgentSettings.ServiceOverride())
      default: list(AgentSettings.keys.filter { $0.name.hasPrefix(group.name + ".") }, settings)
      }
    }
    line(".Sh ENVIRONMENT")
    say(
      "Variables override the file, and flags override both. An empty variable is ignored; an unknown variable that begins with \(AgentSettings.variablePrefix) is an error."
    )
    line(".Bl -tag -width Ds")
    for key in AgentSettings.keys where !key.isList {
      line(".It Ev \(AgentSettings.variable(key.name))")
      line(".Cm \(key.name)")
    }
    line(".El")
    text += Self.foot
  }

  private static let head = """
    .Dd November 21, 2026
    .Dt STALLD.YAML 5
    .Os
    .Sh NAME
    .Nm stalld.yaml
    .Nd settings of the stalld agent
    .Sh SYNOPSIS
    .Pa \(AgentSettings.File.usual.path)
    .Sh DESCRIPTION
    The agent
    .Xr stalld 1
    .Cm run
    reads this file when it starts, on
    .Ql stalld reload
    .Po which
    .Ql systemctl reload stalld
    runs
    .Pc
    and when it receives SIGHUP.
    If the file is missing, the defaults apply. With an invalid file a running agent keeps its settings, and a new agent does not start;
    .Ql stalld check
    lists all errors. An unknown key is an error.
    .Pp
    The file is YAML, one document of at most \(ByteSize.text(AgentSettings.File.sizeLimit)), without anchors, aliases and tags.
    .Bl -tag -width Ds
    .It times
    A number and a unit:
    .Ql 250ms , 1.5s , 5min , 24h , 14d .
    .It sizes
    A number and a unit:
    .Ql 8000B , 256KiB , 64MiB , 1GB .
    .El

    """

  private static let foot = """
    .Sh FILES
    .Bl -tag -width Ds
    .It Pa \(AgentSettings.File.usual.path)
    The settings.
    .El
    .Sh EXAMPLES
    .Bd -literal
    outputs:
      \\- type: file
        path: /var/log/stalld/stalls.jsonl
        max_size: 256MiB
      \\- type: syslog
    metrics:
      listen: "127.0.0.1:9464"
    services:
      \\- match: "web*"
        threshold: 100ms
    .Ed
    .Sh SEE ALSO
    .Xr stalld 1 ,
    .Xr fnmatch 3 ,
    .Xr systemd.time 7

    """

  private mutating func list<Owner>(_ keys: [SettingsKey<Owner>], _ defaults: Owner) {
    line(".Bl -tag -width Ds")
    for key in keys {
      line(".It Cm \(key.name)")
      say(key.summary)
      say("Allowed: \(key.isList ? "a list, each element " : "")\(key.allowed).")
      if let values = key.values(defaults) { say("Default: \(YAMLWriter.value(values, isList: key.isList)).") }
      if key.needsRestart { say("A new value needs a restart of the agent.") }
    }
    line(".El")
  }

  /// A line of text that troff takes for nothing else.
  private mutating func say(_ words: String) {
    let escaped = words.map { character in
      switch character {
      case "\\": "\\e"
      case "-": "\\-"
      default: String(character)
      }
    }.joined()
    line(words.hasPrefix(".") || words.hasPrefix("'") ? "\\&" + escaped : escaped)
  }

  private mutating func line(_ words: String) { text += words + "\n" }
}
