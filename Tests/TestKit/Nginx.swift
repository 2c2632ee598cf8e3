internal import Glibc
internal import System

/// A real nginx on free loopback ports, http and https, in a folder of its own; it ends with its
/// owner.
///
/// | below | what it does |
/// |---|---|
/// | /put/ | WebDAV: PUT, DELETE, MKCOL, COPY, MOVE into `stored(...)` |
/// | /raw/NAME | keeps any request: `raw(NAME)` gives its head and body; 201 |
/// | /discard/ | reads the body, keeps nothing; 200 |
/// | /status/N | reads the body, answers N |
/// | /always503/ | 503 with `Retry-After: 2` |
/// | /auth/ | Basic, `user` and `secret`, else 401; then as /put/ |
/// | /slow/SECONDS | reads the body, answers after that time |
/// | /drop/ | closes the connection without an answer |
/// | /small/ | 413 for more than 1 KiB |
/// | /limited/ | 429 for more than 20 requests a second |
/// | /redirect/X | 307 to /put/X |
/// | /redirect/301/X and so on | that status, to /put/X |
/// | /away/X | 307 to the other origin (from http to https) |
/// | /round/ | 308 to itself |
/// | /client/ | 200 with a client certificate that it knows, else 403 |
package final class Nginx: Sendable {
  /// Ports on 127.0.0.1.
  package let port: Int, securePort: Int
  private let folder: Folder
  private let process: Locked<Child?>

  /// "http://127.0.0.1:PORT"
  package var url: String { "http://127.0.0.1:\(port)" }
  /// "https://localhost:PORT", for which the certificate is made.
  package var secureURL: String { "https://localhost:\(securePort)" }
  /// Its certificate, which is its own authority.
  package var caFile: String { folder.at("cert.pem") }
  /// A client certificate that it knows, and its key.
  package var clientCertificate: String { folder.at("client.pem") }
  package var clientKey: String { folder.at("client-key.pem") }

  package init() {
    folder = Folder()
    (port, securePort) = (freePort(), freePort())
    process = Locked(nil)
    for name in ["data/put", "data/auth", "data/limited", "data/small", "raw", "tmp"] {
      folder.makeDirectory(name)
    }
    for (name, subject) in [("", "localhost"), ("client", "client")] {
      let (certificate, key) =
        name.isEmpty ? ("cert.pem", "key.pem") : ("\(name).pem", "\(name)-key.pem")
      let made = run([
        "/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=\(subject)",
        "-addext", "subjectAltName=DNS:\(subject)", "-keyout", folder.at(key), "-out",
        folder.at(certificate),
      ])
      precondition(made.code == 0, "openssl: \(made.output)")
    }
    // {PLAIN}secret
    folder.write("users", "user:{PLAIN}secret\n")
    folder.write("nginx.conf", configuration)
    start()
  }
  deinit { stop() }

  /// One for all tests of a process that don't stop it.
  package static let shared: Nginx = {
    let nginx = Nginx()
    atTheEnd {
      nginx.stop()
      nginx.folder.clear()
    }
    return nginx
  }()

  /// Starts it again after `stop`, on the same ports.
  package func start() {
    let child = spawn(
      [
        "/usr/sbin/nginx", "-p", folder.path, "-e", folder.at("error.log"), "-c",
        folder.at("nginx.conf"),
      ],
      output: folder.at("output"))
    process.with { $0 = child }
    let end = Clock.monotonic() + 10 * second
    while !isListening(port) || !isListening(securePort) {
      precondition(
        child.isRunning && Clock.monotonic() < end,
        "nginx didn't start: \(folder.text("output") ?? "") \(folder.text("error.log") ?? "")")
      usleep(5_000)
    }
  }
  /// Ends it at once; connections are cut.
  package func stop() {
    let child = process.with { child in
      let old = child
      child = nil
      return old
    }
    child?.send(SIGKILL)
    child?.wait()
  }

  /// What was PUT below /put/; nil when it isn't there.
  package func stored(_ name: String) -> [UInt8]? { folder.read("data/put/\(name)") }
  /// What was PUT below another location, such as "auth/x".
  package func stored(at path: String) -> [UInt8]? { folder.read("data/\(path)") }
  /// The names below /put/ or a folder of it.
  package func names(_ directory: String = "") -> [String] { folder.names("data/put/\(directory)") }
  /// What /raw/NAME got; nil when nothing came.
  package func raw(_ name: String) -> (head: FaultServer.Head, body: [UInt8])? {
    guard let head = folder.text("raw/\(name).head"), let body = folder.read("raw/\(name)")
    else { return nil }
    return (FaultServer.Head(text: head), body)
  }
  /// One request that was answered.
  package struct Entry: Sendable {
    /// The connection's number, so that requests on one connection can be told.
    package let connection: Int
    package let method: String, path: String
    package let status: Int
  }
  /// All requests up to now, in the order of their answers.
  package var log: [Entry] {
    (folder.text("access.log") ?? "").split(separator: "\n").compactMap { line in
      let words = line.split(separator: " ").map(String.init)
      guard words.count == 4, let connection = Int(words[0]), let status = Int(words[3]) else {
        return nil
      }
      return Entry(connection: connection, method: words[1], path: words[2], status: status)
    }
  }

  private var configuration: String {
    let dav = "dav_methods PUT DELETE MKCOL COPY MOVE; create_full_put_path on;"
    let modules = "/usr/lib/nginx/modules"
    return """
      daemon off; master_process off; pid \(folder.path)/nginx.pid;
      load_module \(modules)/ndk_http_module.so;
      load_module \(modules)/ngx_http_lua_module.so;
      events { worker_connections 1024; }
      http {
        log_format short '$connection $request_method $uri $status';
        access_log \(folder.path)/access.log short;
        client_max_body_size 0; client_body_buffer_size 64k; keepalive_requests 100000000;
        client_body_temp_path \(folder.path)/tmp/body; proxy_temp_path \(folder.path)/tmp/proxy;
        fastcgi_temp_path \(folder.path)/tmp/f; uwsgi_temp_path \(folder.path)/tmp/u;
        scgi_temp_path \(folder.path)/tmp/s;
        limit_req_zone $binary_remote_addr zone=rate:1m rate=20r/s;
        server {
          listen 127.0.0.1:\(port); listen 127.0.0.1:\(securePort) ssl;
          ssl_certificate \(caFile); ssl_certificate_key \(folder.path)/key.pem;
          ssl_client_certificate \(clientCertificate); ssl_verify_client optional;
          root \(folder.path)/data;
          location /put/ { \(dav) }
          location /auth/ { auth_basic realm; auth_basic_user_file \(folder.path)/users; \(dav) }
          location /limited/ { limit_req zone=rate burst=1 nodelay; limit_req_status 429; \(dav) }
          location /small/ { client_max_body_size 1k; \(dav) }
          location /always503/ { add_header Retry-After 2 always; return 503; }
          location /drop/ { return 444; }
          location ~ ^/redirect/(30\\d)/(.*)$ { content_by_lua_block {
            ngx.req.discard_body() ngx.header.Location = "/put/" .. ngx.var[2]
            ngx.exit(tonumber(ngx.var[1])) } }
          location /redirect/ { rewrite ^/redirect/(.*)$ /redirect/307/$1 last; }
          location ~ ^/away/(.*)$ { return 307 \(secureURL)/put/$1; }
          location /round/ { return 308 /round/; }
          location /client/ { if ($ssl_client_verify != SUCCESS) { return 403; } return 200; }
          location ~ ^/status/(\\d+) { content_by_lua_block {
            ngx.req.read_body() ngx.exit(tonumber(ngx.var[1])) } }
          location ~ ^/slow/([\\d.]+) { content_by_lua_block {
            ngx.req.read_body() ngx.sleep(tonumber(ngx.var[1])) ngx.say("late") } }
          location /discard/ { content_by_lua_block { ngx.req.read_body() ngx.say("ok") } }
          location ~ ^/raw/(.*)$ { content_by_lua_block {
            ngx.req.read_body()
            local path = "\(folder.path)/raw/" .. ngx.var[1]
            local function save(path, data)
              local file = io.open(path, "wb") file:write(data) file:close()
            end
            local data = ngx.req.get_body_data()
            if not data then
              local name = ngx.req.get_body_file()
              if name then
                local file = io.open(name, "rb") data = file:read("*a") file:close()
              end
            end
            save(path .. ".head", ngx.req.raw_header())
            save(path, data or "")
            ngx.header["X-Kept"] = "yes"
            ngx.status = 201 ngx.say("kept") } }
        }
      }
      """
  }
}
