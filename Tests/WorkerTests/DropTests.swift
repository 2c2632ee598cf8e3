internal import Testing
@Suite struct Placeholder {}
