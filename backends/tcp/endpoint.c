/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.c - the ops of an endpoint, both halves
 *
 * A target's half is known by a random token until all its lanes have come;
 * the token travels over the control connection, which knows the peer.
 */
#include "backends/tcp/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/mem.h"

int tei_tcp_endpoint_open(struct tei_endpoint *base, void *addr, size_t *len)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);
	struct tcp_rail *rail = tcp_rail(base->rail);
	struct tcp_address a;

	if (*len < TCP_ADDRESS_LEN)
		return -ENOBUFS;
	if (getrandom(ep->token, TCP_TOKEN_LEN, 0) != TCP_TOKEN_LEN)
		return -EIO;
	ep->base = base;
	ep->n_lanes = (uint32_t)tcp_config(rail)->lanes;
	tei_list_init(&ep->waiting);
	tei_list_init(&ep->broken_link);
	if (base->target)
		tei_list_add_tail(&rail->waiting, &ep->waiting);
	a.port = rail->port;
	a.lanes = (uint8_t)ep->n_lanes;
	a.network = rail->network;
	memcpy(a.token, ep->token, TCP_TOKEN_LEN);
	tei_tcp_address_encode(&a, addr);
	*len = TCP_ADDRESS_LEN;
	return 0;
}

static void close_lanes(struct tcp_endpoint *ep)
{
	for (uint32_t i = 0; i < TCP_LANES_MAX; i++) {
		if (ep->lanes[i])
			tei_tcp_lane_close(ep->lanes[i]);
	}
	tei_list_del(&ep->waiting);
}

static struct tei_address address_of(const struct tcp_network *network)
{
	struct tei_address to = {.len = sizeof(struct sockaddr_in6)};
	struct sockaddr_in6 *in6 = (void *)&to.ss;
	struct sockaddr_in *in = (void *)&to.ss;

	if (network->family == 6) {
		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, network->ip, sizeof(in6->sin6_addr));
		return to;
	}
	to.len = sizeof(*in);
	in->sin_family = AF_INET;
	memcpy(&in->sin_addr, network->ip, sizeof(in->sin_addr));
	return to;
}

int tei_tcp_endpoint_connect(struct tei_endpoint *base, const void *addr,
			     size_t len)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);
	struct tei_address to = base->peer;
	struct tcp_address a;
	int rc;

	if (len != TCP_ADDRESS_LEN || !tei_tcp_address_decode(addr, &a))
		return -EPROTO;
	if (a.lanes < ep->n_lanes)
		ep->n_lanes = a.lanes;
	if (base->target)
		return -EINPROGRESS; /* until the last lane has come */
	memcpy(ep->token, a.token, TCP_TOKEN_LEN);
	if (a.network.family)
		to = address_of(&a.network);
	tei_address_set_port(&to, a.port);
	for (uint32_t i = 0; i < ep->n_lanes; i++) {
		rc = tei_tcp_lane_connect(ep, i, &to);
		if (rc < 0) {
			close_lanes(ep);
			return rc;
		}
	}
	return -EINPROGRESS;
}

void tei_tcp_endpoint_close(struct tei_endpoint *base)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);

	tei_list_del(&ep->waiting);
	tei_list_del(&ep->broken_link);
	for (uint32_t i = 0; i < TCP_LANES_MAX; i++) {
		if (ep->lanes[i])
			tei_tcp_lane_destroy(ep->lanes[i]);
		ep->lanes[i] = NULL;
	}
}

struct tcp_endpoint *tei_tcp_endpoint_claim(struct tcp_rail *rail,
					    const struct tcp_hello *h)
{
	tei_list_for_each (pos, &rail->waiting) {
		struct tcp_endpoint *ep =
			tei_list_entry(pos, struct tcp_endpoint, waiting);

		if (CRYPTO_memcmp(ep->token, h->token, TCP_TOKEN_LEN))
			continue;
		if (h->lanes > ep->n_lanes || ep->lanes[h->lane])
			return NULL;
		/* The initiator may want fewer than it could have. */
		ep->n_lanes = h->lanes;
		if (ep->n_open + 1 == ep->n_lanes)
			tei_list_del(&ep->waiting);
		return ep;
	}
	return NULL;
}

void tei_tcp_endpoint_break(struct tcp_endpoint *ep, int err)
{
	struct tcp_rail *rail = tcp_rail(ep->base->rail);

	close_lanes(ep);
	if (ep->broken || ep->dropped)
		return;
	ep->broken = err;
	tei_list_add_tail(&rail->broken, &ep->broken_link);
	tei_tcp_kick(rail);
}

/* ---- slices ---- */

static bool lane_has_room(const struct tcp_lane *lane)
{
	return !lane->n_unanswered ||
	       (lane->n_unanswered < TCP_WINDOW &&
		lane->bytes_unanswered < TCP_WINDOW_BYTES);
}

/* The lane with the least to do, NULL: all are full. */
static struct tcp_lane *choose_lane(const struct tcp_endpoint *ep)
{
	struct tcp_lane *best = NULL;

	for (uint32_t i = 0; i < ep->n_lanes; i++) {
		struct tcp_lane *lane = ep->lanes[i];

		if (!lane_has_room(lane))
			continue;
		if (!best || lane->bytes_unanswered < best->bytes_unanswered)
			best = lane;
	}
	return best;
}

