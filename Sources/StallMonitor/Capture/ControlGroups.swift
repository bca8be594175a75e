/// The control groups of this process, as `/proc/self/cgroup` lists them (cgroups(7)).
enum ControlGroups {
  /// One line: `hierarchy-ID:controller-list:path`.
  struct Membership {
    /// Of a version 1 hierarchy; empty for version 2.
    var controllers: [Substring]
    /// The controllers as the line has them, which is also where a version 1 hierarchy is mounted.
    var controllerList: Substring
    /// The group's path, `/` for the root.
    var path: Substring
    var isVersion2: Bool
  }

  static let file = "/proc/self/cgroup"

  /// Parses the file's text; lines of another form are left out.
  static func memberships(in text: String) -> [Membership] {
    text.split(separator: "\n").compactMap { line in
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { return nil }
      return Membership(
        controllers: fields[1].split(separator: ","), controllerList: fields[1], path: fields[2],
        isVersion2: fields[0] == "0" && fields[1].isEmpty)
    }
  }
}
