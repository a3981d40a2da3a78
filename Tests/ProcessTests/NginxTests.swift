import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// nginx logs impressions by itself, as docs/sending.md shows: by syslog datagrams, and to a file that is followed.
    struct NginxTests {
        private static let program = Programs.found("nginx") ?? Programs.found("/usr/sbin/nginx")

        /// One process, as the user of the test.
        private static func configuration(_ folder: String) -> String {
            """
            daemon off;
            master_process off;
            pid \(folder)/nginx.pid;
            error_log \(folder)/error.log;
            events {}
            http {
              log_format impression escape=json
                '{"eventType":"impression","rewardId":"$arg_reward","businessId":"shop",'
                '"eventId":"$request_id","timestamp":"$time_iso8601"}';
              client_body_temp_path \(folder);
              proxy_temp_path \(folder);
              fastcgi_temp_path \(folder);
              uwsgi_temp_path \(folder);
              scgi_temp_path \(folder);
              server {
                listen unix:\(folder)/http;
                location /datagram {
                  access_log syslog:server=unix:\(folder)/events impression;
                  return 204;
                }
                location /file {
                  access_log \(folder)/access.log impression;
                  return 204;
                }
              }
            }

            """
        }

        @Test func `impressions that nginx logs by syslog and to a file count exactly`() throws {
            guard let program = Self.program else {
                try Test.cancel("nginx is not installed (apt-get install nginx-light)")
            }
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let agents = try [
                ["--spool", "\(folder.path)/spool1", "--listen", "unix:\(folder.path)/events"],
                ["--spool", "\(folder.path)/spool2", "--follow", "\(folder.path)/access.log"],
            ].map { try Running("ingest-send", ["--to", daemon.address] + $0, in: folder) }
            #expect(eventually { agents[0].errors.contains("listening on") })
            let configuration = try folder.write(
                "nginx.conf", Self.configuration(folder.path))
            let nginx = try Running(program, ["-c", configuration], in: folder)
            let http = folder.path + "/http"
            #expect(
                eventually { (try? UnixSocket(SOCK_STREAM, to: http)) != nil || !nginx.isRunning },
                "\(nginx.errors)")
            let reader = Reader(folder: folder)
            // In rounds of a few: nginx drops what a socket file has no room for (net.unix.max_dgram_qlen, 10).
            for round in 1...10 {
                for place in ["datagram", "file"] {
                    for number in 0..<4 {
                        let client = try UnixSocket(SOCK_STREAM, to: http)
                        client.send("GET /\(place)?reward=\(place)\(number) HTTP/1.0\r\n\r\n")
                        #expect(client.receiveAll().contains(" 204 "))
                    }
                }
                #expect(try eventually { try reader.sees(impressions: 8 * round, clicks: 0) })
            }
            let counts = try EventModel.counts(of: reader.tables().rewards)
            #expect(counts.count == 8 && counts.values.allSatisfy { $0["impressions"] == 10 })
            nginx.send(SIGTERM)
            _ = nginx.end()
            for agent in agents {
                agent.send(SIGTERM)
                let ended = agent.end()
                #expect(ended.code == 0 && ended.output.contains("\"acked\":40"), "\(ended.errors)")
            }
            #expect(daemon.stop().code == 0)
        }
    }
}
