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
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/mem.h"
#include <te/te.h>

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

/* As its first lane has it; the others go the same way. */
void tei_tcp_endpoint_way(const struct tei_endpoint *base, char *out,
			  size_t room)
{
	const struct tcp_lane *lane = tcp_endpoint(base)->lanes[0];
	struct tei_address here = {.len = sizeof(here.ss)}, there = here;
	char from[TEI_NAME_LEN_MAX + 1], to[TEI_NAME_LEN_MAX + 1];
	socklen_t len = sizeof(int);
	int segment = 0;

	*out = '\0';
	if (!lane ||
	    getsockname(lane->fd, (struct sockaddr *)&here.ss, &here.len) ||
	    getpeername(lane->fd, (struct sockaddr *)&there.ss, &there.len))
		return;
	(void)getsockopt(lane->fd, IPPROTO_TCP, TCP_MAXSEG, &segment, &len);
	tei_address_text(&here, from);
	tei_address_text(&there, to);
	(void)snprintf(out, room, "%s to %s, packets of %d bytes, %u lanes",
		       from, to, segment, tcp_endpoint(base)->n_lanes);
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
	tei_tcp_signal(rail);
}

/* ---- slices ---- */

/* What is small or urgent is not kept out by the bytes of bulk. */
static bool has_room(const struct tcp_lane *lane, bool express)
{
	return !lane->n_unanswered ||
	       (lane->n_unanswered < TCP_WINDOW &&
		(express || lane->bytes_unanswered < TCP_WINDOW_BYTES));
}

/* What must not wait behind megabytes in the kernel's buffers. */
static bool is_express(const struct tei_slice *slice)
{
	if (slice->priority == TE_PRIORITY_NORMAL)
		return slice->length <= TCP_EXPRESS_LEN;
	return slice->priority == TE_PRIORITY_URGENT;
}

/*
 * The last of several lanes is for what is small or urgent. Of the others the
 * one with the least to do. NULL: there is no room.
 */
static struct tcp_lane *choose_lane(const struct tcp_endpoint *ep,
				    const struct tei_slice *slice)
{
	uint32_t from = 0, to = ep->n_lanes;
	bool express = is_express(slice);
	struct tcp_lane *best = NULL;

	if (to > 1 && express)
		from = to - 1;
	else if (to > 1)
		to--;
	for (uint32_t i = from; i < to; i++) {
		struct tcp_lane *lane = ep->lanes[i];

		if (!has_room(lane, express))
			continue;
		if (!best || lane->bytes_unanswered < best->bytes_unanswered)
			best = lane;
	}
	return best;
}

static int rank(const struct tei_slice *slice)
{
	switch (slice->priority) {
	case TE_PRIORITY_URGENT:
		return 0;
	case TE_PRIORITY_BULK:
		return 2;
	default:
		return 1;
	}
}

/*
 * Into the queue behind those that go first; what has begun goes on, for
 * WRITEs do not mix. Now and then nobody is overtaken.
 */
static void insert(struct tcp_lane *lane, struct tei_list *queue,
		   struct tei_slice *slice)
{
	struct tei_list *after = queue->prev;

	while (after != queue && lane->n_overtakes < TCP_OVERTAKE_MAX) {
		struct tei_slice *other =
			tei_list_entry(after, struct tei_slice, link);

		if (rank(other) <= rank(slice) || tcp_slice(other)->id)
			break;
		after = after->prev;
	}
	if (after == queue->prev)
		lane->n_overtakes = 0;
	else
		lane->n_overtakes++;
	tei_list_insert(after, &slice->link);
}

static void queue_slice(struct tcp_lane *lane, struct tei_slice *slice)
{
	struct tcp_slice *s = tcp_slice(slice);

	s->lane = lane;
	s->id = 0;
	s->sent = false;
	s->lent = false;
	tei_tcp_cursor_init(&s->passed, slice);
	s->announced = s->passed;
	insert(lane, slice->op == TEI_READ ? &lane->reads : &lane->writes,
	       slice);
	lane->n_requests++;
	lane->n_unanswered++;
	lane->bytes_unanswered += slice->length;
	tei_tcp_asking_add(lane);
}

static void refuse_slice(struct tcp_rail *rail, struct tei_slice *slice)
{
	tcp_slice(slice)->lane = NULL;
	slice->provider_code = EFAULT;
	tei_list_add_tail(&rail->refused, &slice->link);
	tei_tcp_signal(rail);
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
		lane = choose_lane(ep, slices[taken]);
		if (!lane)
			break;
		queue_slice(lane, slices[taken]);
	}
	send_lanes(ep);
	return taken;
}

