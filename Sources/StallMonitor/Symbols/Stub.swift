struct ModuleIdentity: Hashable { var path: String; var buildID: String? }
struct SymbolizedFrame { var symbol: String?; var linkageName: String?; var file: String?; var line: Int?; var inlined = false; var isCompilerGenerated = false }
final class Symbolizer { func symbolize(module: ModuleIdentity, address: UInt64, deadline: UInt64) -> [SymbolizedFrame] { [SymbolizedFrame()] } }
enum CodeOwner { case host, runtime, system, monitor
 init(modulePath: String, isExecutable: Bool, linkageName: String?) { self = isExecutable ? .host : .system } }
