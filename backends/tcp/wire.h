/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - the frames of a data connection, as docs/wire.md describes them
 *
 * Everything is little endian. A connection begins with one hello of each
 * side; then come frames: a fixed header and, for two of the kinds, payload.
 */
#ifndef TCP_WIRE_H
#define TCP_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#define TCP_HEAD_LEN    64
#define TCP_TOKEN_LEN   16
#define TCP_KEY_LEN     8
#define TCP_ADDRESS_LEN 48
#define TCP_NETWORK_LEN 20
#define TCP_MAGIC       0x31544554u /* "TET1" */
#define TCP_VERSION     2
#define TCP_FRAME_MAX   (256u << 10) /* payload of one frame */
#define TCP_LENGTH_MAX  (1ull << 40) /* bytes of one READ */
#define TCP_LANES_MAX   16
#define TCP_WINDOW      256 /* unanswered requests of a lane */
#define TCP_BURST_MAX   128 /* frames whose headers go before all payload */

enum tcp_op {
	TCP_HELLO = 1,   /* initiator: this lane belongs to that token */
	TCP_WELCOME = 2, /* target: yes, or why not */
	TCP_WRITE = 3,   /* initiator: payload for the target's memory */
	TCP_READ = 4,    /* initiator: asks for DATA */
	TCP_DATA = 5,    /* target: payload of a READ */
	TCP_ANSWER = 6,  /* target: end of WRITEs, or refusal of either */
};

enum tcp_flags {
	TCP_LAST = 1,  /* WRITE, DATA: the last frame of this id */
	TCP_ABORT = 2, /* WRITE: no more comes; no payload */
	TCP_MORE = 4,  /* WRITE, DATA: payload comes after the next header's */
};

struct tcp_frame {
	uint8_t op;
	uint8_t flags;
	uint8_t status; /* enum tei_status */
	uint64_t id;    /* of the request on this lane; never reused, never 0 */
	uint64_t key;   /* WRITE, READ */
	uint64_t
		address; /* WRITE, READ: of the first byte meant by this frame */
	uint64_t offset; /* WRITE, DATA: of the payload in the request */
	/* Of the payload; READ: bytes asked for; ANSWER: ids from @id on. */
	uint64_t length;
	uint64_t epoch; /* WRITE, READ */
};

struct tcp_hello {
	uint8_t op;     /* HELLO or WELCOME */
	uint8_t lane;   /* 0 .. lanes - 1 */
	uint8_t lanes;  /* of this endpoint, 1 .. TCP_LANES_MAX */
	uint8_t status; /* WELCOME: enum tei_status */
	uint8_t token[TCP_TOKEN_LEN];
};

/* What a rail says of itself, and whether others reach it. */
struct tcp_network {
	uint8_t family; /* 4, 6; 0: any, the kernel routes */
	uint8_t prefix; /* bits of @ip that are the network's */
	uint8_t ip[16]; /* IPv4: the first four */
};

/* What a target's endpoint_open() gives, and an initiator's. */
struct tcp_address {
	uint16_t port;
	uint8_t lanes;
	uint8_t token[TCP_TOKEN_LEN];
	struct tcp_network network; /* of the rail; family 0: as the peer */
};

void tei_tcp_frame_encode(const struct tcp_frame *f, uint8_t out[TCP_HEAD_LEN]);
/* False: wrong magic, version, op, reserved bytes or length. */
bool tei_tcp_frame_decode(const uint8_t in[TCP_HEAD_LEN], struct tcp_frame *f);
void tei_tcp_hello_encode(const struct tcp_hello *h, uint8_t out[TCP_HEAD_LEN]);
bool tei_tcp_hello_decode(const uint8_t in[TCP_HEAD_LEN], struct tcp_hello *h);
void tei_tcp_address_encode(const struct tcp_address *a,
			    uint8_t out[TCP_ADDRESS_LEN]);
bool tei_tcp_address_decode(const uint8_t in[TCP_ADDRESS_LEN],
			    struct tcp_address *a);
void tei_tcp_network_encode(const struct tcp_network *n,
			    uint8_t out[TCP_NETWORK_LEN]);
bool tei_tcp_network_decode(const uint8_t in[TCP_NETWORK_LEN],
			    struct tcp_network *n);

#endif
