import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// A service in C in a container: with what `Documentation/Containers.md` says that an image needs, and with less.
  @Suite(
    .serialized, .takingTurns, .enabled(if: getuid() == 0, "chroot(2) needs root"),
    .enabled(
      if: ProcessInfo.isRuntimeInLibrary, "the library needs Swift's there: Debian has no static ones for aarch64"))
  struct ContainerTests {
    /// What an image may lack.
    enum Part: CaseIterable {
      case procfs, sharedMemory, unwinder, partOfUnwinder, names, permission
      /// The library is there, in a version without the functions that are called.
      case versionOfUnwinder, versionOfNames

      /// Takes the part from the root directory that is under /mnt, before anything is mounted there.
      var removal: String {
        switch self {
        case .procfs: "rmdir /mnt/proc"
        case .sharedMemory: "rmdir /mnt/dev/shm"
        case .unwinder: "rm /mnt/usr/lib/libunwind-*"
        case .partOfUnwinder: "rm /mnt/usr/lib/liblzma.so.5"
        case .names: "rm /mnt/usr/lib/libdw.so.1"
        case .permission: "chmod 711 /mnt/victim"
        case .versionOfUnwinder:
          "for file in /mnt/usr/lib/libunwind-*; do echo 'int none;' | cc -shared -fPIC -x c - -o \"$file\"; done"
        case .versionOfNames: "echo 'int none;' | cc -shared -fPIC -x c - -o /mnt/usr/lib/libdw.so.1"
        }
      }
    }

    /// Runs a stall of 600 ms in a container with a read-only root directory, as a user without a name.
    ///
    /// `procfs` are the options with which it is mounted, `afterwards` hides parts of it, and `launcher` is a command that starts the host.
    private func run(
      without parts: Part..., procfs: String = "rw", afterwards: String = "", through launcher: String = ""
    ) throws -> (
      victim: Victim, ended: WrittenReport, complaints: [String]
    ) {
      let script = """
        set -e
        mount -t tmpfs tmpfs /mnt
        cp --archive '\(try Self.image.get().path)/.' /mnt
        \(parts.map(\.removal).joined(separator: "\n"))
        [ ! -e /mnt/dev/shm ] || mount -t tmpfs tmpfs /mnt/dev/shm
        [ ! -e /mnt/proc ] || mount -t proc -o '\(procfs)' proc /mnt/proc
        \(afterwards)
        mount -o remount,ro /mnt
        unset STALLMONITOR_STATE_DIRECTORY
        exec \(launcher) chroot --userspec=65532:65532 /mnt "$@"
        """
      let victim = try Victim.run(
        "sleep",
        through: [
          "/usr/bin/unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--net",
          "--ipc",
          "/bin/bash", "-c", script, "_",
        ], program: URL(fileURLWithPath: "/victim"))
      #expect(victim.status == 0)
      let complaints = victim.talk.split(separator: "\n").filter { $0.hasPrefix("stallmonitor: ") }
      return (victim, try #require(victim.reports("stall.ended").first), complaints.map(String.init))
    }

    @Test func wholeReport() throws {
      let (_, ended, complaints) = try run()
      #expect(complaints == [])
      #expect(ended.culprit == "sleep_in_handler")
      #expect((ended.culpritFrame?["file"] as? String)?.hasSuffix("/victim.c") == true)
      #expect(ended.cause == "sleep")
      #expect(ended["process", "pid"] as? Int == 1)
    }

    @Test func withoutSharedMemory() throws {
      let (_, ended, complaints) = try run(without: .sharedMemory)
      #expect(complaints.count == 1 && complaints[0].contains("/dev/shm"), "\(complaints)")
      #expect(ended.culprit == "sleep_in_handler")
    }

    @Test(arguments: [(Part.unwinder, "libunwind-"), (.partOfUnwinder, "liblzma.so.5")])
    func withoutUnwinder(part: Part, library: String) throws {
      let (_, ended, complaints) = try run(without: part)
      let complaint = try #require(complaints.first { $0.contains("no stacks") })
      #expect(complaint.contains(library) && complaint.contains("No such file"))
      #expect(ended.cause == "sleep" && ended["stall", "culprit"] == nil)
      #expect(ended["stall", "capture", "failure"] as? String == "libunwind could not be loaded")
    }

    @Test func withoutNames() throws {
      let (_, ended, complaints) = try run(without: .names)
      #expect(complaints.count == 1 && complaints[0].contains("libdw.so.1: cannot open"), "\(complaints)")
      #expect(ended.culprit.hasPrefix("victim+0x"))
      #expect(ended.cause == "sleep")
    }

    /// The kernel does not show such a process to itself, or there is nobody who shows anything.
    @Test(arguments: [(Part.procfs, "No such file"), (.permission, "Permission denied")])
    func withoutView(part: Part, reason: String) throws {
      let (_, ended, complaints) = try run(without: part)
      let complaint = try #require(complaints.first { $0.contains("no cause") })
      #expect(complaint.contains("/syscall: \(reason)"))
      #expect(ended.cause == "unknown")
      #expect((ended["stall", "capture", "failure"] as? String)?.hasPrefix("the kernel does not show") == true)
      #expect(ended["service", "name"] as? String == "victim")
    }

    /// There the numbers of threads are other threads' ones.
    @Test func procfsOfAnOuterNamespace() throws {
      let (_, ended, complaints) = try run(through: "unshare --pid --fork --kill-child")
      #expect(complaints.count { $0.contains("no cause and no stacks: /proc has the thread ids of another") } == 1)
      #expect(ended.cause == "unknown" && ended["stall", "culprit"] == nil)
      #expect((ended["stall", "capture", "failure"] as? String)?.hasPrefix("the kernel does not show") == true)
    }

    @Test func unwinderOfAnotherVersion() throws {
      let (_, ended, complaints) = try run(without: .versionOfUnwinder)
      let complaint = try #require(complaints.first { $0.contains("no stacks") })
      #expect(complaint.contains(" lacks _U"), "\(complaint)")
      #expect(ended.cause == "sleep" && ended["stall", "culprit"] == nil)
      #expect(ended["stall", "capture", "failure"] as? String == "libunwind could not be loaded")
    }

    @Test func namesOfAnotherVersion() throws {
      let (_, ended, complaints) = try run(without: .versionOfNames)
      #expect(complaints.count == 1 && complaints[0].contains("libdw.so.1 has no function "), "\(complaints)")
      #expect(ended.culprit.hasPrefix("victim+0x"))
      #expect(ended.cause == "sleep")
    }

    /// As systemd's `ProcSubset=pid` and `ProtectProc=invisible` mount it: the process alone.
    @Test func procfsOfProcessesAlone() throws {
      let (_, ended, complaints) = try run(procfs: "subset=pid,hidepid=invisible")
      #expect(complaints == [])
      #expect(ended.culprit == "sleep_in_handler")
      #expect(ended.cause == "sleep")
    }

    /// Files of procfs that are there and have nothing in them.
    @Test(arguments: [
      ["syscall"], ["stat"], ["schedstat"], ["status"], ["syscall", "stat", "schedstat", "status", "wchan"],
    ])
    func procfsIsCutShort(files: [String]) throws {
      let hiding = files.map { "mount --bind /dev/null /mnt/proc/1/task/1/\($0)" }.joined(separator: "\n")
      let (_, ended, complaints) = try run(afterwards: hiding)
      guard files.contains("syscall") else {
        #expect(ended.culprit == "sleep_in_handler")
        #expect(ended.cause == "sleep")
        return
      }
      #expect(complaints.count { $0.contains("no cause and no stacks: ") } == 1, "\(complaints)")
      #expect(ended.cause == "unknown")
      #expect(ended["stall", "culprit"] == nil)
      #expect((ended["stall", "capture", "failure"] as? String)?.hasPrefix("the kernel does not show") == true)
    }

    /// The root directory of the image: the host, what it is linked to, and what the documented command copies.
    private static let image = Result {
      let recipe = try #require(Snippet.all.first { $0.language == "dockerfile" })
      let commands = recipe.code.replacing("\\\n", with: "").split(separator: "\n")
      let copying = try #require(commands.first { $0.hasPrefix("RUN mkdir /libraries") }).dropFirst("RUN ".count)
      let root = Repository.root.appending(path: ".build/c-library/container")
      let script = """
        set -eu
        root='\(root.path)' library='\(Repository.root.path)/.build/c-library/root'
        rm -rf "$root"
        mkdir -p "$root/usr/lib" "$root/lib64" "$root/proc" "$root/dev/shm" "$root/libraries"
        ln -s usr/lib "$root/lib"
        rmdir "$root/libraries"
        \(copying.replacing("/libraries", with: "\"$root/libraries\""))
        mv "$root"/libraries/* "$root/usr/lib"
        cc -std=gnu11 -g -O1 -I"$library/include" -o "$root/victim" '\(Repository.root.path)/Tests/Victims/CLoopVictim/victim.c' \
          -L"$library/lib" -lstallmonitor
        cp --dereference "$library/lib/libstallmonitor.so.1" "$root/usr/lib"
        needed=$(LD_LIBRARY_PATH="$library/lib" ldd "$root/victim")
        cp --dereference $(echo "$needed" | awk '$3 ~ "^(/usr)?/lib/" { print $3 }') "$root/usr/lib"
        loader=$(echo "$needed" | awk '$1 ~ "^/lib(64)?/ld-" { print $1 }')
        cp --dereference "$loader" "$root$loader"
        """
      let made = try Program.run("/bin/sh", ["-c", script])
      try #require(made.status == 0, "\(made.errors)")
      return root
    }
  }
}
