/// All commands, in the order of the overview.
let commands: [Command] =
  [
    Command(
      name: "run", summary: "Run a worker: upload the jobs of a spool.",
      notes: [
        "SIGTERM or SIGINT: no new jobs; what runs gets the grace time, then goes back to pending/. "
          + "A second signal: at once. SIGHUP: the configuration is read again.",
        "With --drain the exit code is 1 when a job failed meanwhile.",
      ],
      options: [
        spoolOption, configOption,
        Option(
          .root, nil, "DIR", repeats: true,
          "a directory that jobs may read from, besides the configuration's \"roots\"; may be repeated"
        ),
        Option(
          .drain, "d", nil, "end when nothing is left that can run now or at a recorded retry"),
        Option(.concurrency, "c", "N", "files sent at once, 1 to 1024 (the configuration's, or 4)"),
        Option(.grace, nil, "S", "seconds that running transfers get at SIGTERM (10)"),
        Option(
          .poll, nil, "S", "look at the directories every S seconds instead of waiting for events"),
        Option(
          .singleHost, nil, nil,
          "this machine alone uses the spool, where its filesystem's locks prove nothing"
        ),
        Option(
          .durability, nil, "full|process",
          "what finished work survives: power cuts (full, the default) or the end of the process"),
        Option(.log, nil, "text|json", "how events are told on standard error (text)"),
      ], run: runWorker),
    Command(
      name: "submit", operands: "FILE…", least: 1,
      summary: "Put a job into the spool, and print its name.",
      notes: [
        "TIME is a date with zone, as 2026-12-01T08:00:00Z, or a span from now, as +30m, +2h or +3d.",
        "The job is on disk when the command ends. Without --name it is called by the time (UTC).",
      ],
      options: [
        spoolOption,
        Option(
          .to, "t", "DEST",
          "where the files go: a URL, or NAME:PATH with a destination of the worker's configuration; "
            + "ending in \"/\" it takes each file's name"),
        Option(.name, "n", "NAME", "the job's name; it must be free in pending/"),
        Option(.title, nil, "TEXT", "a title for people"),
        Option(.priority, "p", "N", "0 (first) to 9 (last); 5 unless set"),
        Option(.notBefore, nil, "TIME", "don't start before"),
        Option(.expires, nil, "TIME", "give up after"),
        Option(.attempts, nil, "N", "how often the job may fail by its own fault, 1 to 1000"),
        Option(.parallel, nil, "N", "how many of its files at once, 1 to 64 (1)"),
        Option(
          .onError, nil, "stop|continue", "what becomes of the other files when one fails (stop)"),
        Option(.method, nil, "PUT|POST", "how each file is sent"),
        Option(
          .header, nil, "'K: V'", repeats: true, "a header of the requests; may be repeated"),
        Option(
          .formField, nil, "NAME", "send each file as this field of a form (multipart/form-data)"),
        Option(
          .field, nil, "K=V", repeats: true, "a further field of the form; may be repeated"),
        Option(.as, nil, "NAME", "what the file is called over there; for one FILE"),
        Option(.group, "g", "GROUP", "a word for jobs that are handled together"),
        Option(.dedupe, nil, "KEY", "wait for the waiting or running job with this key"),
        Option(.hold, nil, nil, "put it into paused/: stored, not started"),
        Option(
          .x, nil, "K=V", repeats: true, "a key of your own, x-K, for status; may be repeated"),
        Option(.param, nil, "K=V", repeats: true, isLater: true, ""),
        Option(.notify, nil, "URL", isLater: true, ""),
        Option(.wait, nil, nil, isLater: true, ""),
      ], run: submit),
    Command(
      name: "status", operands: "[JOB…]", summary: "Show where the jobs stand.",
      notes: [
        "JOB is a name with or without .json, or a pattern in quotes, as 'nightly-*'. Without any: "
          + "running ones first, then the queue in its order, paused, failed, and the newest of done.",
        "With --json each job is one line: its sidecar, with \"name\" and \"state\" first.",
      ],
      options: [spoolOption, Option(.json, "j", nil, "one JSON object a line, for programs")],
      run: status),
    Command(
      name: "watch", operands: "[JOB…]", summary: "Follow jobs until they end.",
      notes: [
        "JOB is as for `status`. Without any: all there are, until nothing is left in active/ or "
          + "due in pending/. On a terminal bars are drawn in place; else each start, change of state "
          + "and end is a line.",
        "The exit code is 1 when one of the jobs failed or isn't there. A paused job that is named is "
          + "waited for; a cancelled one has ended. Nothing is written to the spool.",
      ],
      options: [
        spoolOption,
        Option(.follow, "f", nil, "never end; jobs that come later are followed, too"),
        Option(
          .interval, "i", "S", "seconds between lines of progress, where no bars are drawn (10)"),
        Option(.json, "j", nil, "a job's line as from `status --json`, at each change"),
      ], run: watch),
    Command(
      name: "pause", operands: "JOB…", summary: "Hold jobs, also while they run.",
      notes: ["The same as: mv -n spool/active/JOB.json spool/paused/", selectionNote],
      options: selectionOptions, run: pause),
    Command(
      name: "resume", operands: "JOB…", summary: "Let paused jobs go on where they stopped.",
      notes: ["The same as: mv -n spool/paused/JOB.json spool/pending/", selectionNote],
      options: selectionOptions, run: resume),
    Command(
      name: "cancel", operands: "JOB…", summary: "Stop jobs, and remove what lies half-sent.",
      notes: ["The same as: rm spool/active/JOB.json (or pending, paused)", selectionNote],
      options: selectionOptions, run: cancel),
    Command(
      name: "retry", operands: "JOB…",
      summary: "Try failed jobs again; files that are there aren't sent again.",
      notes: ["The same as: mv -n spool/failed/JOB.json spool/pending/", selectionNote],
      options: selectionOptions + [
        Option(.done, nil, nil, "done jobs instead: all of their files are sent again")
      ], run: retry),
    Command(
      name: "hold", summary: "Stop everything; what runs goes back to pending/.",
      notes: ["The same as: touch spool/hold"], options: [spoolOption], run: hold),
    Command(
      name: "release", summary: "Let everything go on after a hold.",
      notes: ["The same as: rm spool/hold"], options: [spoolOption], run: release),
    Command(
      name: "check", summary: "Try what `run` tries, and look for what went wrong.",
      notes: ["The exit code is 1 when there is any trouble left."],
      options: [
        spoolOption, configOption,
        Option(.root, nil, "DIR", repeats: true, "as for `run`"),
        Option(.singleHost, nil, nil, "as for `run`"),
        Option(
          .repair, nil, nil,
          "remove what dead workers left behind, and take their jobs back into the queue"),
      ], run: check),
    Command(
      name: "prune", summary: "Remove jobs that ended long ago, and their sidecars.",
      notes: [
        "AGE is a span of time, as 7d, 12h or 30m; 0 means all. Unless given it is the "
          + "configuration's \"retention\", or 7d for done and 30d for failed jobs. A running worker "
          + "does the same by itself."
      ],
      options: [
        spoolOption, configOption,
        Option(.done, nil, "AGE", "jobs in done/ that ended longer ago"),
        Option(.failed, nil, "AGE", "jobs in failed/ that ended longer ago"),
        Option(.dryRun, "n", nil, "only count"),
      ], run: prune),
    Command(
      name: "health", summary: "Tell by the exit code whether a worker is alive (for containers).",
      notes: [
        "A worker of this host counts before those of others that share the spool. Nothing is written."
      ],
      options: [
        spoolOption,
        Option(.maxAge, nil, "S", "seconds that its last heartbeat may be old (30)"),
      ], run: health),
    Command(
      name: "completion", operands: "bash|zsh|fish", least: 1,
      summary: "Print a shell's completion script.",
      notes: [
        "bash: upspool completion bash > /etc/bash_completion.d/upspool. zsh: to a file _upspool in "
          + "$fpath. fish: to ~/.config/fish/completions/upspool.fish."
      ], options: [], run: completion),
    Command(
      name: "manual", summary: "Print the manual page upspool(1).",
      notes: ["upspool manual | man -l -"], options: [], run: manual),
  ] + laterCommands

