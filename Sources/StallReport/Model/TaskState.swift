extension Report {
  /// Which task of Swift concurrency held the thread: the members of `task`.
  package struct TaskState: Sendable, Equatable {
    /// The low 32 bits of the runtime's number of the task; nil if not known.
    package var id: UInt32?
    /// The name that the program gave it.
    package var name: String?
    /// The runtime's number of its priority (`TaskPriority.rawValue`).
    package var priority: UInt8?
    /// The type of the actor that the task ran for; nil if it ran for none, or if that is not known.
    package var actor: String?

    package init(id: UInt32? = nil, name: String? = nil, priority: UInt8? = nil, actor: String? = nil) {
      self.id = id
      self.name = name
      self.priority = priority
      self.actor = actor
    }

    func write(to object: inout JSONWriter) {
      object.member("id", id)
      object.member("name", name?.limited(to: 100))
      object.member("priority", priority.map(Self.priorityName))
      object.member("actor", actor?.limited(to: 200))
    }

    /// The name that `TaskPriority` has for a priority, or its number.
    static func priorityName(_ number: UInt8) -> String {
      switch number {
      case 0x21: "user-interactive"
      case 0x19: "high"
      case 0x15: "medium"
      case 0x11: "utility"
      case 0x09: "background"
      default: "\(number)"
      }
    }
  }
}
