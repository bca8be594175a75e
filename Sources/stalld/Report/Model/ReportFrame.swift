/// A frame of a stack as the report has it; texts are numbers of ``ReportSummary/texts``, 0 where there is none.
struct ReportFrame: Hashable {
  var symbol: UInt32 = 0
  var file: UInt32 = 0
  var line: UInt32 = 0
  var module: UInt32 = 0
  var buildID: UInt32 = 0
  /// The call was inlined into the next frame that is not.
  var isInlined = false
  /// The function is not on the stack: it waits for an asynchronous call.
  var isAsync = false
  /// The address in the module; nil if the frame has none.
  var offset: UInt64?
}
