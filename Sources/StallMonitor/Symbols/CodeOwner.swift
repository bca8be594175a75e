enum CodeOwner { case host, runtime, system, monitor
 init(module: LoadedModule, linkageName: String?) { self = module.isMainExecutable ? .host : .system } }
