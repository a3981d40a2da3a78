#include "ingest_udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <linux/udp.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

// The kernel's numbers: a header that lacks them would otherwise be found out only by a socket that does
// not coalesce.
_Static_assert(UDP_SEGMENT == 103 && UDP_GRO == 104, "options of UDP sockets since Linux 4.18 and 5.0");
_Static_assert(SK_MEMINFO_DROPS == 8, "place of the drops in SO_MEMINFO's array");
_Static_assert(sizeof(struct sockaddr_in6) <= sizeof(((struct ingest_address *)0)->bytes),
               "an address of either family fits");
_Static_assert(sizeof(struct sockaddr_in) <= sizeof(struct sockaddr_in6), "IPv6 is the larger");
_Static_assert(offsetof(struct ingest_address, bytes) % 4 == 0, "sockaddr_in6 is 4-aligned");

static const struct sockaddr *generic(const struct ingest_address *address) {
    return (const struct sockaddr *)address->bytes;
}

static const struct sockaddr_in *v4(const struct ingest_address *address) {
    return (const struct sockaddr_in *)address->bytes;
}

static const struct sockaddr_in6 *v6(const struct ingest_address *address) {
    return (const struct sockaddr_in6 *)address->bytes;
}

static void keep(struct ingest_address *address, const void *bytes, socklen_t byte_count) {
    memset(address, 0, sizeof *address);
    if (byte_count > sizeof address->bytes) byte_count = sizeof address->bytes;
    memcpy(address->bytes, bytes, byte_count);
    address->byte_count = byte_count;
}

// MARK: Peers

struct ingest_peer ingest_peer_of(const struct ingest_datagram *datagram) {
    const struct ingest_address *address = &datagram->source;
    struct ingest_peer peer = {.local = datagram->local};
    if (address->byte_count == 0) return peer;
    if (generic(address)->sa_family == AF_INET) {
        memcpy(peer.host, &v4(address)->sin_addr, sizeof(struct in_addr));
        peer.port = v4(address)->sin_port;
        peer.family = AF_INET;
    } else if (generic(address)->sa_family == AF_INET6) {
        memcpy(peer.host, &v6(address)->sin6_addr, sizeof peer.host);
        peer.scope = v6(address)->sin6_scope_id;
        peer.port = v6(address)->sin6_port;
        peer.family = AF_INET6;
    }
    return peer;
}

static socklen_t peer_address(const struct ingest_peer *peer, struct sockaddr_in6 *storage) {
    memset(storage, 0, sizeof *storage);
    if (peer->family == AF_INET) {
        struct sockaddr_in *address = (struct sockaddr_in *)storage;
        address->sin_family = AF_INET;
        address->sin_port = peer->port;
        memcpy(&address->sin_addr, peer->host, sizeof address->sin_addr);
        return sizeof *address;
    }
    storage->sin6_family = AF_INET6;
    storage->sin6_port = peer->port;
    storage->sin6_scope_id = peer->scope;
    memcpy(&storage->sin6_addr, peer->host, sizeof storage->sin6_addr);
    return sizeof *storage;
}

// MARK: Own addresses

#define LOCAL_COUNT_MAX 255

struct local {
    uint64_t host[2];
    uint64_t family;
};

// Entries do not change once they have a number, and a number reaches other threads through the ring.
struct ingest_locals {
    uint32_t count;
    struct local entries[LOCAL_COUNT_MAX];
};

struct ingest_locals *ingest_locals_make(void) { return calloc(1, sizeof(struct ingest_locals)); }

void ingest_locals_free(struct ingest_locals *locals) { free(locals); }

// From 1 on; 0 where there are too many, whose answers leave from the kernel's choice.
static uint8_t number_of(struct ingest_locals *locals, uint64_t family, const void *host, size_t byte_count) {
    struct local wanted = {.family = family};
    memcpy(wanted.host, host, byte_count);
    for (uint32_t i = 0; i < locals->count; i++)
        if (memcmp(&locals->entries[i], &wanted, sizeof wanted) == 0) return (uint8_t)(i + 1);
    if (locals->count == LOCAL_COUNT_MAX) return 0;
    locals->entries[locals->count] = wanted;
    return (uint8_t)++locals->count;
}

static uint8_t local_number(struct ingest_locals *locals, const struct cmsghdr *c) {
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
        struct in_pktinfo info;
        memcpy(&info, CMSG_DATA(c), sizeof info);
        return number_of(locals, AF_INET, &info.ipi_spec_dst, sizeof info.ipi_spec_dst);
    }
    if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
        struct in6_pktinfo info;
        memcpy(&info, CMSG_DATA(c), sizeof info);
        // Nothing can leave from the address of a group.
        if (IN6_IS_ADDR_MULTICAST(&info.ipi6_addr)) return 0;
        return number_of(locals, AF_INET6, &info.ipi6_addr, sizeof info.ipi6_addr);
    }
    return 0;
}

