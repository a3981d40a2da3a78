"""Sends JSON events, the lines of its input, to the ingestd at HOST PORT until all are on its disk."""
import contextlib, os, secrets, select, socket, struct, sys, time

sender, epoch = secrets.randbits(63) + 1, time.time_ns() // 1_000_000 << 20 | secrets.randbits(20)
unacked, refusals = {}, 0  # sequence: [packet, when it is due, wait after that]; answers of status 3 to 6

def crc32c(data, crc=0xFFFFFFFF):
    for bit in (byte >> place & 1 for byte in data for place in range(8)):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 ^ bit else 0)
    return struct.pack("<I", crc ^ 0xFFFFFFFF)

def packet(sequence, lines):
    head = struct.pack("<4sBBHQQQI", b"IGD1", 3, 1, 0, sender, epoch, sequence, len(lines))
    return head + crc32c(head + lines) + lines

def take(ack):
    global refusals
    if len(ack) < 80 or ack[:5] != b"IGD1\x81" or ack[36:40] != crc32c(ack[:36] + ack[40:]): return
    whose, when, floor, bitmap, status = struct.unpack_from("<QQQ8xQ4xI", ack, 8)
    if whose != sender or when != epoch and (status != 3 or when < epoch): return  # 3 names a later start
    refusals = 0 if status == 0 else refusals + (status in (3, 4, 5, 6))
    if refusals == 2: sys.exit(f"status {status}: stopped, with {len(unacked)} packets not acked")
    for place in list(unacked if status == 0 else ()):
        if place < floor or bitmap >> place - floor & 1: del unacked[place]

if __name__ == "__main__":
    (network := socket.socket(type=socket.SOCK_DGRAM)).connect((sys.argv[1], int(sys.argv[2])))
    sequence, lines, rest, long = 0, [], b"", 0  # rest: the line whose end has not come, None behind the last
    while rest is not None or lines or unacked:
        while lines and len(unacked) < 16:  # each a packet, of 80 bytes at least, or no ack comes
            unacked[sequence], sequence = [packet(sequence, lines.pop(0).ljust(40)), 0, 1], sequence + 1
        for entry in [entry for entry in unacked.values() if entry[1] <= time.monotonic()]:
            entry[1:] = time.monotonic() + entry[2], min(8, 2 * entry[2])
            with contextlib.suppress(OSError): network.send(entry[0])  # or else it is as if lost
        if 0 in select.select([network] + [0] * (not lines and rest is not None), [], [], 0.1)[0]:  # input
            *lines, rest = (rest + data).split(b"\n") if (data := os.read(0, 65_536)) else (rest, None)
            long, rest = long + sum(len(line) > 65_467 for line in lines), rest and rest[:65_468]
            lines = [line for line in lines if 0 < len(line) < 65_468]
        with contextlib.suppress(OSError): take(network.recv(65_535, socket.MSG_DONTWAIT))  # or none came
    sys.exit(long and f"{long} lines are longer than a packet takes: they were not sent")
