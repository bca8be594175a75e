import Foundation

// `make bench-capture`: what it costs a host to be looked at. One run; ratios are against rows of the same run, and its exit code tells
// only that it ran.
//
// With `--child` it is one of the processes that it measures.

if CommandLine.arguments.dropFirst().first == "--child" {
  try Child.run(Array(CommandLine.arguments.dropFirst(2)))
} else {
  var results = Results()
  results.add(try BlockedThread.run())
  results.add(try RunningThread.run())
  results.add(try OtherTools.run())
  results.add(try Unwinding.run())
  results.add(try Symbolication.run())
  results.add(try FixedMemory.run())
  results.add(try Detection.run())
  results.add(try ThrowSpeed.run())
  try results.publish()
}