union local_control {
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    struct cmsghdr alignment;
};
_Static_assert(sizeof(struct in_pktinfo) <= sizeof(struct in6_pktinfo), "room for either");

// The route is the kernel's choice; of an address of one link the peer's scope says which.
static void leave_from(const struct local *local, struct msghdr *header, union local_control *control) {
    memset(control, 0, sizeof *control);
    struct in_pktinfo v4 = {.ipi_ifindex = 0};
    struct in6_pktinfo v6 = {.ipi6_ifindex = 0};
    bool is_v6 = local->family == AF_INET6;
    memcpy(&v4.ipi_spec_dst, local->host, sizeof v4.ipi_spec_dst);
    memcpy(&v6.ipi6_addr, local->host, sizeof v6.ipi6_addr);
    size_t byte_count = is_v6 ? sizeof v6 : sizeof v4;
    header->msg_control = control->bytes;
    header->msg_controllen = CMSG_SPACE(byte_count);
    struct cmsghdr *c = CMSG_FIRSTHDR(header);
    c->cmsg_level = is_v6 ? IPPROTO_IPV6 : IPPROTO_IP;
    c->cmsg_type = is_v6 ? IPV6_PKTINFO : IP_PKTINFO;
    c->cmsg_len = CMSG_LEN(byte_count);
    memcpy(CMSG_DATA(c), is_v6 ? (const void *)&v6 : &v4, byte_count);
}

// MARK: Addresses

int ingest_address_resolve(
    const char *host, uint16_t port, const struct ingest_address *kept, bool moves_on,
    struct ingest_address *address) {
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV}, *list;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    int code = getaddrinfo(host, service, &hints, &list);
    if (code != 0) return code;
    const struct addrinfo *chosen = list;
    for (const struct addrinfo *each = list; kept && each; each = each->ai_next) {
        if (each->ai_addrlen != kept->byte_count || memcmp(each->ai_addr, kept->bytes, kept->byte_count) != 0) continue;
        if (!moves_on) chosen = each;
        else if (each->ai_next) chosen = each->ai_next;
        break;
    }
    keep(address, chosen->ai_addr, chosen->ai_addrlen);
    freeaddrinfo(list);
    return 0;
}

const char *ingest_address_error(int code) { return gai_strerror(code); }

void ingest_address_text(const struct ingest_address *address, char *text, size_t capacity) {
    char host[INET6_ADDRSTRLEN] = "?", link[IF_NAMESIZE + 1] = "";
    bool is_v6 = generic(address)->sa_family == AF_INET6;
    const void *number = is_v6 ? (const void *)&v6(address)->sin6_addr : &v4(address)->sin_addr;
    if (address->byte_count > 0) inet_ntop(generic(address)->sa_family, number, host, sizeof host);
    // An address of one link is none without the link.
    if (is_v6 && v6(address)->sin6_scope_id > 0 && if_indextoname(v6(address)->sin6_scope_id, link + 1)) link[0] = '%';
    snprintf(text, capacity, is_v6 ? "[%s%s]:%u" : "%s%s:%u", host, link, ingest_address_port(address));
}

uint16_t ingest_address_port(const struct ingest_address *address) {
    bool is_v6 = generic(address)->sa_family == AF_INET6;
    return ntohs(is_v6 ? v6(address)->sin6_port : v4(address)->sin_port);
}

bool ingest_address_is_loopback(const struct ingest_address *address) {
    if (generic(address)->sa_family == AF_INET)
        return ntohl(v4(address)->sin_addr.s_addr) >> 24 == 127;
    if (generic(address)->sa_family != AF_INET6) return false;
    const struct in6_addr *number = &v6(address)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(number)) return number->s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(number);
}

// MARK: Sockets

static int closed_with_error(int descriptor) {
    int code = errno;
    close(descriptor);
    return -code;
}

static bool is_any(const struct ingest_address *address) {
    if (generic(address)->sa_family == AF_INET) return v4(address)->sin_addr.s_addr == INADDR_ANY;
    return generic(address)->sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6(address)->sin6_addr);
}

