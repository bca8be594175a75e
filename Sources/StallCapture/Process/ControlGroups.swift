/// The control groups of a process, as its file `cgroup` in procfs lists them (cgroups(7)).
package enum ControlGroups {
  /// One line: `hierarchy-ID:controller-list:path`.
  package struct Membership {
    /// The controllers as the line has them, which is also where a version 1 hierarchy is mounted; empty for version 2.
    package var controllerList: Substring
    /// The group's path, `/` for the root.
    package var path: Substring
    package var isVersion2: Bool

    package var controllers: [Substring] { controllerList.split(separator: ",") }
  }

  /// Where a file of a group may be.
  package struct File {
    package var path: String
    /// Which version of control groups the file has the form of.
    package var isVersion2: Bool
    /// The same file of the groups above it, the nearest first.
    package var above: [String] = []
  }

  /// Parses the file's text; lines of another form are left out.
  package static func memberships(in text: String) -> [Membership] {
    // By bytes: the agent does this for each service that connects, and a thousand may connect at once.
    text.utf8.split(separator: UInt8(ascii: "\n")).compactMap { line in
      let fields = line.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { return nil }
      return Membership(
        controllerList: Substring(fields[1]), path: Substring(fields[2]),
        isVersion2: fields[1].isEmpty && fields[0].elementsEqual("0".utf8))
    }
  }

  /// The groups above one, the nearest first, without the root.
  private static func parents(of group: String) -> [String] {
    let names = group.split(separator: "/")
    return names.indices.dropFirst().reversed().map { "/" + names[..<$0].joined(separator: "/") }
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
  /// - Returns: The places, the most likely first.
  package static func files(
    named name: String, controller: Substring, of memberships: [Membership], mounts: String
  ) -> [File] {
    memberships.flatMap { membership -> [File] in
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
        [
          File(
            path: "\(root)\(group)/\(name)", isVersion2: membership.isVersion2,
            above: parents(of: group).map { "\(root)\($0)/\(name)" }),
          File(path: "\(root)/\(name)", isVersion2: membership.isVersion2),
        ]
      }
    }
  }
}
