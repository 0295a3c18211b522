/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c - be read, and measure towards other peers when asked to */
#include "cmd/doctor/listen.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "cmd/doctor/order.h"

#define SET_LEN ((uint64_t)16 << 20)
#define OPEN_MS 5000

struct listener {
	const struct tei_engine_wish *wish;
	bool pairs;
	struct te_engine *engine;
	int signals;
};

/* ---- orders ---- */

/* Opens an engine for this order, which says which rails it may use. */
static void measure_order(const struct listener *l,
			  const struct tei_order *order,
			  struct tei_answer *answer)
{
	struct tei_engine_wish wish = *l->wish;
	const struct tei_peer_plan plan = {.time_ms = order->time_ms,
					   .write = true};
	struct tei_peer_visit visit;
	struct te_engine *engine;
	char error[256];
	int rc;

	wish.backends = order->backends;
	wish.insecure = false;
	rc = tei_engine_open(&wish, NULL, &engine, error);
	if (rc) {
		(void)snprintf(answer->failure, sizeof(answer->failure),
			       "no engine there: %.100s",
			       *error ? error : te_strerror(rc));
		return;
	}
	rc = tei_peer_visit(engine, order->to, &plan, &visit);
	if (rc)
		(void)snprintf(answer->failure, sizeof(answer->failure), "%s",
			       te_strerror(rc));
	else
		tei_answer_from_visit(&visit, answer);
	te_engine_destroy(engine);
}

/* The peer that asked may have gone meanwhile. */
static void send_answer(const struct listener *l, const char *to,
			const struct tei_answer *answer)
{
	char *text = tei_answer_encode(answer);
	te_segment_id segment;

	if (text && !te_segment_open(l->engine, to, OPEN_MS, &segment)) {
		(void)tei_engine_tell(l->engine, segment, text);
		te_segment_close(l->engine, segment);
	}
	free(text);
}

static void obey(const struct listener *l, const struct te_notify *notify)
{
	struct tei_answer answer = {0};
	struct tei_order order;

	if (!tei_order_decode(notify->bytes, notify->length, &order))
		return;
	answer.id = order.id;
	if (l->pairs)
		measure_order(l, &order, &answer);
	else
		(void)snprintf(answer.failure, sizeof(answer.failure),
			       "it listens without --pairs");
	send_answer(l, notify->from, &answer);
}

static int serve_orders(const struct listener *l)
{
	int fd = te_notify_eventfd(l->engine);
	struct pollfd fds[] = {{.fd = l->signals, .events = POLLIN},
			       {.fd = fd, .events = POLLIN}};
	struct te_notify notify;

	if (fd < 0)
		return fd;
	while (!(fds[0].revents & POLLIN)) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return -errno;
		if (te_notify_take(l->engine, &notify))
			continue;
		obey(l, &notify);
		te_notify_free(&notify);
	}
	return 0;
}

/* ---- memory ---- */

static int publish_address(const struct listener *l)
{
	struct te_region region = {.length = SET_LEN,
				   .access = TE_ACCESS_REMOTE_READ};
	te_region_id id;
	int rc = te_memory_alloc(l->engine, region.length, &region.addr);

	if (rc)
		return rc;
	memset(region.addr, 1, region.length); /* pages of its own */
	if (l->pairs) {
		region.access |= TE_ACCESS_REMOTE_WRITE;
		memcpy(region.addr, TEI_SCRATCH_MARK, sizeof(TEI_SCRATCH_MARK));
	}
	rc = te_region_add(l->engine, &region, &id);
	if (!rc) {
		/* Scripts wait for this line. */
		(void)printf("te-doctor listens as %s\n",
			     te_engine_name(l->engine));
		(void)fflush(stdout);
		rc = serve_orders(l);
		(void)te_region_remove(l->engine, id);
	}
	te_memory_free(l->engine, region.addr);
	return rc;
}

int tei_peer_listen(const struct tei_engine_wish *wish, const char *name,
		    bool pairs, char error[256])
{
	struct listener l = {.wish = wish, .pairs = pairs};
	sigset_t signals;
	int rc;

	*error = '\0';
	/* Before the engine's threads, which inherit it. */
	tei_end_signals_block(&signals);
	l.signals = signalfd(-1, &signals, SFD_CLOEXEC);
	if (l.signals < 0)
		return -errno;
	rc = tei_engine_open(wish, name, &l.engine, error);
	if (!rc) {
		rc = publish_address(&l);
		te_engine_destroy(l.engine);
	}
	close(l.signals);
	return rc;
}