// On a socket of all addresses an answer would leave from the one that the route has, and a sender that is connected to
// another would not hear it.
static int tell_locals(int descriptor, const struct ingest_address *address) {
    int on = 1;
    if (!is_any(address)) return 0;
    return generic(address)->sa_family == AF_INET
               ? setsockopt(descriptor, IPPROTO_IP, IP_PKTINFO, &on, sizeof on)
               : setsockopt(descriptor, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
}

int ingest_udp_bind(const struct ingest_address *address, uint32_t wait_milliseconds) {
    int descriptor = socket(generic(address)->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -errno;
    int on = 1;
    struct timeval wait = {.tv_sec = wait_milliseconds / 1000,
                           .tv_usec = (suseconds_t)(wait_milliseconds % 1000) * 1000};
    // A kernel without UDP_GRO (before 5.0) gives one datagram a buffer: slower, else the same.
    (void)setsockopt(descriptor, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
    if (setsockopt(descriptor, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on) < 0
        || setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) < 0
        || tell_locals(descriptor, address) < 0
        || bind(descriptor, generic(address), address->byte_count) < 0)
        return closed_with_error(descriptor);
    return descriptor;
}

int ingest_udp_connect(const struct ingest_address *address) {
    bool is_none = address->byte_count == 0;
    int descriptor = socket(is_none ? AF_INET : generic(address)->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -errno;
    if (is_none) return descriptor;
    if (connect(descriptor, generic(address), address->byte_count) < 0)
        return closed_with_error(descriptor);
    return descriptor;
}

int ingest_udp_reconnect(int descriptor, const struct ingest_address *address) {
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    int family = 0;
    socklen_t size = sizeof family;
    if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0) return -errno;
    if (family != generic(address)->sa_family) {
        // A socket of the other family takes the descriptor's place.
        int other = ingest_udp_connect(address);
        if (other < 0) {
            (void)connect(descriptor, &none, sizeof none);
            return other;
        }
        int code = dup3(other, descriptor, O_CLOEXEC) < 0 ? -errno : 0;
        close(other);
        return code;
    }
    if (connect(descriptor, &none, sizeof none) < 0) return -errno;
    return connect(descriptor, generic(address), address->byte_count) < 0 ? -errno : 0;
}

int ingest_udp_address(int descriptor, struct ingest_address *address) {
    struct sockaddr_in6 found;
    socklen_t byte_count = sizeof found;
    if (getsockname(descriptor, (struct sockaddr *)&found, &byte_count) < 0) return -errno;
    keep(address, &found, byte_count);
    return 0;
}

int64_t ingest_udp_receive_buffer(int descriptor, uint32_t byte_count) {
    int wanted = byte_count > INT32_MAX / 2 ? INT32_MAX / 2 : (int)byte_count, effective = 0;
    socklen_t size = sizeof effective;
    if (setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted) < 0
        && setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted) < 0)
        return -errno;
    if (getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &effective, &size) < 0) return -errno;
    return effective / 2;
}

bool ingest_udp_drop_count(int descriptor, uint32_t *drop_count) {
    uint32_t values[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof values;
    if (getsockopt(descriptor, SOL_SOCKET, SO_MEMINFO, values, &size) < 0) return false;
    if (size < (SK_MEMINFO_DROPS + 1) * sizeof values[0]) return false;
    *drop_count = values[SK_MEMINFO_DROPS];
    return true;
}

// MARK: Receiving

// Room for the control messages that a bound socket asks for: a segment size, a drop count, an address.
union receive_control {
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint32_t)) + CMSG_SPACE(sizeof(struct in6_pktinfo))];
    struct cmsghdr alignment;
};

struct ingest_receiver {
    uint32_t capacity;
    uint32_t buffer_byte_count;
    struct mmsghdr *messages;
    struct iovec *buffers;
    union receive_control *control;
};

struct ingest_receiver *ingest_receiver_make(uint32_t capacity, uint32_t buffer_byte_count) {
    struct ingest_receiver *receiver = calloc(1, sizeof *receiver);
    if (receiver == NULL) return NULL;
    receiver->capacity = capacity;
    receiver->buffer_byte_count = buffer_byte_count;
    receiver->messages = calloc(capacity, sizeof *receiver->messages);
    receiver->buffers = calloc(capacity, sizeof *receiver->buffers);
    receiver->control = calloc(capacity, sizeof *receiver->control);
    if (receiver->messages == NULL || receiver->buffers == NULL || receiver->control == NULL) {
        ingest_receiver_free(receiver);
        return NULL;
    }
    return receiver;
}

void ingest_receiver_free(struct ingest_receiver *receiver) {
    if (receiver == NULL) return;
    free(receiver->messages);
    free(receiver->buffers);
    free(receiver->control);
    free(receiver);
}

static void prepare(struct ingest_receiver *receiver, struct ingest_datagram *datagrams) {
    for (uint32_t i = 0; i < receiver->capacity; i++) {
        receiver->buffers[i].iov_base = datagrams[i].bytes;
        receiver->buffers[i].iov_len = receiver->buffer_byte_count;
        receiver->messages[i].msg_hdr = (struct msghdr){
            .msg_name = datagrams[i].source.bytes,
            .msg_namelen = sizeof datagrams[i].source.bytes,
            .msg_iov = &receiver->buffers[i],
            .msg_iovlen = 1,
            .msg_control = receiver->control[i].bytes,
            .msg_controllen = sizeof receiver->control[i].bytes,
        };
    }
}

