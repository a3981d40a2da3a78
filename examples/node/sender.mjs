// Sends JSON events, the lines of its input, to ingestd over UDP until all of them are on its disk: the small sender
// of docs/protocol.md, which also tags its packets if it is given a key.
//
//     node sender.mjs HOST:PORT [SENDER_ID [KEY_ID KEY_HEX]] < events.ndjson
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { isIPv6 } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const HEADER_SIZE = 40, TAG_SIZE = 16;
const ACK_SIZE = 80; // without tag: what is smaller gets none
const PAYLOAD_SIZE_MAX = 1372 - HEADER_SIZE - TAG_SIZE; // of several lines
const LINE_SIZE_MAX = 65507 - HEADER_SIZE - TAG_SIZE; // of one alone
const IN_FLIGHT_MAX = 16;

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, value) => {
  for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0x82f63b78 : 0);
  return value;
});

/** CRC-32C (Castagnoli): of "123456789" it is 0xE3069283. */
function crc32c(...parts) {
  let crc = 0xffffffff;
  for (const part of parts) {
    for (const byte of part) crc = (crc >>> 8) ^ CRC_TABLE[(crc ^ byte) & 0xff];
  }
  return ~crc >>> 0;
}

class Sender {
  /** Sequence → packet, when it is due, milliseconds to wait after that. */
  unacked = new Map();
  next = 0n;
  /** Lines of the next packet. */
  #batch = Buffer.alloc(0);
  /** Answers with status 3 to 6 since the last with 0. */
  #refusals = 0;
  #fail;
  #failure;
  /** Fails when it is refused for good. */
  failed = new Promise((_, reject) => (this.#fail = reject));

  constructor(host, port, { id, keyID = 0, key } = {}) {
    const random = randomBytes(16);
    this.id = id ?? random.readBigUInt64LE(0) | 1n;
    this.epoch = (BigInt(Date.now()) << 20n) | (random.readBigUInt64LE(8) >> 44n);
    [this.keyID, this.key] = [keyID, key];
    this.socket = createSocket(isIPv6(host) ? "udp6" : "udp4");
    this.socket.on("error", () => {}); // nobody listens there: it may be starting again
    this.socket.on("message", (ack) => this.#take(ack));
    [this.host, this.port] = [host, port];
    this.timer = setInterval(() => this.#transmit(), 50);
  }

  /** Takes a line of at most LINE_SIZE_MAX bytes, and waits while too many packets are not acked. */
  async add(line) {
    if (this.#batch.length + line.length > PAYLOAD_SIZE_MAX) await this.flush();
    this.#batch = Buffer.concat([this.#batch, line]);
  }

  /** Sends the lines that it has. */
  async flush() {
    if (this.#batch.length === 0) return;
    await this.#until(() => this.unacked.size < IN_FLIGHT_MAX);
    this.unacked.set(this.next, { bytes: this.packet(this.next, this.#batch), due: 0, wait: 1000 });
    this.next += 1n;
    this.#batch = Buffer.alloc(0);
    this.#transmit();
  }

  /** Waits until all of them are durable. */
  async close() {
    await this.flush();
    await this.#until(() => this.unacked.size === 0);
    clearInterval(this.timer);
    this.socket.close();
  }

  async #until(condition) {
    // No race with `failed` here: each would leave something with it for good.
    while (!condition()) {
      if (this.#failure) throw this.#failure;
      await sleep(5);
    }
  }

  /** Sends what is due. A call that fails is as if the packet had been lost. */
  #transmit() {
    const now = performance.now();
    for (const [sequence, packet] of this.unacked) {
      if (packet.due > now) continue;
      this.socket.send(packet.bytes, this.port, this.host, () => {});
      packet.due = now + packet.wait;
      if (packet.wait === 4000) console.error(`packet ${sequence} was sent three times, and is not acked`);
      packet.wait = Math.min(8000, 2 * packet.wait);
    }
  }

  /** The bytes of a packet, which are the same whenever it is sent. */
  packet(sequence, lines) {
    const payload = Buffer.alloc(Math.max(lines.length, ACK_SIZE - HEADER_SIZE), " ");
    lines.copy(payload);
    const head = Buffer.alloc(HEADER_SIZE);
    head.write("IGD1\x03"); // kind 3
    head[5] = this.key ? 3 : 1; // ack wanted, tagged
    head.writeUInt16LE(this.keyID, 6);
    head.writeBigUInt64LE(this.id, 8);
    head.writeBigUInt64LE(this.epoch, 16);
    head.writeBigUInt64LE(sequence, 24);
    head.writeUInt32LE(payload.length, 32);
    head.writeUInt32LE(crc32c(head.subarray(0, 36), payload), 36);
    return Buffer.concat([head, payload, this.#tag(head, payload)]);
  }

  /** Empty without a key. */
  #tag(...parts) {
    if (!this.key) return Buffer.alloc(0);
    const mac = createHmac("sha256", this.key);
    for (const part of parts) mac.update(part);
    return mac.digest().subarray(0, TAG_SIZE);
  }

  /** Believes an ack of this sender, and forgets what is durable. */
  #take(ack) {
    const end = ack.length - (this.key ? TAG_SIZE : 0);
    if (
      end < ACK_SIZE || ack.toString("latin1", 0, 5) !== "IGD1\x81" || ack.readUInt16LE(6) !== this.keyID ||
      ack.readBigUInt64LE(8) !== this.id ||
      ack.readUInt32LE(36) !== crc32c(ack.subarray(0, 36), ack.subarray(HEADER_SIZE, end)) ||
      !timingSafeEqual(ack.subarray(end), this.#tag(ack.subarray(0, end)))
    ) return;
    const epoch = ack.readBigUInt64LE(16);
    const [floor, bitmap, status] = [ack.readBigUInt64LE(24), ack.readBigUInt64LE(40), ack.readUInt32LE(52)];
    if (epoch !== this.epoch && (status !== 3 || epoch < this.epoch)) return; // 3 may name a later start
    if (status === 0) {
      this.#refusals = 0;
      for (const sequence of this.unacked.keys()) {
        if (sequence < floor || (bitmap >> (sequence - floor)) & 1n) this.unacked.delete(sequence);
      }
    } else if (status >= 3 && status <= 6 && ++this.#refusals === 2) {
      this.#failure = new Error(`status ${status}: stopped, with ${this.unacked.size} packets not acked`);
      this.#fail(this.#failure);
    }
  }
}

/** Sends the lines of the input, and waits until they are durable. */
async function forward(sender) {
  let rest = Buffer.alloc(0), long = 0; // rest: of a line whose end has not come
  const add = (line) => (line.length > LINE_SIZE_MAX ? long++ : sender.add(line));
  for await (const chunk of process.stdin) {
    rest = Buffer.concat([rest, chunk]);
    let start = 0;
    for (let end; (end = rest.indexOf(10, start)) >= 0; start = end + 1) await add(rest.subarray(start, end + 1));
    rest = rest.subarray(start).subarray(0, LINE_SIZE_MAX + 1);
    await sender.flush();
  }
  await add(rest);
  await sender.close();
  if (long > 0) throw new Error(`${long} lines are longer than a packet takes: they were not sent`);
}

async function main([to, id, keyID, key]) {
  const colon = to?.lastIndexOf(":") ?? -1;
  if (colon < 0) throw new Error("usage: sender.mjs HOST:PORT [SENDER_ID [KEY_ID KEY_HEX]] < EVENTS");
  const { address } = await lookup(to.slice(0, colon).replace(/^\[|\]$/g, ""), { verbatim: false });
  const sender = new Sender(address, Number(to.slice(colon + 1)), {
    id: id === undefined ? undefined : BigInt(id),
    keyID: Number(keyID ?? 0),
    key: key && Buffer.from(key, "hex"),
  });
  await Promise.race([forward(sender), sender.failed]);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
