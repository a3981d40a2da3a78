// UDP in batches: what Swift cannot import of it. recvmmsg, sendmmsg and struct mmsghdr need _GNU_SOURCE,
// which Swift's import of glibc does not define; CMSG_* are macros; the options are of linux/udp.h.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A socket address of either family, large enough for both. struct sockaddr is cast to what it is,
// which Swift can only say unsafely.
struct ingest_address {
    uint32_t byte_count;
    uint8_t bytes[28];
};

// getaddrinfo's list and its sockaddr casts. A name or a number (IPv6 without brackets), for UDP. 0, or an
// EAI_ code. Of several addresses it is `kept` where that is one of them (NULL: none is), else the first; or, where
// `moves_on`, the one behind `kept`, the first again behind the last.
int ingest_address_resolve(
    const char *host, uint16_t port, const struct ingest_address *kept, bool moves_on,
    struct ingest_address *address);
// The text of that code.
const char *ingest_address_error(int code);
// sockaddr casts. HOST:PORT with IPv6 in brackets, terminated, cut to the capacity.
void ingest_address_text(const struct ingest_address *address, char *text, size_t capacity);
uint16_t ingest_address_port(const struct ingest_address *address);
bool ingest_address_is_loopback(const struct ingest_address *address);

// An address and port of either family in three words: what is kept of a packet's source on its way to an
// answer. Family 0 = none. `local`: which of this machine's addresses it was sent to; 0 = not known.
struct ingest_peer {
    uint64_t host[2];
    uint32_t scope;
    uint16_t port;
    uint8_t family;
    uint8_t local;
};
struct ingest_datagram;
// sockaddr casts. Where a received datagram came from. An address of another family gives none.
struct ingest_peer ingest_peer_of(const struct ingest_datagram *datagram);

// This machine's addresses that datagrams were sent to, so that answers leave from them: one for each socket. One thread
// receives, and adds; any may answer by a number that it has from a datagram.
// IP_PKTINFO and IPV6_PKTINFO are control messages with structs of their own. NULL when there is no memory.
struct ingest_locals;
struct ingest_locals *ingest_locals_make(void);
void ingest_locals_free(struct ingest_locals *locals);

// SOCK_DGRAM is an enum of another type in Swift, and bind takes a cast sockaddr. A bound socket that
// coalesces what it receives (UDP_GRO), reports drops (SO_RXQ_OVFL), waits at most so long for a
// datagram (SO_RCVTIMEO), and, where it is bound to all addresses, says to which one each was sent
// (IP_PKTINFO, IPV6_RECVPKTINFO). Not inherited by other programs. The descriptor, or -errno.
int ingest_udp_bind(const struct ingest_address *address, uint32_t wait_milliseconds);
// Likewise. A socket whose datagrams go to the address.
int ingest_udp_connect(const struct ingest_address *address);
// Likewise (AF_UNSPEC is no address of its own type). Gives up the route and the own address that a connected socket has,
// and takes those of now. 0 or -errno.
int ingest_udp_reconnect(int descriptor, const struct ingest_address *address);
// Likewise. The address that a socket is bound to; 0 or -errno.
int ingest_udp_address(int descriptor, struct ingest_address *address);

// SO_RCVBUFFORCE is not in Swift's glibc. Asks for a receive buffer beyond net.core.rmem_max where that
// is allowed, up to it where not. The effective value, in the unit in which it was asked for (the kernel
// keeps twice that, for its own bookkeeping), or -errno.
int64_t ingest_udp_receive_buffer(int descriptor, uint32_t byte_count);

// SO_MEMINFO's array and indices are of linux/sock_diag.h. Datagrams that the socket has dropped since it
// was made, modulo 2^32; false if the kernel does not say.
bool ingest_udp_drop_count(int descriptor, uint32_t *drop_count);

// One buffer of a received batch.
struct ingest_datagram {
    // In: where the bytes go.
    uint8_t *bytes;
    // Out: bytes received.
    uint32_t byte_count;
    // Out: the size of each datagram in the buffer (UDP_GRO); the last may be shorter. byte_count if it is
    // the only one.
    uint32_t segment_byte_count;
    // Out: the datagram was longer than the buffer; its end is lost.
    bool is_truncated;
    // Out: whether drop_count was reported (the kernel does so only after a first drop).
    bool has_drop_count;
    // Out: the socket's drops when this was queued, modulo 2^32 (SO_RXQ_OVFL).
    uint32_t drop_count;
    struct ingest_address source;
    // Out: the number of the address that it was sent to; 0 = not known.
    uint8_t local;
};

// The headers that one thread's calls of recvmmsg need; NULL when there is no memory.
struct ingest_receiver;
struct ingest_receiver *ingest_receiver_make(uint32_t capacity, uint32_t buffer_byte_count);
void ingest_receiver_free(struct ingest_receiver *receiver);
// recvmmsg into the first `capacity` datagrams, each with a buffer of buffer_byte_count. With `waits`, for
// the first one until the socket's time is up; then takes what is there. Addresses that they were sent to go to
// `locals`, which may be NULL. The number received (> 0), or -errno.
int ingest_receive(struct ingest_receiver *receiver, int descriptor, struct ingest_datagram *datagrams,
                   bool waits, struct ingest_locals *locals);

// One message to send: byte_count bytes, cut by the kernel into datagrams of segment_byte_count
// (UDP_SEGMENT); 0 = one datagram.
struct ingest_outgoing {
    const uint8_t *bytes;
    uint32_t byte_count;
    uint32_t segment_byte_count;
};
#define INGEST_SEND_COUNT_MAX 64
// sendmmsg of at most INGEST_SEND_COUNT_MAX messages, to the address or (NULL) where the socket is
// connected to. The number of messages taken (> 0), or -errno.
int ingest_send(int descriptor, const struct ingest_outgoing *messages, uint32_t count,
                const struct ingest_address *to);

// One datagram to answer with.
struct ingest_ack {
    const uint8_t *bytes;
    uint32_t byte_count;
    struct ingest_peer to;
};
// sendmmsg of at most INGEST_SEND_COUNT_MAX datagrams, each to its own address and from the one that was sent to, without
// waiting for room. The number taken (> 0), or -errno of the first.
int ingest_send_acks(int descriptor, const struct ingest_ack *acks, uint32_t count,
                        const struct ingest_locals *locals);