/* What comes in for the slice is drained from now on. */
static void drain_payloads(struct tcp_burst *in, const struct tei_slice *slice)
{
	for (uint32_t i = in->at; i < in->n; i++) {
		struct tcp_payload *payload = &in->payload[i];

		if (payload->stream == TCP_STREAM_SLICE &&
		    payload->slice == slice)
			payload->stream = TCP_STREAM_ORPHAN;
	}
}

static int orphan_payload(struct tcp_lane *lane, struct tcp_payload *payload,
			  struct tcp_cursor *c, bool there)
{
	const struct tei_slice *slice = payload->slice;
	uint8_t *copy = tei_calloc(1, payload->left);

	if (!copy)
		return -ENOMEM;
	if (there)
		tei_tcp_copy_out(slice, c, copy, payload->left);
	payload->stream = TCP_STREAM_ORPHAN;
	payload->copy = copy;
	payload->copy_at = 0;
	if (!lane->n_orphans++)
		tei_tcp_stalled_add(lane);
	return 0;
}

/*
 * Payload that has been announced must follow, so it is copied; zeros will do
 * where its memory is not @there.
 */
static int orphan_payloads(struct tcp_lane *lane, const struct tei_slice *slice,
			   bool there)
{
	struct tcp_cursor c = tcp_slice(slice)->passed;
	struct tcp_burst *out = lane->out;
	int rc = 0;

	for (uint32_t i = out->at; i < out->n && !rc; i++) {
		struct tcp_payload *payload = &out->payload[i];

		if (payload->stream == TCP_STREAM_SLICE &&
		    payload->slice == slice)
			rc = orphan_payload(lane, payload, &c, there);
	}
	return rc;
}

static void leave_lane(struct tcp_lane *lane, const struct tei_slice *slice,
		       bool there)
{
	int rc = 0;

	if (lane->fd < 0)
		return;
	if (lane->in)
		drain_payloads(lane->in, slice);
	if (lane->out)
		rc = orphan_payloads(lane, slice, there);
	if (rc < 0)
		tei_tcp_endpoint_break(lane->ep, rc);
}

void tei_tcp_slice_end(struct tei_slice *slice, int err, uint64_t bytes)
{
	struct tcp_lane *lane = tcp_slice(slice)->lane;

	if (err) {
		if (!tei_tcp_is_quiet(slice))
			tei_tcp_endpoint_break(lane->ep, err);
		leave_lane(lane, slice, true);
		slice->provider_code = -err;
	}
	tei_list_del(&slice->link);
	lane->bytes_unanswered -= slice->length;
	tei_slice_done(slice, err, bytes);
}

void tei_tcp_slice_answered(struct tei_slice *slice, int err)
{
	struct tcp_lane *lane = tcp_slice(slice)->lane;

	if (!tei_tcp_is_quiet(slice))
		tei_tcp_zerocopy_hear(lane);
	if (tei_tcp_is_quiet(slice)) {
		tei_tcp_slice_end(slice, err, err ? 0 : slice->length);
		return;
	}
	if (err)
		leave_lane(lane, slice, true);
	tei_tcp_defer(slice, err);
}

/* What the peer will not answer, or has to be told of. */
static void withdraw(struct tcp_lane *lane, const struct tcp_slice *s)
{
	if (!s->id)
		lane->n_unanswered--; /* the peer never hears of it */
	else if (!s->sent)
		lane->abort_id = s->id;
}

void tei_tcp_slice_unmapped(struct tei_slice *slice)
{
	struct tcp_lane *lane = tcp_slice(slice)->lane;

	withdraw(lane, tcp_slice(slice));
	leave_lane(lane, slice, false);
	tei_list_del(&slice->link);
	lane->bytes_unanswered -= slice->length;
	refuse_slice(lane->rail, slice);
}

void tei_tcp_cancel(struct tei_endpoint *base, struct tei_slice *slice)
{
	struct tcp_slice *s = tcp_slice(slice);
	struct tcp_lane *lane = s->lane;

	if (!lane) { /* refused by post() */
		tei_list_del(&slice->link);
		tei_slice_done(slice, -ECANCELED, 0);
		return;
	}
	if (!tei_tcp_is_quiet(slice))
		tei_tcp_zerocopy_hear(lane);
	withdraw(lane, s);
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

int tei_tcp_flush(struct tei_endpoint *base, int err)
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
		tei_tcp_zerocopy_end(lane);
		end_all(&lane->sent_writes, err);
		end_all(&lane->sent_reads, err);
		end_all(&lane->writes, err);
		end_all(&lane->reads, err);
	}
	end_refused(base, err);
	return 0;
}

int tei_tcp_drop(struct tei_endpoint *base)
{
	struct tcp_endpoint *ep = tcp_endpoint(base);

	ep->dropped = true;
	tei_list_del(&ep->broken_link);
	close_lanes(ep);
	return 0;
}
