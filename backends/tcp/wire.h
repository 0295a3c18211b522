/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - the frames of a data connection, as docs/wire.md describes them
 *
 * Everything is little endian. A connection begins with one hello of each
 * side; then come frames: a fixed header and, for two of the kinds, payload.
 *
 * Encoding and decoding go in the order of the byte tables. Headers are on the
 * path of every 4 KiB request, hence inline, with plain stores at constant
 * places instead of the checked reader and writer of base/bytes.h.
 */
#ifndef TCP_WIRE_H
#define TCP_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

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
	uint64_t address; /* WRITE, READ: of the first byte of this frame */
	uint64_t offset;  /* WRITE, DATA: of the payload in the request */
	/* Bytes of payload; READ: bytes asked for; ANSWER: ids from @id on. */
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

/* The description of a rail, by which others see whether they reach it. */
struct tcp_network {
	uint8_t family; /* 4, 6; 0: any, the kernel routes */
	uint8_t prefix; /* bits of @ip that are the network's */
	uint8_t ip[16]; /* IPv4: the first four */
};

/* The address that endpoint_open() gives, at a target and an initiator. */
struct tcp_address {
	uint16_t port;
	uint8_t lanes;
	uint8_t token[TCP_TOKEN_LEN];
	struct tcp_network network; /* of the rail; family 0: as the peer */
};

static inline void tei_tcp_frame_encode(const struct tcp_frame *f,
					uint8_t out[TCP_HEAD_LEN])
{
	tei_store_u32(out, TCP_MAGIC);
	out[4] = TCP_VERSION;
	out[5] = f->op;
	out[6] = f->flags;
	out[7] = f->status;
	tei_store_u64(out + 8, f->id);
	tei_store_u64(out + 16, f->key);
	tei_store_u64(out + 24, f->address);
	tei_store_u64(out + 32, f->offset);
	tei_store_u64(out + 40, f->length);
	tei_store_u64(out + 48, f->epoch);
	tei_store_u64(out + 56, 0);
}

static inline bool tcp_payload_fits(const struct tcp_frame *f)
{
	return !(f->flags & ~(TCP_LAST | TCP_MORE)) && f->length >= 1 &&
	       f->length <= TCP_FRAME_MAX;
}

/* Tells whether a frame of this kind may have its length and flags. */
static inline bool tcp_frame_fits(const struct tcp_frame *f)
{
	switch (f->op) {
	case TCP_WRITE:
		if (f->flags == TCP_ABORT)
			return f->length == 0;
		return tcp_payload_fits(f);
	case TCP_DATA:
		return tcp_payload_fits(f);
	case TCP_READ:
		return !f->flags && f->length >= 1 &&
		       f->length <= TCP_LENGTH_MAX;
	case TCP_ANSWER:
		return !f->flags && f->length >= 1 && f->length <= TCP_WINDOW;
	default:
		return false;
	}
}

/* False: wrong magic, version, op, reserved bytes or length. */
static inline bool tei_tcp_frame_decode(const uint8_t in[TCP_HEAD_LEN],
					struct tcp_frame *f)
{
	if (tei_load_u32(in) != TCP_MAGIC || in[4] != TCP_VERSION ||
	    tei_load_u64(in + 56))
		return false;
	f->op = in[5];
	f->flags = in[6];
	f->status = in[7];
	f->id = tei_load_u64(in + 8);
	f->key = tei_load_u64(in + 16);
	f->address = tei_load_u64(in + 24);
	f->offset = tei_load_u64(in + 32);
	f->length = tei_load_u64(in + 40);
	f->epoch = tei_load_u64(in + 48);
	return f->id && tcp_frame_fits(f);
}

static inline void tei_tcp_hello_encode(const struct tcp_hello *h,
					uint8_t out[TCP_HEAD_LEN])
{
	memset(out, 0, TCP_HEAD_LEN);
	tei_store_u32(out, TCP_MAGIC);
	out[4] = TCP_VERSION;
	out[5] = h->op;
	out[6] = h->lane;
	out[7] = h->status;
	out[8] = h->lanes;
	memcpy(out + 16, h->token, TCP_TOKEN_LEN);
}

static inline bool tei_tcp_hello_decode(const uint8_t in[TCP_HEAD_LEN],
					struct tcp_hello *h)
{
	if (tei_load_u32(in) != TCP_MAGIC || in[4] != TCP_VERSION)
		return false;
	h->op = in[5];
	h->lane = in[6];
	h->status = in[7];
	h->lanes = in[8];
	memcpy(h->token, in + 16, TCP_TOKEN_LEN);
	return h->lanes <= TCP_LANES_MAX && h->lane < h->lanes;
}

static inline void tei_tcp_network_encode(const struct tcp_network *n,
					  uint8_t out[TCP_NETWORK_LEN])
{
	memset(out, 0, TCP_NETWORK_LEN);
	out[0] = n->family;
	out[1] = n->prefix;
	memcpy(out + 4, n->ip, sizeof(n->ip));
}

static inline bool tei_tcp_network_decode(const uint8_t in[TCP_NETWORK_LEN],
					  struct tcp_network *n)
{
	n->family = in[0];
	n->prefix = in[1];
	memcpy(n->ip, in + 4, sizeof(n->ip));
	switch (n->family) {
	case 0:
		return !n->prefix;
	case 4:
		return n->prefix <= 32;
	case 6:
		return n->prefix <= 128;
	default:
		return false;
	}
}

static inline void tei_tcp_address_encode(const struct tcp_address *a,
					  uint8_t out[TCP_ADDRESS_LEN])
{
	struct tei_writer w;

	tei_writer_init(&w, out, TCP_ADDRESS_LEN);
	tei_write_u16(&w, TCP_VERSION);
	tei_write_u16(&w, a->port);
	tei_write_u16(&w, a->lanes);
	tei_write_u16(&w, 0);
	tei_write_bytes(&w, a->token, TCP_TOKEN_LEN);
	tei_tcp_network_encode(&a->network, out + 24);
	memset(out + 24 + TCP_NETWORK_LEN, 0, 4);
}

static inline bool tei_tcp_address_decode(const uint8_t in[TCP_ADDRESS_LEN],
					  struct tcp_address *a)
{
	struct tei_reader r;
	uint16_t version, lanes, zero;

	tei_reader_init(&r, in, TCP_ADDRESS_LEN);
	version = tei_read_u16(&r);
	a->port = tei_read_u16(&r);
	lanes = tei_read_u16(&r);
	zero = tei_read_u16(&r);
	memcpy(a->token, tei_read_bytes(&r, TCP_TOKEN_LEN), TCP_TOKEN_LEN);
	a->lanes = (uint8_t)lanes;
	return tei_tcp_network_decode(in + 24, &a->network) &&
	       version == TCP_VERSION && !zero && lanes >= 1 &&
	       lanes <= TCP_LANES_MAX;
}

#endif
