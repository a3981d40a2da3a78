import IngestRing
import Testing

@Suite struct RingTests {
    @Test func aRecordIsSeenOnceItIsPublishedAndNotBefore() {
        let ring = TestRing(byteCount: 4096)
        let message = Message(sequence: 7, packet: [1, 2, 3])
        #expect(ring.next() == nil)
        #expect(ring.append(message))
        #expect(ring.next() == nil)
        ring.producer.publish()
        #expect(ring.next() == message)
        #expect(ring.next() == nil)
    }
}
