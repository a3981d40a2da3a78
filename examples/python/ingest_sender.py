#!/usr/bin/env python3
"""Sends ad events to ingestd over UDP, and again until ingestd says that they are on disk: docs/protocol.md, in one
thread. Events are messages of proto/ingest/v1/events.proto, made by the official protobuf package."""
import argparse, contextlib, hashlib, hmac, importlib, itertools, pathlib, secrets, select, socket, struct, sys, tempfile, time

PROTO = pathlib.Path(__file__).resolve().parent.parent.parent / "proto"  # of the repository; a copy needs --proto
MAGIC, BATCH, HEARTBEAT, ACK, WANTS_ACK, TAGGED, ENDS, PENDING, IS_ANSWER = b"IGD1", 1, 2, 129, 1, 2, 4, 4, 8
HEADER = struct.Struct("<4sBBHQQQI")  # magic, kind, flags, key id, sender, epoch, sequence, payload size; then the CRC
OK, BUSY, DISK_FULL, REFUSED, BEYOND_WINDOW, UNSUPPORTED, ROLLED_BACK = range(7)
CREDIT_FIRST, CREDIT_MAX, UNACKED_MAX, IN_FLIGHT_MAX = 64, 65_536, 65_536, 16


def load_schema(proto=PROTO):
    """The generated module of events.proto, made by the compiler that comes with grpcio-tools."""
    from grpc_tools import protoc
    with tempfile.TemporaryDirectory() as output:
        assert protoc.main(["protoc", f"-I{proto}", f"--python_out={output}", "ingest/v1/events.proto"]) == 0
        sys.path.insert(0, output)
        return importlib.import_module("ingest.v1.events_pb2")


CRC_TABLE = list(range(256))
for _ in range(8):
    CRC_TABLE = [value >> 1 ^ (0x82F63B78 if value & 1 else 0) for value in CRC_TABLE]


