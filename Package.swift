// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
  .treatAllWarnings(as: .error),
  .strictMemorySafety(),
]

/// A module of ours; it may import only what is named here, which stands above it in this list.
func module(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .testTarget(name: name, dependencies: dependencies + ["TestKit"], swiftSettings: strict)
}

let package = Package(
  name: "upspool",
  products: [.executable(name: "upspool", targets: ["upspool"])],
  targets: [
    .systemLibrary(
      name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
    .systemLibrary(name: "CJansson", pkgConfig: "jansson", providers: [.apt(["libjansson-dev"])]),
    .systemLibrary(name: "CCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .target(
      name: "CLinux", cSettings: [.define("_GNU_SOURCE"), .treatAllWarnings(as: .error)]),
    module("System", ["CLinux", "CCrypto"]),
    module("Jobs", ["CJansson", "System"]),
    module("Configuration", ["Jobs", "System"]),
    module("Spool", ["System", "Jobs"]),
    module("Loop", ["CCurl", "CLinux", "System"]),
    module("Transfer", ["CCurl", "CLinux", "Loop", "System"]),
    module("Scheduling", ["System"]),
    module("Destinations", ["System", "Jobs", "Configuration", "Loop", "Transfer"]),
    module(
      "Worker",
      [
        "CLinux", "System", "Jobs", "Configuration", "Spool", "Loop", "Transfer", "Scheduling",
        "Destinations",
      ]),
    module("Commands", ["CLinux", "System", "Jobs", "Configuration", "Spool", "Loop", "Worker"]),
    .executableTarget(name: "upspool", dependencies: ["Commands"], swiftSettings: strict),
    .target(
      name: "TestKit", dependencies: ["CLinux", "System", "Loop"], path: "Tests/TestKit",
      swiftSettings: strict),
    .executableTarget(
      name: "simulation",
      dependencies: [
        "Worker", "Destinations", "Transfer", "Loop", "Spool", "Jobs", "Configuration", "System",
        "TestKit",
      ], path: "Tests/Simulation", swiftSettings: strict),
    tests("SystemTests", ["System"]),
    tests("JobsTests", ["Jobs", "Configuration", "System", "CJansson"]),
    tests("SpoolTests", ["Spool", "Jobs", "System"]),
    tests("SchedulingTests", ["Scheduling", "System"]),
    tests("TransferTests", ["Transfer", "Loop", "System"]),
    tests("EndToEndTests", ["Spool", "Jobs", "System", "upspool", "simulation"]),
    tests(
      "CommandsTests", ["Commands", "Spool", "Jobs", "Configuration", "System", "upspool"]),
  ]
)
