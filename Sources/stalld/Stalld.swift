import ArgumentParser
@main struct Stalld: ParsableCommand {}
