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

  /// Where a file of the process's groups may be: in each mount the group's own directory first, then the root.
  ///
  /// In a container the group's path is often that of the machine, and the group itself is mounted at the root.
  ///
  /// - Parameters:
  ///   - name: The file's name, such as `cpu.stat`.
  ///   - controller: The controller of version 1 that has the file.
  ///   - memberships: The groups, as ``memberships(in:)`` returns them.
  ///   - mounts: Where control groups are mounted.
  /// - Returns: The paths, and which version of control groups each has the form of.
  package static func files(
    named name: String, controller: Substring, of memberships: [Membership], mounts: String
  ) -> [(path: String, isVersion2: Bool)] {
    memberships.flatMap { membership -> [(path: String, isVersion2: Bool)] in
      let group = membership.path == "/" ? "" : String(membership.path)
      let roots: [String]
      if membership.isVersion2 {
        roots = [mounts, "\(mounts)/unified"]
      } else if membership.controllers.contains(controller) {
        roots = ["\(mounts)/\(membership.controllerList)", "\(mounts)/\(controller)"]
      } else {
        roots = []
      }
      return roots.flatMap { root in
        ["\(root)\(group)/\(name)", "\(root)/\(name)"].map { ($0, membership.isVersion2) }
      }
    }
  }
}
