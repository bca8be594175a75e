import Synchronization

extension Loop {
  /// The name of a mode: a set of timers, sources and observers.
  ///
  /// A run serves exactly one mode at a time.
  ///
  /// A mode is a small number; its name is kept for as long as the process lives. Making one from a string looks the
  /// name up under a lock (about 100 ns), so keep your own modes in a `static let`. Safe on any thread.
  @frozen
  public struct Mode: Hashable, Sendable {
    @usableFromInline let id: Int32

    @inlinable
    init(id: Int32) {
      self.id = id
    }

    /// The mode with this name, the same value for the same name everywhere in the process.
    ///
    /// - Important: Names are never freed, because any thread may read one at any time. Make them from constants and not from data: a
    ///   process that makes more than 65 536 different ones is stopped.
    public init(_ name: String) {
      self.init(id: ModeNames.identifier(of: name))
    }

    /// The mode of a loop's ordinary life.
    @inlinable public static var `default`: Mode { Mode(id: 1) }
    /// The mode in which user interaction is followed; common only after ``Loop/addCommonMode(_:)``.
    @inlinable public static var tracking: Mode { Mode(id: 2) }
    /// The set of all common modes, now and later; not a mode that can be run.
    ///
    /// `.default` is in it from the beginning, ``Loop/addCommonMode(_:)`` adds others.
    @inlinable public static var common: Mode { Mode(id: 0) }

    /// The mode's name.
    public var name: String { ModeNames.text(of: id).description }
  }
}

extension Loop.Mode: CustomStringConvertible {
  /// The mode's name.
  public var description: String { name }
}

extension Loop.Mode: ExpressibleByStringLiteral {
  /// The mode with this name.
  public init(stringLiteral name: String) {
    self.init(name)
  }
}

/// All mode names of the process, by number.
enum ModeNames {
  private static var mostNames: Int { 65_536 }

  private struct Table {
    var identifiers: [String: Int32] = [:]
    var texts: [ImmortalText] = []
  }

  private static let table: Guarded<Table> = {
    var table = Table()
    for (identifier, name) in ["common", "default", "tracking"].enumerated() {
      table.identifiers[name] = Int32(identifier)
      table.texts.append(ImmortalText(copying: name))
    }
    return .table(table)
  }()

  static func identifier(of name: String) -> Int32 {
    table.withLock { table in
      if let known = table.identifiers[name] { return known }
      precondition(table.texts.count < mostNames, "more than \(mostNames) mode names; use constants as mode names")
      let identifier = Int32(table.texts.count)
      table.identifiers[name] = identifier
      table.texts.append(ImmortalText(copying: name))
      return identifier
    }
  }

  static func text(of identifier: Int32) -> ImmortalText {
    table.withLock { $0.texts[Int(identifier)] }
  }
}
