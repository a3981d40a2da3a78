import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.*;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.*;
import java.util.zip.CRC32C;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Sends JSON events, the lines of its input, to ingestd over UDP until all of them are on its disk: the small sender of
 * docs/protocol.md, which also tags its packets if it is given a key.
 *
 * <p>{@code java Sender.java HOST:PORT [SENDER_ID [KEY_ID KEY_HEX]] < events.ndjson} (Java 17)
 */
public final class Sender {
    private static final int HEADER_SIZE = 40, TAG_SIZE = 16;
    private static final int ACK_SIZE = 80; // without tag: what is smaller gets none
    private static final int PAYLOAD_SIZE_MAX = 1_372 - HEADER_SIZE - TAG_SIZE; // of several lines
    private static final int LINE_SIZE_MAX = 65_507 - HEADER_SIZE - TAG_SIZE; // of one alone
    private static final int IN_FLIGHT_MAX = 16;

    private static final class Packet {
        final byte[] bytes;
        long due = System.nanoTime();
        long wait = 1_000_000_000L; // nanoseconds after that

        Packet(byte[] bytes) {
            this.bytes = bytes;
        }
    }

    private final DatagramSocket socket = new DatagramSocket();
    private final SocketAddress to;
    private final long id, epoch;
    private final short keyID;
    private final Mac key;
    private final Map<Long, Packet> unacked = new TreeMap<>();
    private long next;
    private int refusals; // answers with status 3 to 6 since the last with 0
    private String failure;

    /** @param key may be null */
    public Sender(SocketAddress to, long id, int keyID, byte[] key)
            throws IOException, GeneralSecurityException {
        this.to = to;
        this.id = id;
        this.epoch = System.currentTimeMillis() << 20 | new SecureRandom().nextInt(1 << 20);
        this.keyID = (short) keyID;
        this.key = key == null ? null : Mac.getInstance("HmacSHA256");
        if (key != null) this.key.init(new SecretKeySpec(key, "HmacSHA256"));
        socket.setSoTimeout(20);
    }

    /** Sends a packet of lines, and waits before that while too many are not acked. */
    public synchronized void send(byte[] lines) throws InterruptedException {
        while (unacked.size() == IN_FLIGHT_MAX) wait();
        unacked.put(next, new Packet(packet(next, lines)));
        next++;
        transmit();
    }

    /** Lets lines, in a thread of its own, give what is to be sent, until it has returned and all is durable. */
    public <T> T run(Callable<T> lines) throws Exception {
        FutureTask<T> task = new FutureTask<>(lines);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        DatagramPacket datagram = new DatagramPacket(new byte[65_536], 65_536);
        for (boolean isDone = false; !isDone; ) {
            byte[] ack = {};
            try {
                socket.receive(datagram);
                ack = Arrays.copyOf(datagram.getData(), datagram.getLength());
            } catch (IOException nothing) {
                // In time, or nobody listens there: it may be starting again.
            }
            synchronized (this) {
                take(ack);
                transmit();
                notifyAll();
                isDone = failure != null || task.isDone() && unacked.isEmpty();
            }
        }
        if (failure != null) throw new IOException(failure);
        return task.get();
    }

    /** Sends what is due. A call that fails is as if the packet had been lost. */
    private void transmit() {
        long now = System.nanoTime();
        unacked.forEach((sequence, packet) -> {
            if (packet.due - now > 0) return;
            try {
                socket.send(new DatagramPacket(packet.bytes, packet.bytes.length, to));
            } catch (IOException lost) {
                // It is sent again.
            }
            packet.due = now + packet.wait;
            if (packet.wait == 4_000_000_000L) {
                System.err.println("packet " + sequence + " was sent three times, and is not acked");
            }
            packet.wait = Math.min(8_000_000_000L, 2 * packet.wait);
        });
    }

    /** The bytes of a packet, which are the same whenever it is sent. */
    private byte[] packet(long sequence, byte[] lines) {
        int size = Math.max(lines.length, ACK_SIZE - HEADER_SIZE);
        byte[] bytes = new byte[HEADER_SIZE + size + (key == null ? 0 : TAG_SIZE)];
        Arrays.fill(bytes, HEADER_SIZE + lines.length, HEADER_SIZE + size, (byte) ' ');
        System.arraycopy(lines, 0, bytes, HEADER_SIZE, lines.length);
        ByteBuffer head = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        head.put("IGD1\3".getBytes()).put((byte) (key == null ? 1 : 3)); // kind; ack wanted, tagged
        head.putShort(keyID).putLong(id).putLong(epoch).putLong(sequence).putInt(size);
        head.putInt(checksum(bytes, HEADER_SIZE + size));
        if (key != null) System.arraycopy(tag(bytes, HEADER_SIZE + size), 0, bytes, HEADER_SIZE + size, TAG_SIZE);
        return bytes;
    }

