import StallReport

/// How a cause is shown.
///
/// The page of `stalld report --html` has the same colours in `page.css`, as a variable and a class of the cause's name.
extension Cause {
  /// The colour of its category in a Firefox profile, one of those that the profiler has.
  var firefoxColor: String {
    switch self {
    case .running: "orange"
    case .lock: "purple"
    case .io: "blue"
    case .sleep: "lightblue"
    case .starved: "red"
    case .throttled: "magenta"
    case .fault: "brown"
    case .stopped: "darkgrey"
    case .unknown: "grey"
    }
  }
}