let spoolOption = Option(.spool, "s", "DIR", "the spool ($UPSPOOL, or ./spool)")
let configOption = Option(
  .config, nil, "FILE", "the configuration ($UPSPOOL_CONFIG, or /etc/upspool.json if it is there)")

/// What says which jobs a command is about.
let selectionOptions = [
  spoolOption,
  Option(.all, "a", nil, "all of them"),
  Option(.group, "g", "GROUP", "those of this group"),
  Option(
    .destination, "D", "DEST",
    "those to this destination of the configuration, or to URLs that begin so"),
  Option(.quiet, "q", nil, "print only what went wrong"),
]
let selectionNote =
  "JOB is a name with or without .json, or a pattern in quotes, as 'nightly-*'; \"-\": names from "
  + "standard input, one a line, or with NUL behind each. Several of --group, --destination and "
  + "names together mean those that all of them mean. Nothing but files is moved: it works beside "
  + "running workers and without any."

/// What every command and the program itself knows.
let helpOption = Option(.help, "h", nil, "show this help")
let versionOption = Option(.version, "V", nil, "show the version")

/// Commands that are done by hand in this version.
private let laterCommands: [Command] = [
  Command(
    name: "import", operands: "FILE…", summary: "Take over job files.", isLater: true,
    options: [spoolOption], run: importByHand)
]
