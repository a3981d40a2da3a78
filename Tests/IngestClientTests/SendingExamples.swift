import IngestClient

/// The example of docs/sending.md, line by line (a tidy test holds it to the page).
enum SendingExamples {
    static func send() throws {
        var options = EventSender.Options()
        options.delivery = .spooled(directory: "/var/spool/shop")
        let sender = try EventSender.open(to: "127.0.0.1:4810", options: options)
        var event = AdEvent(
            .impression, rewardID: "r-1", businessID: "b-1",
            timestampMicroseconds: 1_795_168_800_000_000)
        event.eventID = Array("7e1c…".utf8)
        switch try sender.send(event) {
        case .taken: break
        // As much is unacked as may be: give it again later, or await sendWhenRoom.
        case .full: print("later")
        // It breaks a bound, and nothing was sent of it.
        case .refused(let refusal): print(refusal)
        }
        // On disk here: whatever becomes of this process, it will be counted.
        try sender.flush()
        // On disk there.
        let totals = try sender.close()
        print(totals.eventsAcked)
    }
}
