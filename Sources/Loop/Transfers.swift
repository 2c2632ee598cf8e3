package import CCurl

/// A curl easy handle; the loop's thread alone may touch it.
@safe package struct Easy {
  /// `CURL *`.
  package let raw: UnsafeMutableRawPointer
  /// A new handle; nil when there is no memory for one.
  package init?() {
    guard let raw = unsafe curl_easy_init() else { return nil }
    unsafe self.raw = unsafe raw
  }
}

/// A transfer that curl is working on.
struct Running {
  let easy: Easy
  let done: @OnLoop (CURLcode) -> Void
}

extension Loop {
  /// A number for a transfer, never given twice in a process.
  @OnLoop package func nextID() -> Int {
    lastID += 1
    return lastID
  }
  /// Lets curl work on `easy`, whose CURLOPT_PRIVATE is `id`, and calls `done` at its end. False
  /// when curl won't have it.
  @OnLoop package func add(
    _ easy: Easy, _ id: Int, done: @escaping @OnLoop (CURLcode) -> Void
  ) -> Bool {
    transfers[id] = Running(easy: easy, done: done)
    let code = unsafe curl_multi_add_handle(multi, easy.raw)
    if code != CURLM_OK { transfers[id] = nil }
    return code == CURLM_OK
  }
  /// Takes a transfer away from curl at once, which closes its connection; `done` isn't called.
  /// Not from within curl's callbacks (`isPerforming`).
  @OnLoop package func remove(_ id: Int) {
    if let transfer = transfers.removeValue(forKey: id) {
      unsafe curl_multi_remove_handle(multi, transfer.easy.raw)
    }
  }

  /// One round over all transfers, and their ends.
  func perform() {
    var running: Int32 = 0
    isPerforming = true
    unsafe curl_multi_perform(multi, &running)
    isPerforming = false
    if Int(running) == transfers.count { return }
    var result = CURLE_OK
    while let easy = unsafe ccurl_next_done(multi, &result) {
      let id = unsafe ccurl_id(easy)
      unsafe curl_multi_remove_handle(multi, easy)
      if let done = transfers.removeValue(forKey: id)?.done {
        OnLoop.assume { done(result) }
      }
    }
  }
}
