import CLinux
import PlatformLibc

extension Loop {
  /// A source that reports the exit of one child process, through a pidfd.
  public final class ChildSource: DescriptorSource, @unchecked Sendable {
    /// How a child ended.
    public struct Status: Sendable, Hashable, CustomStringConvertible {
      private enum Value: Hashable {
        case exited(Int32)
        case signalled(Int32)
        case unknown
      }

      private let value: Value

      /// It exited with this code.
      public static func exited(_ code: Int32) -> Status { Status(value: .exited(code)) }
      /// This signal killed it.
      public static func signalled(_ signal: Int32) -> Status { Status(value: .signalled(signal)) }
      /// Other code has waited for it; its exit status is lost.
      public static let unknown = Status(value: .unknown)

      /// The exit code; nil if it did not exit by itself.
      public var exitCode: Int32? { if case .exited(let code) = value { code } else { nil } }

      /// The signal that killed it; nil if none did.
      public var signal: Int32? { if case .signalled(let signal) = value { signal } else { nil } }

      /// The status in words, such as `exited with code 1`.
      public var description: String {
        switch value {
        case .exited(let code): "exited with code \(code)"
        case .signalled(let signal): "was killed by signal \(signal)"
        case .unknown: "ended"
        }
      }
    }

    /// Makes a source for a child; it works once it is added to a loop.
    ///
    /// The child is waited for, exactly once, when its exit is served; do not wait for it yourself.
    ///
    /// - Parameters:
    ///   - child: The process number of a child of this process.
    ///   - name: What the monitor calls it in a report.
    ///   - file: Where it was made.
    ///   - line: Where it was made.
    ///   - body: Called once on the loop's thread; the source is invalid then.
    /// - Throws: ``LoopError`` when there is no such process (`ESRCH`) or no descriptor left.
    public init(
      _ child: Int32, name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
      body: sending @escaping (Status) -> Void
    ) throws(LoopError) {
      let descriptor = clinux_pidfd_open(child)
      if descriptor < 0 { throw LoopError("watch process \(child)") }
      let owned = OwnedDescriptor(descriptor)
      super.init(descriptor, name: name, file: file, line: line) { [owned] source, _ in
        withExtendedLifetime(owned) {}
        // By the descriptor: if other code has waited, the number may be another child's now.
        var status: Int32 = 0
        let how = clinux_wait_for_pidfd(owned.number, &status)
        if how == 0 { return }
        source.invalidate()
        switch how {
        case Int32(CLD_EXITED): body(.exited(status))
        case Int32(CLD_KILLED), Int32(CLD_DUMPED): body(.signalled(status))
        default: body(.unknown)
        }
      }
    }
  }
}
