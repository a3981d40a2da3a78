import Dispatch
import IngestPipeline
import Testing

@Suite("The hand-over between stages")
struct StageLinkTests {
    @Test("elements come out in the order in which they went in")
    func order() {
        let link = StageLink<Int>()
        for value in 0..<100 { link.push(value) }
        #expect((0..<100).allSatisfy { link.pop(waitNanoseconds: 0) == $0 })
        #expect(link.pop(waitNanoseconds: 0) == nil)
    }

    @Test("what was pushed before the close still comes out, then it is finished")
    func close() {
        let link = StageLink<Int>()
        link.push(1)
        link.close()
        #expect(!link.isFinished)
        #expect(link.pop(waitNanoseconds: 0) == 1)
        #expect(link.pop(waitNanoseconds: 0) == nil)
        #expect(link.isFinished)
        #expect(link.pop(waitNanoseconds: 0) == nil)
    }

    @Test("a waiting side gets everything that the other pushes")
    func twoSides() {
        let link = StageLink<Int>()
        let done = DispatchGroup()
        DispatchQueue.global().async(group: done) {
            for value in 0..<20_000 { link.push(value) }
            link.close()
        }
        var next = 0
        while !link.isFinished {
            guard let value = link.pop(waitNanoseconds: 1_000_000_000) else { continue }
            #expect(value == next)
            next += 1
        }
        done.wait()
        #expect(next == 20_000)
    }
}
