"""Holds the senders of examples/python against the captures in v1/: run by the tests, from the repository's root."""

import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, "examples/python")
import ingest_sender  # noqa: E402
import small_sender  # noqa: E402


def capture(name):
    with open(f"Tests/Fixtures/v1/{name}", "rb") as file:
        return file.read()


def sender(**options):
    made = ingest_sender.Sender(("127.0.0.1", 9), 77, **options)
    made.epoch = struct.unpack_from("<Q", capture("packet.bin"), 16)[0]
    return made


assert ingest_sender.crc32c(b"123456789") == 0xE3069283

plain, tagged = sender(), sender(key=bytes(range(32)), key_id=1)
assert plain.packet(ingest_sender.HEARTBEAT, 10, struct.pack("<QQQ40x", 9, 8, 0xFEED5EED00000001)) == capture("heartbeat.bin")
assert tagged.packet(ingest_sender.BATCH, 1, capture("packet.bin")[40:]) == capture("tagged.bin")

ack = capture("ack.bin")
plain.next, plain.sent, plain.unacked = 80, 80, {sequence: [b"", 0, 0.5] for sequence in range(80)}
for place in range(len(ack) * 8):
    flipped = bytearray(ack)
    flipped[place // 8] ^= 1 << place % 8
    plain.receive(bytes(flipped))
assert len(plain.unacked) == 80, "a damaged ack was believed"
tagged.next, tagged.sent, tagged.unacked = 80, 80, dict(plain.unacked)
tagged.receive(ack)
assert len(tagged.unacked) == 80, "an ack without tag was believed"
plain.receive(ack)
assert len(plain.unacked) == 80, "an ack was believed before the first answer"
plain.asked = [(0xFEED5EED00000001, 8, 0)]
plain.receive(ack)
assert [place for place in range(80) if place not in plain.unacked] == [*range(9), 10, 12, 73]
assert plain.edge == 9 + 500 and plain.commit == 1000
# As the answer to its heartbeat it tells which directory it is.
assert plain.directory == 0x0123456789ABCDEF

batch = capture("json-batch.bin")
small_sender.sender, small_sender.epoch = 77, plain.epoch
assert small_sender.packet(2, batch[40:]) == batch
small_sender.unacked = dict.fromkeys(range(80))
for place in range(len(ack) * 8):
    flipped = bytearray(ack)
    flipped[place // 8] ^= 1 << place % 8
    small_sender.take(bytes(flipped))
assert len(small_sender.unacked) == 80, "a damaged ack was believed"
small_sender.take(ack)
assert [place for place in range(80) if place not in small_sender.unacked] == [*range(9), 10, 12]
