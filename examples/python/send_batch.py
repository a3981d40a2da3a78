#!/usr/bin/env python3
"""Sends one framed batch of ad events to ingestd over UDP, with the official protobuf package.

    pip install -r requirements.txt
    python send_batch.py --to 127.0.0.1:4810
    python send_batch.py --to 127.0.0.1:4810 --reward r-1 --business b-1 \\
        --impressions 8 --clicks 2 --redemptions 1 --revenue 12.50

Everything that ingestd asks of a sender is below: the events as a message of the published schema
(proto/ingest/v1/events.proto), in front of it 40 bytes of header (docs/format/packet.md) with a CRC-32C.
No acknowledgement is asked for, so exit code 0 means sent, not counted.
"""

import argparse
import decimal
import importlib
import os
import pathlib
import secrets
import socket
import struct
import sys
import tempfile
import time
import uuid

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

MAGIC = b"IGD1"
KIND_BATCH = 1
# magic, kind, flags, key id, sender id, epoch, sequence, payload size; the CRC follows.
HEADER = struct.Struct("<4sBBHQQQI")
# What a UDP datagram holds over IPv4.
PACKET_BYTE_COUNT_MAX = 65_507


def load_schema(proto_directory):
    """The generated module of events.proto, made by the compiler that comes with grpcio-tools."""
    from grpc_tools import protoc

    output = tempfile.TemporaryDirectory(prefix="ingest-schema-")
    proto = "ingest/v1/events.proto"
    arguments = ["protoc", f"-I{proto_directory}", f"--python_out={output.name}", proto]
    if protoc.main(arguments) != 0:
        sys.exit(f"send_batch: {proto_directory}/{proto} cannot be compiled")
    sys.path.insert(0, output.name)
    try:
        return importlib.import_module("ingest.v1.events_pb2")
    finally:
        sys.path.remove(output.name)
        output.cleanup()


def crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = crc32c_table()


def crc32c(data):
    """CRC-32C (Castagnoli): of "123456789" it is 0xE3069283."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def make_packet(payload, sender, epoch, sequence):
    """A framed packet: header, CRC over header and payload, payload."""
    head = HEADER.pack(MAGIC, KIND_BATCH, 0, 0, sender, epoch, sequence, len(payload))
    packet = head + struct.pack("<I", crc32c(head + payload)) + payload
    if len(packet) > PACKET_BYTE_COUNT_MAX:
        sys.exit(f"send_batch: {len(packet)} bytes do not fit a datagram, send fewer events")
    return packet


def make_batch(schema, options):
    """The events that the options ask for, a second apart, the last one now."""
    kinds = (
        [schema.IMPRESSION] * options.impressions
        + [schema.CLICK] * options.clicks
        + [schema.REDEMPTION] * options.redemptions
    )
    now = time.time_ns() // 1000 if options.timestamp_us is None else options.timestamp_us
    batch = schema.EventBatch()
    for number, kind in enumerate(kinds):
        event = batch.events.add()
        event.type = kind
        event.reward_id = options.reward
        event.business_id = options.business
        event.timestamp_us = now - (len(kinds) - 1 - number) * 1_000_000
        event.event_id = uuid.uuid4().bytes
        event.consent = schema.OPT_IN
        event.platform = "python"
        if kind == schema.IMPRESSION:
            # 75 % of the ad's pixels for 1.2 seconds: viewable.
            event.viewability.visible_ppm = 750_000
            event.viewability.duration_ms = 1200
        if kind == schema.REDEMPTION:
            event.revenue_micros = micros(options.revenue)
            event.spend_micros = micros(options.spend)
    return batch


def micros(amount):
    return int(amount.scaleb(6).to_integral_exact())


def address(text):
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text}: not HOST:PORT")
    return host.strip("[]"), int(port)


def parse_options():
    parser = argparse.ArgumentParser(description="Send one framed batch of events to ingestd.")
    parser.add_argument("--to", required=True, type=address, metavar="HOST:PORT")
    parser.add_argument("--reward", default="python-reward", metavar="ID")
    parser.add_argument("--business", default="python-business", metavar="ID")
    parser.add_argument("--impressions", type=int, default=8, metavar="N")
    parser.add_argument("--clicks", type=int, default=2, metavar="N")
    parser.add_argument("--redemptions", type=int, default=1, metavar="N")
    parser.add_argument("--revenue", type=decimal.Decimal, default="12.50", metavar="AMOUNT",
                        help="of each redemption (default 12.50)")
    parser.add_argument("--spend", type=decimal.Decimal, default="0", metavar="AMOUNT",
                        help="of each redemption (default 0)")
    parser.add_argument("--timestamp-us", type=int, metavar="MICROSECONDS",
                        help="time of the last event (default now)")
    parser.add_argument("--sender-id", type=int, default=secrets.randbits(63) + 1, metavar="N",
                        help="1 to 2^64 - 1 (default random)")
    parser.add_argument("--proto", default=os.fspath(REPOSITORY / "proto"), metavar="DIRECTORY",
                        help="where ingest/v1/events.proto is (default: this repository)")
    return parser.parse_args()


def main():
    options = parse_options()
    assert crc32c(b"123456789") == 0xE3069283
    payload = make_batch(load_schema(options.proto), options).SerializeToString()
    # Greater at each start of a sender: milliseconds, then 20 random bits.
    epoch = time.time_ns() // 1_000_000 << 20 | secrets.randbits(20)
    packet = make_packet(payload, options.sender_id, epoch, sequence=0)
    host, port = options.to
    family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as udp:
        udp.sendto(packet, target)
    count = options.impressions + options.clicks + options.redemptions
    print(f"sent {count} events in a packet of {len(packet)} bytes as sender {options.sender_id}")


if __name__ == "__main__":
    main()
