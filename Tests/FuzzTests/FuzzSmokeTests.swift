import FuzzTargets
import Testing

struct FuzzSmokeTests {
    @Test(arguments: FuzzRegistry.targets.map(\.name))
    func `A decoder stands a moment of fuzzing`(name: String) throws {
        let target = try #require(FuzzRegistry.target(named: name))
        FuzzSmoke.run(target, mutationCount: 3000)
    }

    @Test func `A failure that is planted is found`() async {
        await #expect(processExitsWith: .failure) {
            FuzzSmoke.run(FuzzRegistry.canary, mutationCount: 3000)
        }
    }

    @Test func `Every target has a name of its own, and seeds`() {
        let names = FuzzRegistry.targets.map(\.name)
        #expect(Set(names).count == names.count)
        #expect(!names.contains("canary"))
        for target in FuzzRegistry.targets { #expect(!target.seeds().isEmpty, "\(target.name)") }
    }
}
