/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zerocopy.c - payload that the kernel sends from where it lies
 *
 * Only bursts for which that takes less time than a copy does here, as both are
 * timed by turns, for each size: to pin pages and to be told of them costs more
 * than to copy a little.
 *
 * Only what an initiator writes: its slices can wait until the kernel is
 * through, while a target would have to keep regions pinned for as long as a
 * peer likes. Headers are sent by a call of their own ahead of such payload,
 * for they are built where the next ones will be (send.c).
 *
 * Lent memory is not quiet: while the kernel may have to send it again, a new
 * content would go out in place of the old. So the end of a slice that the peer
 * has answered is deferred until the kernel says it is through; mostly it has
 * said so by then. A slice that must end at once, as by cancel(), breaks its
 * connection: the kernel then forgets what it had to send. Packets that have
 * left the socket already may lie in a queue below it, with our memory in them,
 * and are sent all the same; so the notice is waited for, which comes after
 * that.
 */
#include "backends/tcp/tcp.h"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"

#define RECALL_MS  10 /* longer than a queue should be; nobody else moves */
#define COPIED_MAX 32 /* in a row: then lending costs more than it gives */
#define LENT_LEAST ((uint64_t)32 << 10) /* twice that: the second size */
#define LENT_ITEM  4096u                /* bytes of which times are compared */

/* ---- what is lent ---- */

uint64_t tei_tcp_lendable(const struct tcp_lane *lane,
			  const struct tcp_burst *burst)
{
	const struct tcp_zerocopy *z = lane->zerocopy;
	uint64_t bytes = 0;

	if (!z || lane->n_owed || z->n_copied >= COPIED_MAX ||
	    z->next - z->upto >= TCP_LENT_MAX)
		return 0;
	for (uint32_t i = burst->at; i < burst->n; i++) {
		if (burst->payload[i].stream == TCP_STREAM_FETCHED)
			return 0;
		bytes += burst->payload[i].left;
	}
	return bytes >= tcp_config(lane->rail)->zerocopy ? bytes : 0;
}

/* Returns the rail's comparison of bursts of about so many bytes. */
static struct tei_faster *lending_of(struct tcp_lane *lane, uint64_t bytes)
{
	uint32_t i = 0;

	while (i + 1 < TCP_LENT_SIZES && bytes >= LENT_LEAST << (i + 1))
		i++;
	return &lane->rail->lending[i];
}

bool tei_tcp_choose_lending(struct tcp_lane *lane, struct tcp_plan *p)
{
	p->lendable = tei_tcp_lendable(lane, &p->burst);
	if (!p->lendable)
		return false;
	lane->zerocopy->chosen =
		tei_faster_second(lending_of(lane, p->lendable));
	return lane->zerocopy->chosen;
}

void tei_tcp_lending_learn(struct tcp_lane *lane, uint64_t burst, uint64_t sent,
			   uint64_t ns)
{
	struct tcp_zerocopy *z = lane->zerocopy;

	if (z->chosen) {
		ns += z->notices_ns;
		z->notices_ns = 0;
	}
	tei_faster_learn(lending_of(lane, burst), z->chosen, sent / LENT_ITEM,
			 sent, ns);
}

/* ---- the kernel's notices ---- */

/* The kernel is through with the calls that @e numbers. */
static void note_calls_over(struct tcp_zerocopy *z,
			    const struct sock_extended_err *e)
{
	uint32_t n = e->ee_data - e->ee_info + 1;
	uint32_t id = e->ee_info;

	if (e->ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
		z->n_copied++;
	else
		z->n_copied = 0;
	for (; n && id - z->upto < TCP_LENT_MAX; n--, id++)
		z->over |= (uint64_t)1 << (id - z->upto);
	while (z->over & 1) {
		z->over >>= 1;
		z->upto++;
	}
}

static void read_notice(struct tcp_zerocopy *z, struct msghdr *msg)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		const struct sock_extended_err *e = (void *)CMSG_DATA(c);

		if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
		    (c->cmsg_level == SOL_IPV6 &&
		     c->cmsg_type == IPV6_RECVERR)) {
			if (e->ee_origin == SO_EE_ORIGIN_ZEROCOPY)
				note_calls_over(z, e);
		}
	}
}

/* Read from the socket what the kernel is through with. */
static void read_notices(struct tcp_lane *lane)
{
	struct tcp_zerocopy *z = lane->zerocopy;
	union {
		char bytes[256];
		struct cmsghdr align;
	} control;
	ssize_t n = 0;
	uint64_t from;

	if (!z || z->next == z->upto)
		return;
	from = tei_now_ns();
	while (z->next != z->upto && n >= 0 && lane->fd >= 0) {
		struct msghdr msg = {.msg_control = &control,
				     .msg_controllen = sizeof(control)};

		n = recvmsg(lane->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT);
		if (n >= 0)
			read_notice(z, &msg);
	}
	z->notices_ns += tei_now_ns() - from;
}

static bool is_through(const struct tcp_slice *s)
{
	return !s->lent || s->lane->fd < 0 ||
	       (int32_t)(s->lent_by - s->lane->zerocopy->upto) < 0;
}

bool tei_tcp_is_quiet(const struct tei_slice *slice)
{
	const struct tcp_slice *s = tcp_slice(slice);

	if (is_through(s))
		return true;
	read_notices(s->lane);
	return is_through(s);
}

/* ---- deferred ends ---- */

void tei_tcp_defer(struct tei_slice *slice, int err)
{
	struct tcp_slice *s = tcp_slice(slice);
	struct tcp_lane *lane = s->lane;

	s->over = err;
	s->sent = true; /* nothing more is to be announced of it */
	tei_list_del(&slice->link);
	tei_list_add_tail(&lane->zerocopy->deferred, &slice->link);
	if (tei_list_empty(&lane->deferring))
		tei_list_add_tail(&lane->rail->deferring, &lane->deferring);
}

int tei_tcp_deferred_end(struct tcp_lane *lane)
{
	struct tei_list *deferred;
	int n = 0;

	if (!lane->zerocopy)
		return 0;
	read_notices(lane);
	deferred = &lane->zerocopy->deferred;
	while (!tei_list_empty(deferred)) {
		struct tei_slice *slice =
			tei_list_entry(deferred->next, struct tei_slice, link);

		if (!is_through(tcp_slice(slice)))
			return n;
		tei_tcp_slice_answered(slice, tcp_slice(slice)->over);
		n++;
	}
	tei_list_del(&lane->deferring);
	return n;
}

/* ---- closing ---- */

/*
 * Notices mostly are there at once. poll() of the socket would not wait, for it
 * has hung up.
 */
static void await_notices(struct tcp_lane *lane)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	const struct tcp_zerocopy *z = lane->zerocopy;
	uint64_t until = tei_now_ms() + RECALL_MS;

	read_notices(lane);
	while (z->next != z->upto && tei_now_ms() < until) {
		(void)poll(NULL, 0, 1);
		read_notices(lane);
	}
	if (z->next != z->upto && tei_log_allowed(&limit))
		LOG_WARN("rail tcp/%s: zero-copy packets of an ended request "
			 "are still queued: they carry what its memory holds "
			 "when they are sent",
			 lane->rail->base->device.name);
}

void tei_tcp_zerocopy_recall(struct tcp_lane *lane)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	const struct tcp_zerocopy *z = lane->zerocopy;

	read_notices(lane);
	if (!z || z->next == z->upto)
		return;
	/* This works even where a forked child has the socket, too. */
	(void)connect(lane->fd, &nobody, sizeof(nobody));
	await_notices(lane);
}