static void queue_slice(struct tcp_lane *lane, struct tei_slice *slice)
{
	struct tcp_slice *s = tcp_slice(slice);

	s->lane = lane;
	s->id = lane->next_id++;
	s->sent = false;
	tei_tcp_cursor_init(&s->passed, slice);
	tei_list_add_tail(slice->op == TEI_READ ? &lane->reads : &lane->writes,
			  &slice->link);
	lane->n_unanswered++;
	lane->bytes_unanswered += slice->length;
}

static void refuse_slice(struct tcp_rail *rail, struct tei_slice *slice)
{
	tcp_slice(slice)->lane = NULL;
	slice->provider_code = EFAULT;
	tei_list_add_tail(&rail->refused, &slice->link);
	tei_tcp_kick(rail);
}

/* Start what post() or cancel() has queued; a full socket starts itself. */
static void send_lanes(struct tcp_endpoint *ep)
{
	for (uint32_t i = 0; i < ep->n_lanes && !ep->broken; i++) {
		if (!(ep->lanes[i]->interest & EPOLLOUT))
			tei_tcp_send(ep->lanes[i]);
	}
}

int tei_tcp_post(struct tei_endpoint *base, struct tei_slice *const slices[],
		 int n)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);
	struct tcp_lane *lane;
	int taken;

	if (ep->broken)
		return ep->broken;
	for (taken = 0; taken < n; taken++) {
		if (slices[taken]->key_len != TCP_KEY_LEN) {
			refuse_slice(tcp_rail(base->rail), slices[taken]);
			continue;
		}
		lane = choose_lane(ep);
		if (!lane)
			break;
		queue_slice(lane, slices[taken]);
	}
	send_lanes(ep);
	return taken;
}

void tei_tcp_slice_end(struct tei_slice *slice, int err, uint64_t bytes)
{
	struct tcp_lane *lane = tcp_slice(slice)->lane;

	tei_list_del(&slice->link);
	lane->bytes_unanswered -= slice->length;
	if (lane->slice == slice) {
		lane->slice = NULL;
		lane->in = TCP_STREAM_ORPHAN;
	}
	if (err)
		slice->provider_code = -err;
	tei_slice_done(slice, err, bytes);
}

/* The rest of a frame whose header is on its way must follow. */
static int orphan_frame(struct tcp_lane *lane, const struct tei_slice *slice)
{
	if (lane->fd < 0)
		return 0;
	lane->orphan = tei_malloc(lane->out_left);
	if (!lane->orphan)
		return -ENOMEM;
	tei_tcp_copy_out(slice, lane->orphan, lane->out_left);
	lane->orphan_at = 0;
	lane->out = TCP_STREAM_ORPHAN;
	return 0;
}

int tei_tcp_slice_leave(struct tcp_lane *lane, struct tei_slice *slice)
{
	bool half = lane->out == TCP_STREAM_SLICE &&
		    lane->writes.next == &slice->link;

	return half ? orphan_frame(lane, slice) : 0;
}

void tei_tcp_cancel(struct tei_endpoint *base, struct tei_slice *slice)
{
	struct tcp_slice *s = tcp_slice(slice);
	struct tcp_lane *lane = s->lane;
	int rc = 0;

	if (!lane) { /* refused by post() */
		tei_list_del(&slice->link);
		tei_slice_done(slice, -ECANCELED, 0);
		return;
	}
	if (!s->sent) {
		bool begun =
			slice->op == TEI_WRITE &&
			(s->passed.at || (lane->out == TCP_STREAM_SLICE &&
					  lane->writes.next == &slice->link));

		rc = tei_tcp_slice_leave(lane, slice);
		if (begun)
			lane->abort_id = s->id;
		else
			lane->n_unanswered--;
	}
	if (rc < 0)
		tei_tcp_endpoint_break(tcp_endpoint(base), rc);
	tei_tcp_slice_end(slice, -ECANCELED, 0);
	if (lane->abort_id)
		send_lanes(tcp_endpoint(base));
}

static void end_all(struct tei_list *slices, int err)
{
	while (!tei_list_empty(slices))
		tei_tcp_slice_end(
			tei_list_entry(slices->next, struct tei_slice, link),
			err, 0);
}

static void end_refused(struct tei_endpoint *base, int err)
{
	struct tcp_rail *rail = tcp_rail(base->rail);

	tei_list_for_each_safe (pos, tmp, &rail->refused) {
		struct tei_slice *slice =
			tei_list_entry(pos, struct tei_slice, link);

		if (slice->ep != base)
			continue;
		tei_list_del(pos);
		tei_slice_done(slice, err, 0);
	}
}

void tei_tcp_flush(struct tei_endpoint *base, int err)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);

	close_lanes(ep);
	if (!ep->broken)
		ep->broken = err;
	tei_list_del(&ep->broken_link);
	for (uint32_t i = 0; i < TCP_LANES_MAX; i++) {
		struct tcp_lane *lane = ep->lanes[i];

		if (!lane)
			continue;
		end_all(&lane->sent_writes, err);
		end_all(&lane->sent_reads, err);
		end_all(&lane->writes, err);
		end_all(&lane->reads, err);
	}
	end_refused(base, err);
}

int tei_tcp_drop(struct tei_endpoint *base)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);

	ep->dropped = true;
	tei_list_del(&ep->broken_link);
	close_lanes(ep);
	return 0;
}
