/// The known word that takes the fewest edits from `word`; nil when `known` is empty.
///
/// Optimal string alignment (insert, delete, replace, swap neighbours) over ASCII-lower-cased
/// bytes; the first of equals wins. Only the first 64 bytes of `word` are looked at.
package func nearest(_ word: String, among known: [String]) -> String? {
  let a = lowercased(word)
  return known.map { (word: $0, edits: edits(a, lowercased($0))) }.min { $0.edits < $1.edits }?.word
}

private func lowercased(_ word: String) -> [UInt8] {
  word.utf8.prefix(64).map { UInt8(ascii: "A")...UInt8(ascii: "Z") ~= $0 ? $0 | 0x20 : $0 }
}

private func edits(_ a: [UInt8], _ b: [UInt8]) -> Int {
  var before: [Int] = []
  var last = Array(0...b.count)
  for i in a.indices {
    var row = [i + 1]
    for j in b.indices {
      var best = min(row[j], last[j + 1]) + 1
      best = min(best, last[j] + (a[i] == b[j] ? 0 : 1))
      if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { best = min(best, before[j - 1] + 1) }
      row.append(best)
    }
    (before, last) = (last, row)
  }
  return last[b.count]
}
