/// What the agent is configured to do.
struct AgentSettings: Sendable, Equatable {}
