/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.c - encode and decode, in the order of the byte tables in docs/wire.md
 *
 * Frame headers are on the path of every 4 KiB request, hence plain stores at
 * constant places instead of the checked reader and writer of base/bytes.h.
 */
#include "backends/tcp/wire.h"

#include <string.h>

#include "base/bytes.h"

void tei_tcp_frame_encode(const struct tcp_frame *f, uint8_t out[TCP_HEAD_LEN])
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

static bool payload_fits(const struct tcp_frame *f)
{
	return !(f->flags & ~(TCP_LAST | TCP_MORE)) && f->length >= 1 &&
	       f->length <= TCP_FRAME_MAX;
}

/* What a frame of each kind may say about its length and flags. */
static bool frame_fits(const struct tcp_frame *f)
{
	switch (f->op) {
	case TCP_WRITE:
		if (f->flags == TCP_ABORT)
			return f->length == 0;
		return payload_fits(f);
	case TCP_DATA:
		return payload_fits(f);
	case TCP_READ:
		return !f->flags && f->length >= 1 &&
		       f->length <= TCP_LENGTH_MAX;
	case TCP_ANSWER:
		return !f->flags && f->length >= 1 && f->length <= TCP_WINDOW;
	default:
		return false;
	}
}

bool tei_tcp_frame_decode(const uint8_t in[TCP_HEAD_LEN], struct tcp_frame *f)
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
	return f->id && frame_fits(f);
}

void tei_tcp_hello_encode(const struct tcp_hello *h, uint8_t out[TCP_HEAD_LEN])
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

bool tei_tcp_hello_decode(const uint8_t in[TCP_HEAD_LEN], struct tcp_hello *h)
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

void tei_tcp_address_encode(const struct tcp_address *a,
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

bool tei_tcp_address_decode(const uint8_t in[TCP_ADDRESS_LEN],
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

void tei_tcp_network_encode(const struct tcp_network *n,
			    uint8_t out[TCP_NETWORK_LEN])
{
	memset(out, 0, TCP_NETWORK_LEN);
	out[0] = n->family;
	out[1] = n->prefix;
	memcpy(out + 4, n->ip, sizeof(n->ip));
}

bool tei_tcp_network_decode(const uint8_t in[TCP_NETWORK_LEN],
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