static void read_out(const struct mmsghdr *message, struct ingest_datagram *datagram, struct ingest_locals *locals) {
    struct msghdr header = message->msg_hdr;
    datagram->byte_count = message->msg_len;
    datagram->segment_byte_count = message->msg_len;
    datagram->is_truncated = (header.msg_flags & MSG_TRUNC) != 0;
    datagram->has_drop_count = false;
    datagram->local = 0;
    datagram->source.byte_count = header.msg_namelen;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c != NULL; c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
            int size;
            memcpy(&size, CMSG_DATA(c), sizeof size);
            if (size > 0) datagram->segment_byte_count = (uint32_t)size;
        } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
            memcpy(&datagram->drop_count, CMSG_DATA(c), sizeof datagram->drop_count);
            datagram->has_drop_count = true;
        } else if (locals != NULL) {
            datagram->local = local_number(locals, c);
        }
    }
}

int ingest_receive(struct ingest_receiver *receiver, int descriptor, struct ingest_datagram *datagrams,
                   bool waits, struct ingest_locals *locals) {
    prepare(receiver, datagrams);
    // MSG_WAITFORONE: the rest of the batch is what is there without waiting.
    int flags = waits ? MSG_WAITFORONE : MSG_DONTWAIT;
    int count = recvmmsg(descriptor, receiver->messages, receiver->capacity, flags, NULL);
    if (count < 0) return -errno;
    for (int i = 0; i < count; i++) read_out(&receiver->messages[i], &datagrams[i], locals);
    return count;
}

// MARK: Sending

int ingest_send(int descriptor, const struct ingest_outgoing *messages, uint32_t count,
                const struct ingest_address *to) {
    struct mmsghdr headers[INGEST_SEND_COUNT_MAX];
    struct iovec buffers[INGEST_SEND_COUNT_MAX];
    union {
        char bytes[CMSG_SPACE(sizeof(uint16_t))];
        struct cmsghdr alignment;
    } control[INGEST_SEND_COUNT_MAX];
    if (count > INGEST_SEND_COUNT_MAX) count = INGEST_SEND_COUNT_MAX;
    for (uint32_t i = 0; i < count; i++) {
        buffers[i].iov_base = (void *)messages[i].bytes;
        buffers[i].iov_len = messages[i].byte_count;
        headers[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &buffers[i], .msg_iovlen = 1}};
        struct msghdr *header = &headers[i].msg_hdr;
        if (to != NULL) {
            header->msg_name = (void *)to->bytes;
            header->msg_namelen = to->byte_count;
        }
        if (messages[i].segment_byte_count == 0) continue;
        memset(&control[i], 0, sizeof control[i]);
        header->msg_control = control[i].bytes;
        header->msg_controllen = sizeof control[i].bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(header);
        uint16_t size = (uint16_t)messages[i].segment_byte_count;
        c->cmsg_level = IPPROTO_UDP;
        c->cmsg_type = UDP_SEGMENT;
        c->cmsg_len = CMSG_LEN(sizeof size);
        memcpy(CMSG_DATA(c), &size, sizeof size);
    }
    int sent = sendmmsg(descriptor, headers, count, 0);
    return sent < 0 ? -errno : sent;
}

int ingest_send_acks(int descriptor, const struct ingest_ack *acks, uint32_t count,
                        const struct ingest_locals *locals) {
    struct mmsghdr headers[INGEST_SEND_COUNT_MAX];
    struct iovec buffers[INGEST_SEND_COUNT_MAX];
    struct sockaddr_in6 addresses[INGEST_SEND_COUNT_MAX];
    union local_control control[INGEST_SEND_COUNT_MAX];
    if (count > INGEST_SEND_COUNT_MAX) count = INGEST_SEND_COUNT_MAX;
    for (uint32_t i = 0; i < count; i++) {
        buffers[i].iov_base = (void *)acks[i].bytes;
        buffers[i].iov_len = acks[i].byte_count;
        socklen_t address_byte_count = peer_address(&acks[i].to, &addresses[i]);
        headers[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &buffers[i],
                                                  .msg_iovlen = 1,
                                                  .msg_name = &addresses[i],
                                                  .msg_namelen = address_byte_count}};
        if (acks[i].to.local > 0)
            leave_from(&locals->entries[acks[i].to.local - 1], &headers[i].msg_hdr, &control[i]);
    }
    int sent = sendmmsg(descriptor, headers, count, MSG_DONTWAIT);
    return sent < 0 ? -errno : sent;
}
