import Foundation
package import StallReport
import Testing

@testable import StallNaming

/// A stall of the published corpus of fingerprints: `Tests/Corpus/fingerprints`.
package struct CorpusStall: Decodable, Sendable, CustomTestStringConvertible {
  /// A frame of a sample.
  package struct Frame: Decodable, Hashable, Sendable {
    /// The linkage name; nil if it is not known.
    var name: String?
    var module: String
    var executable: Bool?
    var inlined: Bool?
    var linked: Bool?
    var declared_in: String?
    var source: String?
    var build_id: String?
    var offset: String
  }

  /// What the stall is there for.
  package var about: String
  /// Whether the thread was running on a processor.
  package var running: Bool
  /// The stacks, innermost frame first.
  package var samples: [[Frame]]
  /// The sample that the report shows.
  package var shown: Int
  /// The responsible function, or nil.
  package var culprit: String?
  /// What it has to be, or nil.
  package var fingerprint: String?

  package var testDescription: String { about }

  /// Whether the function of each frame is known.
  package var isNamed: Bool { samples.joined().allSatisfy { $0.name != nil } }

  /// All stalls; a file that cannot be read is an issue.
  package static let all: [CorpusStall] = {
    let directory = Repository.file("Tests/Corpus/fingerprints")
    let files = (try? FileManager.default.contentsOfDirectory(at: directory, includingPropertiesForKeys: nil)) ?? []
    return files.filter { $0.pathExtension == "json" }.sorted { $0.path < $1.path }.compactMap { file in
      do {
        return try JSONDecoder().decode(CorpusStall.self, from: Data(contentsOf: file))
      } catch {
        Issue.record("\(file.lastPathComponent): \(error)")
        return nil
      }
    }
  }()

  /// The frames of a sample as the monitor has them once they are named.
  package func stack(_ sample: Int) -> [StackFrame] {
    samples[sample].flatMap { frame -> [StackFrame] in
      let place = StackFrame(
        module: frame.module, buildID: frame.build_id, offset: UInt64(frame.offset.dropFirst(2), radix: 16))
      let names = frame.name.map { [SymbolizedFrame(frame, named: $0)] } ?? []
      return place.named(names, isExecutable: frame.executable ?? false)
    }
  }

  /// The stacks without names, and the names of their places.
  package func places() -> (stacks: [[StackFrame]], names: [UInt64: [SymbolizedFrame]]) {
    var offsets: [[Frame]: UInt64] = [:]
    var names: [UInt64: [SymbolizedFrame]] = [:]
    var stacks: [[StackFrame]] = []
    for sample in samples {
      var stack: [StackFrame] = []
      var inlined: [Frame] = []
      for frame in sample {
        inlined.append(frame)
        if frame.inlined == true { continue }
        // The corpus may have another value at another place of the same function.
        let offset = offsets[inlined] ?? UInt64(0x1000 + 16 * offsets.count)
        offsets[inlined] = offset
        names[offset] = inlined.compactMap { frame in
          frame.name.map { SymbolizedFrame(frame, named: $0) }
        }
        inlined = []
        let place = StackFrame(module: frame.module, buildID: frame.build_id ?? "00", offset: offset)
        stack += place.named([], isExecutable: frame.executable ?? false)
      }
      stacks.append(stack)
    }
    return (stacks, names)
  }
}

extension SymbolizedFrame {
  fileprivate init(_ frame: CorpusStall.Frame, named name: String) {
    let symbol = Demangler.demangle(name) ?? name
    self.init(
      symbol: symbol, shortSymbol: ShortSymbol.shorten(symbol, linkageName: name), linkageName: name, file: nil,
      line: nil, inlined: frame.inlined ?? false,
      isCompilerGenerated: ShortSymbol.isCompilerGenerated(symbol, linkageName: name),
      isInSystemHeader: frame.declared_in.map { SystemHeaders.contain($0, compiledFor: frame.source) } ?? false)
    isOfLinkedLibrary = frame.linked ?? false
  }
}
