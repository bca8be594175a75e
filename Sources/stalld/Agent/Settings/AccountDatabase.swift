import Glibc

/// The users and groups of this machine, from all its databases (nsswitch.conf(5)).
enum AccountDatabase {
  static func user(_ name: String) -> UInt32? {
    look(passwd()) { getpwnam_r(name, $0, $1, $2, $3) }?.pw_uid
  }

  static func group(_ name: String) -> UInt32? {
    look(Glibc.group()) { getgrnam_r(name, $0, $1, $2, $3) }?.gr_gid
  }

  private static func look<Entry>(
    _ empty: Entry,
    _ call: (
      UnsafeMutablePointer<Entry>, UnsafeMutablePointer<CChar>, Int, UnsafeMutablePointer<UnsafeMutablePointer<Entry>?>
    ) -> Int32
  ) -> Entry? {
    var size = 4096
    while size <= 1 << 20 {
      var (entry, buffer) = (empty, [CChar](repeating: 0, count: size))
      var found: UnsafeMutablePointer<Entry>?
      let code = call(&entry, &buffer, buffer.count, &found)
      // A group of many members needs more space.
      if code == ERANGE {
        size *= 4
        continue
      }
      return code == 0 && found != nil ? entry : nil
    }
    return nil
  }
}
