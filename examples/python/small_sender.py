"""Sends JSON events, the lines of its input, to the ingestd at HOST PORT until all are on its disk."""
import contextlib, secrets, select, socket, struct, sys, time

sender, epoch = secrets.randbits(63) + 1, time.time_ns() // 1_000_000 << 20 | secrets.randbits(20)
unacked, refusals = {}, 0  # sequence: [packet, when it is due, wait after that]; answers of status 3, 5 or 6

def crc32c(data, crc=0xFFFFFFFF):
    for byte in data:
        crc ^= byte
        for _ in range(8): crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF

def packet(sequence, lines):
    head = struct.pack("<4sBBHQQQI", b"IGD1", 3, 1, 0, sender, epoch, sequence, len(lines))
    return head + struct.pack("<I", crc32c(head + lines)) + lines

def take(ack):
    global refusals
    if len(ack) < 80 or ack[:5] != b"IGD1\x81": return
    whose, when, floor, crc, bitmap, status = struct.unpack_from("<QQQ4xIQ4xI", ack, 8)
    if whose != sender or when != epoch or crc != crc32c(ack[:36] + ack[40:]): return
    refusals = 0 if status == 0 else refusals + (status in (3, 5, 6))
    if refusals == 2: sys.exit(f"status {status}: stopped, with {len(unacked)} packets not acked")
    for sequence in list(unacked if status == 0 else ()):
        if sequence < floor or bitmap >> sequence - floor & 1: del unacked[sequence]

def step(network, seconds):  # sends what is due, and waits for an ack
    for entry in [entry for entry in unacked.values() if entry[1] <= time.monotonic()]:
        entry[1:] = time.monotonic() + entry[2], min(8, 2 * entry[2])
        with contextlib.suppress(OSError): network.send(entry[0])  # or else it is as if lost
    if select.select([network], [], [], seconds)[0]:
        with contextlib.suppress(OSError): take(network.recv(65_535))  # or else nobody listens, yet

if __name__ == "__main__":
    (network := socket.socket(socket.AF_INET, socket.SOCK_DGRAM)).connect((sys.argv[1], int(sys.argv[2])))
    for sequence, line in enumerate(sys.stdin.buffer):  # each a packet, of 80 bytes at least, or no ack comes
        unacked[sequence] = [packet(sequence, line[:65_467].ljust(40)), 0, 1]
        step(network, 0)
        while len(unacked) == 16: step(network, 0.1)
    while unacked: step(network, 0.1)