def crc32c(data):
    """CRC-32C (Castagnoli): of b"123456789" it is 0xE3069283."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class Refused(Exception):
    """The sender must stop: going on could count twice, or hide a loss."""


class Sender:
    def __init__(self, address, sender_id=None, key=None, key_id=0):
        family, kind, protocol, _, target = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
        self.socket = socket.socket(family, kind, protocol)
        self.socket.connect(target)
        self.sender, self.key, self.key_id = sender_id or secrets.randbits(63) + 1, key, key_id
        self.epoch = time.time_ns() // 1_000_000 << 20 | secrets.randbits(20)
        self.unacked = {}  # sequence: [packet, when it is due (first 0), seconds to wait after that]
        self.next, self.sent, self.floor, self.edge = 0, 0, 0, CREDIT_FIRST  # behind what was made, sent; of an ack
        self.sheds, self.resent, self.heartbeat_at, self.heartbeat_wait = False, 0, 0.0, 0.1
        self.directory, self.commit, self.asked = None, 0, []  # of the receiver; (nonce, floor, commit) of heartbeats

    def packet(self, kind, sequence, payload, flags=0):
        flags |= WANTS_ACK | (TAGGED if self.key else 0)
        head = HEADER.pack(MAGIC, kind, flags, self.key_id, self.sender, self.epoch, sequence, len(payload))
        packet = head + struct.pack("<I", crc32c(head + payload)) + payload
        return packet + (self.tag(packet) if self.key else b"")

    def tag(self, packet):
        return hmac.new(self.key, packet, hashlib.sha256).digest()[:16]

    def send(self, batch):
        """Takes an EventBatch, and waits while too many are unacked. It is counted when `close` has returned."""
        while len(self.unacked) >= UNACKED_MAX:
            self.step(0.02)
        if batch.ByteSize() < 40:
            batch.padding = bytes(40)  # smaller packets get no ack
        self.unacked[self.next] = [self.packet(BATCH, self.next, batch.SerializeToString()), 0, 1.0]
        self.next += 1
        self.step(0)

    def close(self, seconds=60):
        deadline = time.monotonic() + seconds
        while self.unacked:
            self.step(0.02)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.unacked)} packets are not acked")
        self.heartbeat(ENDS)

    def step(self, wait):
        """Receives what comes within `wait` seconds, and sends what is due. Call it again and again while idle, too."""
        while select.select([self.socket], [], [], wait)[0]:
            wait = 0
            with contextlib.suppress(OSError):  # nobody listens now, or no route leads there: it may be starting again
                self.receive(self.socket.recv(65_535, socket.MSG_DONTWAIT))
        now = time.monotonic()
        if now >= self.heartbeat_at:
            self.heartbeat()
            self.heartbeat_wait = min(1, 2 * self.heartbeat_wait) if self.sheds or self.edge <= self.floor else 1
            self.heartbeat_at = now + self.heartbeat_wait * secrets.SystemRandom().uniform(0.75, 1.25)
        for sequence, entry in itertools.islice(self.unacked.items(), IN_FLIGHT_MAX):
            if self.sheds or sequence >= self.edge:
                break
            packet, due_at, seconds = entry
            if now >= due_at:
                self.resent += due_at > 0
                entry[1:], self.sent = (now + seconds, min(8.0, 2 * seconds)), max(self.sent, sequence + 1)
                self.transmit(packet)

    def heartbeat(self, flags=0):
        nonce, base = secrets.randbits(64), min(self.unacked, default=self.next)
        self.asked = self.asked[-63:] + [(nonce, self.floor, self.commit)]
        self.transmit(self.packet(HEARTBEAT, self.sent, struct.pack("<QQQ40x", base, self.floor, nonce), flags))

    def transmit(self, packet):
        with contextlib.suppress(OSError):  # as if it had been lost: it is sent again
            self.socket.send(packet, socket.MSG_DONTWAIT)

    def receive(self, packet):
        if (ack := self.parse(packet)) is None:
            return
        epoch, floor, credit, status, words, rest = ack
        if epoch < self.epoch or epoch > self.epoch and status != REFUSED or not self.believes(floor, status, *rest):
            return
        if status == BEYOND_WINDOW or not self.sheds and self.edge > self.floor and (status != OK or credit == 0):
            self.hurry()
        self.sheds = status in (BUSY, DISK_FULL) or self.sheds and status != OK
        if status != OK:
            return  # nothing else of this ack is to be believed
        end = max((floor + 64 * i + word.bit_length() for i, word in enumerate(words) if word), default=floor)
        if end > self.sent:
            raise Refused(f"the receiver has {end} packets, only {self.sent} were sent: the id is used twice")
        if floor < self.floor:
            return  # late
        self.floor, self.edge = floor, floor + min(credit, CREDIT_MAX)
        for sequence in list(self.unacked):
            place = sequence - floor
            if place < 0 or place < 64 * len(words) and words[place // 64] >> place % 64 & 1:
                del self.unacked[sequence]

    def hurry(self):  # heartbeats leave soon, then less and less often
        self.heartbeat_wait, self.heartbeat_at = 0.1, min(self.heartbeat_at, time.monotonic() + 0.1)

    def believes(self, floor, status, pending, directory, commit, nonce):
        """Whether it tells of packets. What speaks against the receiver counts in the answer to a heartbeat alone."""
        nonces = [asked[0] for asked in self.asked]
        if nonce in nonces:
            (_, seen, known), *_ = self.asked = self.asked[nonces.index(nonce):]
            if status in (REFUSED, UNSUPPORTED):
                raise Refused(f"the receiver refuses sender {self.sender} and epoch {self.epoch}, status {status}")
            is_lost = (status == ROLLED_BACK or self.directory not in (None, directory) or commit < known
                       or status == OK and not pending and floor < seen)
            if is_lost and len(self.unacked) < self.next:  # of nothing nothing is lost
                raise Refused(f"the receiver has lost some of the packets below {self.floor}, which it had acked")
            self.directory, self.commit = directory, 0 if is_lost else self.commit
            self.asked = [(*asked[:2], 0) if is_lost else asked for asked in self.asked]
        elif status in (REFUSED, UNSUPPORTED, ROLLED_BACK) or self.directory != directory:
            return self.hurry()  # it may be old
        is_late, self.commit = commit < self.commit, max(commit, self.commit)
        return not is_late and not pending

    def parse(self, packet):
        """(epoch, floor, credit, status, bitmap words, rest) of an ack for this sender; None if it is none."""
        if len(packet) < 80 or packet[:4] != MAGIC:
            return None
        _, kind, flags, key_id, sender, epoch, floor, size = HEADER.unpack_from(packet)
        end = 40 + size
        if (kind != ACK or sender != self.sender or len(packet) != end + (16 if flags & TAGGED else 0) or size < 40
                or size % 8 or struct.unpack_from("<I", packet, 36)[0] != crc32c(packet[:36] + packet[40:end])):
            return None
        if self.key and not (flags & TAGGED and key_id == self.key_id
                             and hmac.compare_digest(packet[end:], self.tag(packet[:end]))):
            return None
        first, credit, status, directory, commit, echo = struct.unpack_from("<QIIQQQ", packet, 40)
        words = [first, *struct.unpack_from(f"<{size // 8 - 5}Q", packet, 80)[3 if flags & IS_ANSWER else 0:]]
        rest = flags & PENDING, directory, commit, echo if flags & IS_ANSWER else None
        return epoch, floor, credit, status, words, rest


def add_event(batch, kind, reward, business):
    event = batch.events.add(type=kind, reward_id=reward, business_id=business, platform="python")
    event.timestamp_us = time.time_ns() // 1000
    event.event_id = secrets.token_bytes(16)  # the application's own: recognises the event on a second way
    if kind == 1:  # 75 % of the ad's pixels for 1.2 seconds: viewable
        event.viewability.visible_ppm, event.viewability.duration_ms = 750_000, 1200
    elif kind == 3:
        event.revenue_micros = 12_500_000


def main():
    parser = argparse.ArgumentParser(description="Send events to ingestd, and again until they are durable.")
    for name, value in (("to", "127.0.0.1:4810"), ("reward", "python-reward"), ("business", "python-business"),
                        ("impressions", 8), ("clicks", 2), ("redemptions", 1), ("sender-id", 0), ("key-id", 0),
                        ("proto", str(PROTO))):
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--key", type=bytes.fromhex, help="in hexadecimal, with --key-id")
    options = parser.parse_args()
    schema = load_schema(options.proto)
    host, _, port = options.to.rpartition(":")
    sender = Sender((host.strip("[]"), int(port)), options.sender_id, options.key, options.key_id)
    kinds = [1] * options.impressions + [2] * options.clicks + [3] * options.redemptions
    for start in range(0, len(kinds), 10):
        batch = schema.EventBatch()
        for kind in kinds[start:start + 10]:
            add_event(batch, kind, options.reward, options.business)
        sender.send(batch)
    sender.close()
    print(f"{len(kinds)} events of sender {sender.sender} are durable, {sender.resent} packets were sent again")


if __name__ == "__main__":
    main()
