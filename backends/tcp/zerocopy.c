/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zerocopy.c - payload that the kernel sends from where it lies
 *
 * Only what an initiator writes: its slices can wait until the kernel is
 * through, while a target would have to keep regions pinned for as long as a
 * peer likes. Headers are sent by a call of their own ahead of such payload,
 * for they are built where the next ones will be.
 *
 * Lent memory is not quiet: while the kernel may have to send it again, a new
 * content would go out in place of the old. So a slice that the peer has
 * answered is held back until the kernel says it is through; mostly it has
 * said so by then. A slice that must end at once, as by cancel(), breaks its
 * connection: the kernel then forgets what it had to send. What has left the
 * socket already may lie in a queue below it, with our memory in it, and is
 * sent all the same; so the notice is waited for, which comes after that.
 */
#include "backends/tcp/tcp.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define LENT_MAX   64 /* calls; as many as tcp_zerocopy.over has bits */
#define COPIED_MAX 32 /* then it costs more than it gives */
#define RECALL_MS  10 /* longer than a queue should be; nobody else moves */

void tei_tcp_zerocopy_open(struct tcp_lane *lane)
{
	struct tcp_zerocopy *z;
	int on = 1;

	if (!tcp_config(lane->rail)->zerocopy ||
	    setsockopt(lane->fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)))
		return;
	z = tei_calloc(1, sizeof(*z));
	if (!z)
		return; /* it only tunes */
	tei_list_init(&z->deferred);
	tei_list_init(&z->of_rail);
	lane->zerocopy = z;
}

/* ---- lending ---- */

bool tei_tcp_may_lend(const struct tcp_lane *lane,
		      const struct tcp_burst *burst)
{
	const struct tcp_zerocopy *z = lane->zerocopy;
	uint64_t bytes = 0;

	if (!z || lane->n_orphans || z->n_copied >= COPIED_MAX ||
	    z->next - z->upto >= LENT_MAX)
		return false;
	for (uint32_t i = burst->at; i < burst->n; i++)
		bytes += burst->payload[i].left;
	return bytes >= tcp_config(lane->rail)->zerocopy;
}

ssize_t tei_tcp_lend(struct tcp_lane *lane, const struct msghdr *msg)
{
	struct tcp_zerocopy *z = lane->zerocopy;
	int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
	ssize_t n;

	n = sendmsg(lane->fd, msg, flags | MSG_ZEROCOPY);
	if (n < 0 && errno == ENOBUFS) /* of its own book-keeping */
		return sendmsg(lane->fd, msg, flags);
	if (n > 0) {
		z->next++;
		z->sending = true;
	}
	return n;
}

/* ---- what the kernel says ---- */

static void through(struct tcp_zerocopy *z, const struct sock_extended_err *e)
{
	uint32_t n = e->ee_data - e->ee_info + 1;
	uint32_t id = e->ee_info;

	if (e->ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
		z->n_copied++;
	else
		z->n_copied = 0;
	for (; n && id - z->upto < LENT_MAX; n--, id++)
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
				through(z, e);
		}
	}
}

void tei_tcp_zerocopy_hear(struct tcp_lane *lane)
{
	struct tcp_zerocopy *z = lane->zerocopy;
	union {
		char bytes[256];
		struct cmsghdr align;
	} control;
	ssize_t n = 0;

	while (z && z->next != z->upto && n >= 0 && lane->fd >= 0) {
		struct msghdr msg = {.msg_control = &control,
				     .msg_controllen = sizeof(control)};

		n = recvmsg(lane->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT);
		if (n >= 0)
			read_notice(z, &msg);
	}
}

bool tei_tcp_is_quiet(const struct tei_slice *slice)
{
	const struct tcp_slice *s = tcp_slice(slice);
	const struct tcp_lane *lane = s->lane;

	return !s->lent || lane->fd < 0 ||
	       (int32_t)(s->lent_by - lane->zerocopy->upto) < 0;
}

/* ---- held back ---- */

void tei_tcp_defer(struct tei_slice *slice, int err)
{
	struct tcp_slice *s = tcp_slice(slice);
	struct tcp_zerocopy *z = s->lane->zerocopy;

	s->over = err;
	s->sent = true; /* nothing more is to be told about it */
	tei_list_del(&slice->link);
	tei_list_add_tail(&z->deferred, &slice->link);
	if (tei_list_empty(&z->of_rail))
		tei_list_add_tail(&s->lane->rail->deferring, &z->of_rail);
}

/* Those that are quiet, in the order in which they were answered. */
static int release(struct tcp_zerocopy *z)
{
	int n = 0;

	while (!tei_list_empty(&z->deferred)) {
		struct tei_slice *slice = tei_list_entry(
			z->deferred.next, struct tei_slice, link);
		int err = tcp_slice(slice)->over;

		if (!tei_tcp_is_quiet(slice))
			return n;
		tei_tcp_slice_end(slice, err, err ? 0 : slice->length);
		n++;
	}
	tei_list_del(&z->of_rail);
	return n;
}

static struct tcp_lane *lane_of(const struct tcp_zerocopy *z)
{
	const struct tei_slice *first =
		tei_list_entry(z->deferred.next, struct tei_slice, link);

	return tcp_slice(first)->lane;
}

int tei_tcp_zerocopy_release(struct tcp_rail *rail)
{
	int n = 0;

	tei_list_for_each_safe (pos, tmp, &rail->deferring) {
		struct tcp_zerocopy *z =
			tei_list_entry(pos, struct tcp_zerocopy, of_rail);

		if (!tei_list_empty(&z->deferred))
			tei_tcp_zerocopy_hear(lane_of(z));
		n += release(z);
	}
	return n;
}

void tei_tcp_zerocopy_end(struct tcp_lane *lane)
{
	if (lane->zerocopy)
		release(lane->zerocopy);
}

/* Mostly there at once. poll() of the socket would not wait: it has hung up. */
static void await_notices(struct tcp_lane *lane)
{
	const struct tcp_zerocopy *z = lane->zerocopy;
	uint64_t until = tei_now_ms() + RECALL_MS;

	tei_tcp_zerocopy_hear(lane);
	while (z->next != z->upto && tei_now_ms() < until) {
		(void)poll(NULL, 0, 1);
		tei_tcp_zerocopy_hear(lane);
	}
	if (z->next != z->upto)
		LOG_WARN("rail tcp/%s: packets of a request that is over still "
			 "wait to be sent, with what its memory holds then",
			 lane->rail->base->device.name);
}

void tei_tcp_zerocopy_recall(struct tcp_lane *lane)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	const struct tcp_zerocopy *z = lane->zerocopy;

	tei_tcp_zerocopy_hear(lane);
	if (!z || z->next == z->upto)
		return;
	/* Even where a forked child has the socket, too. */
	(void)connect(lane->fd, &nobody, sizeof(nobody));
	await_notices(lane);
}