    private static int checksum(byte[] bytes, int end) {
        CRC32C crc = new CRC32C();
        crc.update(bytes, 0, 36);
        crc.update(bytes, HEADER_SIZE, end - HEADER_SIZE);
        return (int) crc.getValue();
    }

    /** Empty without a key. */
    private byte[] tag(byte[] bytes, int end) {
        if (key == null) return new byte[0];
        key.update(bytes, 0, end);
        return Arrays.copyOf(key.doFinal(), TAG_SIZE);
    }

    /** Believes an ack of this sender, and forgets what is durable. */
    private void take(byte[] bytes) {
        int end = bytes.length - (key == null ? 0 : TAG_SIZE);
        ByteBuffer ack = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        if (end < ACK_SIZE || ack.getInt(0) != 0x31444749 || bytes[4] != (byte) 129 || ack.getShort(6) != keyID
                || ack.getLong(8) != id || ack.getInt(36) != checksum(bytes, end)
                || !MessageDigest.isEqual(tag(bytes, end), Arrays.copyOfRange(bytes, end, bytes.length))) {
            return;
        }
        long floor = ack.getLong(24), bitmap = ack.getLong(40);
        int status = ack.getInt(52), later = Long.compareUnsigned(ack.getLong(16), epoch);
        if (later != 0 && (status != 3 || later < 0)) return; // 3 may name a later start
        if (status == 0) {
            refusals = 0;
            unacked.keySet().removeIf(sequence -> sequence < floor
                    || sequence - floor < 64 && (bitmap >>> sequence - floor & 1) == 1);
        } else if (status >= 3 && status <= 6 && ++refusals == 2) {
            failure = "status " + status + ": stopped, with " + unacked.size() + " packets not acked";
        }
    }

    public static void main(String[] arguments) throws Exception {
        int colon = arguments.length == 0 ? -1 : arguments[0].lastIndexOf(':');
        if (colon < 0 || arguments.length == 3 || arguments.length > 4) {
            throw new IllegalArgumentException("usage: Sender.java HOST:PORT [SENDER_ID [KEY_ID KEY_HEX]] < EVENTS");
        }
        Sender sender = new Sender(
                new InetSocketAddress(
                        arguments[0].substring(0, colon), Integer.parseInt(arguments[0].substring(colon + 1))),
                arguments.length > 1 ? Long.parseUnsignedLong(arguments[1]) : new SecureRandom().nextLong() | 1,
                arguments.length > 2 ? Integer.parseInt(arguments[2]) : 0,
                arguments.length > 2 ? HexFormat.of().parseHex(arguments[3]) : null);
        int longCount = sender.run(() -> forward(System.in, sender));
        if (longCount == 0) return;
        throw new IOException(longCount + " lines are longer than a packet takes: they were not sent");
    }

    /** Gives the lines to the sender, and returns how many no packet takes. */
    private static int forward(InputStream from, Sender sender) throws IOException, InterruptedException {
        BufferedInputStream input = new BufferedInputStream(from, 1 << 16);
        ByteArrayOutputStream batch = new ByteArrayOutputStream(), line = new ByteArrayOutputStream();
        int longCount = 0;
        for (int read = 0; read >= 0; ) {
            read = input.read();
            if (read >= 0 && line.size() <= LINE_SIZE_MAX) line.write(read);
            if (read >= 0 && read != '\n') continue;
            if (batch.size() > 0 && batch.size() + line.size() > PAYLOAD_SIZE_MAX) {
                sender.send(batch.toByteArray());
                batch.reset();
            }
            if (line.size() > LINE_SIZE_MAX) longCount++;
            else line.writeTo(batch);
            line.reset();
            if (batch.size() > 0 && (read < 0 || input.available() == 0)) {
                sender.send(batch.toByteArray());
                batch.reset();
            }
        }
        return longCount;
    }
}
