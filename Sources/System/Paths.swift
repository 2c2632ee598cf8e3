/// The part of an absolute path below a directory, by bytes: "." for the directory itself, nil when
/// it isn't below it. Nothing is resolved; `..` is for the opener to refuse.
package func relativePath(_ path: String, below root: String) -> Name? {
  var root = Array(root.utf8)[...]
  while root.last == UInt8(ascii: "/") { root.removeLast() }
  let path = Array(path.utf8)
  guard path.first == UInt8(ascii: "/"), path.starts(with: root) else { return nil }
  let rest = path.dropFirst(root.count)
  if let first = rest.first, first != UInt8(ascii: "/") { return nil }
  let relative = rest.drop { $0 == UInt8(ascii: "/") }
  return relative.isEmpty ? Name(".") : Name(bytes: relative)
}
