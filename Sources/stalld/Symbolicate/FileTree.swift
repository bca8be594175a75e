import DescriptorIO
import Glibc

/// The regular files under a directory.
///
/// Links are not followed, the directory's own excepted. A directory that cannot be read is left out.
struct FileTree: Sequence, IteratorProtocol {
  private var directories: [String]
  private var files: [String] = []

  init(_ root: String) { directories = [root] }

  mutating func next() -> String? {
    while files.isEmpty {
      guard let directory = directories.popLast() else { return nil }
      list(directory)
    }
    return files.removeLast()
  }

  private mutating func list(_ directory: String) {
    guard let stream = opendir(directory) else { return }
    defer { closedir(stream) }
    while let entry = readdir(stream) {
      let name = entry.name
      if name == "." || name == ".." { continue }
      let path = directory + "/" + name
      var status = stat()
      guard lstat(path, &status) == 0 else { continue }
      switch status.st_mode & S_IFMT {
      case S_IFREG: files.append(path)
      case S_IFDIR: directories.append(path)
      default: break
      }
    }
  }
}
