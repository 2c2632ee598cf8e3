package import Configuration
package import Jobs
package import Loop
internal import System
internal import Transfer

/// Finds the destination that a job means, by the configuration.
@OnLoop package final class Resolver {
  package let configuration: Configuration
  private let durable: Bool
  private let rates: RateLimits
  /// URLs of jobs that were seen lately: many jobs go to one place.
  private var parsed: [String: (url: URL, origin: String)] = [:]
  /// What the configured destinations are made of, parsed once.
  private var settings: [String: HTTPDestination.Settings] = [:]

  /// What a configured name means in a simulation.
  private let instead: (@OnLoop (String) -> any Destination)?

  package init(
    _ configuration: Configuration, durable: Bool, rates: RateLimits,
    instead: (@OnLoop (String) -> any Destination)? = nil
  ) {
    (self.configuration, self.durable, self.rates) = (configuration, durable, rates)
    self.instead = instead
  }

  /// Why a job has no destination.
  package enum Failure: Error, Sendable, Equatable {
    /// Not known to this configuration, but it may be to the next: the job waits.
    case unknown(String)
    /// Never: with the reason and advice.
    case refused(SendError)
  }

  /// What a job's `to` shares with other jobs: a circuit and limits. No error: a job that can't be
  /// resolved gets its own key.
  package func key(_ job: Job) -> String {
    switch job.destination {
    case .named(let name, _): return name
    case .url(let text):
      if text.lowercased().hasPrefix("file:") { return fileKey(text) }
      return (try? parse(text))?.origin ?? text
    }
  }

  /// Directories share nothing: each has a circuit of its own.
  private func fileKey(_ text: String) -> String {
    let path = text.utf8.dropFirst("file://".utf8.count)
    let end = path.lastIndex(of: UInt8(ascii: "/")).map { path.index(after: $0) } ?? path.endIndex
    return "file://" + String(decoding: path[..<end], as: UTF8.self)
  }

  /// How many files at once its operator allows; nil: as many as the worker.
  package func concurrency(_ key: String) -> Int? { configuration.destinations[key]?.concurrency }

  package func resolve(_ job: Job) throws(Failure) -> any Destination {
    switch job.destination {
    case .named(let name, let path): return try named(name, path, job)
    case .url(let text):
      if text.lowercased().hasPrefix("file:") { return try file(text, job) }
      return try plain(text, job)
    }
  }

  /// The destination that can remove what a job, gone by now, left half-sent; nil when the
  /// configuration doesn't have it any more.
  package func cleaner(_ key: String, for resume: Sidecar.Resume) -> (any Destination)? {
    if key.hasPrefix("file://") {
      guard let path = FileDestination.decodedPath(resume.url),
        let slash = path.lastIndex(of: "/")
      else { return nil }
      return FileDestination(
        key: key, base: String(path[...slash]), below: "", takesNames: true,
        writeRoots: configuration.effectiveWriteRoots, durable: durable)
    }
    if let instead, configuration.destinations[key] != nil { return instead(key) }
    guard let known = configuration.destinations[key], known.kind == .file else { return nil }
    return FileDestination(
      key: key, base: known.path, below: "", takesNames: true, writeRoots: nil, durable: durable)
  }

  private func refuse(_ kind: String, _ message: String, _ advice: String) -> Failure {
    .refused(SendError(.jobForGood, kind, message, advice: advice))
  }

  private func plain(_ text: String, _ job: Job) throws(Failure) -> any Destination {
    let (url, origin) = try parse(text)
    guard configuration.hosts.allows(scheme: url.scheme, host: url.host, port: url.port) else {
      throw refuse(
        "forbidden", "jobs may not send to \(url.authority)",
        "add it to \"hosts\" in the configuration if they should")
    }
    return HTTPDestination(
      key: origin, base: url, takesNames: job.destination.takesNames,
      method: job.method ?? .put, form: job.form, headers: job.headers,
      hasOwnCredentials: url.user != nil || carriesCredentials(job.headers),
      settings: HTTPDestination.Settings())
  }

  private func carriesCredentials(_ headers: [Job.Header]) -> Bool {
    headers.contains { ["authorization", "cookie"].contains($0.name.lowercased()) }
  }

  private func parse(_ text: String) throws(Failure) -> (url: URL, origin: String) {
    if let known = parsed[text] { return known }
    do throws(TransferError) {
      let url = try URL(text)
      if parsed.count >= 256 { parsed.removeAll() }
      parsed[text] = (url, url.origin)
      return (url, url.origin)
    } catch {
      throw .refused(
        SendError(
          .jobForGood, "invalid", "to: \(error)", advice: "correct the URL and submit the job again"
        ))
    }
  }

  private func file(_ text: String, _ job: Job) throws(Failure) -> any Destination {
    guard let path = FileDestination.decodedPath("file" + text.dropFirst(4)) else {
      throw refuse("invalid", "to: a file URL is like file:///srv/in/", "correct it")
    }
    try noHTTP(job)
    guard !path.split(separator: "/").contains(where: { $0 == ".." || $0 == "." }) else {
      throw refuse("invalid", "to: \"..\" has no place in a file URL", "write the whole path")
    }
    if let roots = configuration.effectiveWriteRoots,
      !roots.contains(where: { relativePath(path, below: $0) != nil })
    {
      throw refuse(
        "forbidden", "jobs may not write to \(path)",
        "name a directory that holds it in \"writeRoots\" of the configuration if they should")
    }
    let slash = path.lastIndex(of: "/") ?? path.startIndex
    return FileDestination(
      key: fileKey(text), base: String(path[...slash]),
      below: String(path[path.index(after: slash)...]),
      takesNames: path.hasSuffix("/"), writeRoots: configuration.effectiveWriteRoots,
      durable: durable)
  }

  private func noHTTP(_ job: Job) throws(Failure) {
    if job.form != nil || job.method != nil || !job.headers.isEmpty {
      throw refuse(
        "invalid", "method, form and headers mean nothing for a directory", "leave them out")
    }
  }

  private func named(_ name: String, _ path: String, _ job: Job) throws(Failure)
    -> any Destination
  {
    guard let known = configuration.destinations[name] else { throw .unknown(name) }
    if let instead { return instead(name) }
    if known.kind == .file {
      try noHTTP(job)
      return FileDestination(
        key: name, base: known.path, below: path, takesNames: job.destination.takesNames,
        writeRoots: nil, throttle: rates.throttle(name, known.bandwidth), durable: durable)
    }
    var url = try parse(known.url).url
    if !path.isEmpty { url = url.appendingPath(path) }
    let form = known.kind == .form ? job.form ?? known.form : job.form
    var headers = known.headers.filter { own in
      !job.headers.contains { $0.name.lowercased() == own.name.lowercased() }
    }
    headers += job.headers
    if let token = known.token, !carriesCredentials(job.headers) {
      headers.append(.init(name: "Authorization", value: "Bearer \(token.value)"))
    }
    return HTTPDestination(
      key: name, base: url, takesNames: job.destination.takesNames,
      method: job.method ?? known.method ?? .put, form: form, headers: headers,
      hasOwnCredentials: carriesCredentials(job.headers), settings: settings(name, known))
  }

  private func settings(_ name: String, _ known: Configuration.Destination)
    -> HTTPDestination.Settings
  {
    if let made = settings[name] { return made }
    var made = HTTPDestination.Settings()
    made.tls.caFile = known.ca
    made.tls.certificate = known.cert
    made.tls.key = known.key
    made.tls.keyPassword = known.keyPassword?.value
    made.proxy = known.proxy?.value
    made.user = known.user
    made.password = known.password?.value
    made.timeouts.connect = known.connectTimeout
    made.timeouts.progress = known.stallTimeout
    made.timeouts.answer = known.timeout
    made.verifiesByHead = known.verify == .head
    made.throttle = rates.throttle(name, known.bandwidth)
    if known.requestsPerSecond != nil {
      made.pacer = rates.pacer(name, known.requestsPerSecond)
    }
    settings[name] = made
    return made
  }
}
