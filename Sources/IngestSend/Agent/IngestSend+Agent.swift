// file or datagram → [lines] → send → spool → packet

import ArgumentParser
import IngestClient

extension IngestSend {
    /// Whether it runs until a signal ends it, instead of until the end of its input.
    var isAgent: Bool { follow || !listen.isEmpty }

    func validateAgent() -> String? {
        guard isAgent else { return nil }
        if spool == nil { return "--follow and --listen need --spool" }
        if spoolOnly || rate != nil {
            return "--follow and --listen go without --spool-only and --rate"
        }
        if follow, !listen.isEmpty {
            return "--follow and --listen are two agents, start one for each"
        }
        if follow, file == "-" { return "--follow needs a FILE, a pipe goes without it" }
        if !follow, file != "-" {
            return "--listen reads no FILE, start another ingest-send for it"
        }
        return nil
    }

    func runAgent() throws {
        let startedAt = SenderClock.monotonicNanoseconds()
        // From here on a signal ends it in order.
        let stop = StopRequest()
        let exitCode: Int32
        do throws(AgentFailure) {
            let sockets = try listen.map { address throws(AgentFailure) in
                try DatagramSocket(address)
            }
            let sender: EventSender
            do throws(ClientError) {
                sender = try openSender()
            } catch {
                throw AgentFailure(error)
            }
            tell(sender.spoolDamage[...])
            var agent = Agent(sender, stop: stop)
            var inbox: DatagramInbox?
            if follow {
                try agent.follow(file)
            } else {
                for socket in sockets { Agent.tell("listening on \(socket.name)") }
                let listening = DatagramInbox(sockets, signal: stop.signal)
                try agent.listen(listening)
                inbox = listening
            }
            exitCode = try agent.close()
            Self.printSummary(
                sender.totals, nanoseconds: SenderClock.monotonicNanoseconds() - startedAt,
                dropped: inbox.map { $0.dropCount + agent.lostCount })
        } catch {
            throw fail(error.message, exitCode: error.exitCode)
        }
        if exitCode != 0 { throw ExitCode(exitCode) }
    }
}
