import Foundation
public import Testing

/// A block of code in a page of the documentation, or in a doc comment.
public struct Snippet: Sendable, CustomTestStringConvertible {
  /// The path in the repository.
  public var page: String
  /// Where the block begins, from 1.
  public var line: Int
  /// What the fence says; empty if it says nothing.
  public var language: String
  /// The lines of the block.
  public var code: String

  /// The page and the line.
  public var testDescription: String { "\(page):\(line)" }

  /// How tests judge a snippet.
  public enum Judge: Equatable, Sendable {
    /// The shell reads it, and what it calls exists.
    case shell
    /// `stalld check` takes it.
    case settings
    case fragmentInC
    /// A whole program in Swift: it compiles.
    case program
    /// A part of a program in Swift: it compiles among declarations of what it uses.
    case fragment
    /// Lines of a Package.swift.
    case manifest
    /// Its lines are in a program that uses packages of others, which is built with them.
    case integration
    case json
    /// Declarations of the public interface, which `PublicInterfaceTests` compares with the module.
    case interface
    /// Output and diagrams.
    case shown
    /// No test; the reason.
    case exempt(String)
    /// Nobody judges it: that is a mistake.
    case unknown
  }

  /// How tests judge the snippet: by its language, and for Swift by what it has.
  public var judge: Judge {
    switch language {
    case "sh": .shell
    case "yaml": .settings
    case "c": .fragmentInC
    case "json": .json
    case "text": .shown
    case "dockerfile": .exempt("ContainerTests runs its command")
    case "logql": .exempt("Debian has no program that reads LogQL")
    case "swift":
      if page == "Documentation/API.md" {
        .interface
      } else if code.contains("import Vapor") {
        .exempt("Vapor is not among the packages that this repository builds")
      } else if code.contains("ServiceGroup(") {
        .exempt("swift-service-lifecycle is a trait's; Integrations/Ecosystem has a program with these lines")
      } else if code.contains(".package(") {
        .manifest
      } else if code.contains("MultiThreadedEventLoopGroup") {
        .integration
      } else {
        code.hasPrefix("import ") ? .program : .fragment
      }
    default: .unknown
    }
  }

  /// The pages of the documentation: of the repository, of its examples and integrations, and for DocC.
  public static let pages: [String] = {
    let folders = ["", "Documentation", "Documentation/GettingStarted", "Documentation/Internals"]
    let parents = ["Examples", "Integrations"].flatMap { parent in names(in: parent).map { "\(parent)/\($0)" } }
    let catalogs = ["LoopEngine", "StallMonitor"].map { "Sources/\($0)/Documentation.docc" }
    return (folders + parents + catalogs).flatMap { folder in
      names(in: folder).filter { $0.hasSuffix(".md") }.map { folder.isEmpty ? $0 : "\(folder)/\($0)" }
    }
  }()

  /// The snippets of all pages, and of the doc comments of the libraries.
  public static let all: [Snippet] = {
    let comments = ["Sources/LoopEngine", "Sources/StallMonitor", "Sources/CStallMonitor"].flatMap { folder in
      let paths = FileManager.default.enumerator(atPath: Repository.file(folder).path)?.allObjects ?? []
      return paths.compactMap { $0 as? String }.filter { $0.hasSuffix(".swift") || $0.hasSuffix(".h") }.sorted()
        .map { "\(folder)/\($0)" }
    }
    return (pages + comments).flatMap { page in
      let text = (try? String(contentsOf: Repository.file(page), encoding: .utf8)) ?? ""
      return snippets(of: text, page: page)
    }
  }()

  /// The snippets that are judged in this way.
  public static func all(_ judge: Judge) -> [Snippet] { all.filter { $0.judge == judge } }

  private static func names(in folder: String) -> [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: Repository.file(folder).path)) ?? []).sorted()
  }

  static func snippets(of text: String, page: String) -> [Snippet] {
    let isMarkdown = page.hasSuffix(".md")
    var snippets: [Snippet] = []
    var open: Snippet?
    for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      var text = line.drop { $0 == " " }
      if !isMarkdown {
        guard text.hasPrefix("///") else { continue }
        text = text.dropFirst(3)
        if text.first == " " { text = text.dropFirst() }
      }
      if text.hasPrefix("```") {
        if let whole = open { snippets.append(whole) }
        open =
          open == nil ? Snippet(page: page, line: number + 1, language: String(text.dropFirst(3)), code: "") : nil
      } else {
        open?.code += (isMarkdown ? String(line) : String(text)) + "\n"
      }
    }
    return snippets
  }
}
