/// The control groups of this process, as `/proc/self/cgroup` lists them (cgroups(7)).
package enum ControlGroups {
  /// One line: `hierarchy-ID:controller-list:path`.
  package struct Membership {
    /// Of a version 1 hierarchy; empty for version 2.
    package var controllers: [Substring]
    /// The controllers as the line has them, which is also where a version 1 hierarchy is mounted.
    package var controllerList: Substring
    /// The group's path, `/` for the root.
    package var path: Substring
    package var isVersion2: Bool
  }

  package static let file = "/proc/self/cgroup"

  /// Parses the file's text; lines of another form are left out.
  package static func memberships(in text: String) -> [Membership] {
    text.split(separator: "\n").compactMap { line in
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { return nil }
      return Membership(
        controllers: fields[1].split(separator: ","), controllerList: fields[1], path: fields[2],
        isVersion2: fields[0] == "0" && fields[1].isEmpty)
    }
  }
}
