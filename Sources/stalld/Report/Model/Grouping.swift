import ArgumentParser

/// What stalls are put together by.
enum Grouping: String, CaseIterable, ExpressibleByArgument {
  case culprit, fingerprint, cause, service, host, release
}
