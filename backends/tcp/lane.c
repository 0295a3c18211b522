/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane.c - lanes: made, watched, closed and freed
 *
 * Closing and destroying a lane are apart because an epoll event may still
 * point to a closed one.
 */
#include "backends/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

void tei_tcp_lane_watch_time(struct tcp_lane *lane)
{
	if (!tei_list_empty(&lane->timed))
		return;
	tei_list_add_tail(&lane->rail->timed, &lane->timed);
	tei_tcp_timer_start(lane->rail);
}

void tei_tcp_lane_owes(struct tcp_lane *lane)
{
	if (lane->n_owed++)
		return;
	lane->stalled_ms = tei_now_ms();
	tei_tcp_lane_watch_time(lane);
}

struct tcp_lane *tei_tcp_lane_create(struct tcp_rail *rail, int fd,
				     enum tcp_lane_state state)
{
	struct tcp_lane *lane;

	lane = tei_calloc(1, sizeof(*lane));
	if (!lane)
		goto close_fd;
	lane->source.kind = TCP_SOURCE_LANE;
	lane->state = state;
	lane->fd = fd;
	lane->rail = rail;
	lane->next_id = 1;
	tei_list_init(&lane->dead);
	tei_list_init(&lane->timed);
	tei_list_init(&lane->reads);
	tei_list_init(&lane->writes);
	tei_list_init(&lane->sent_reads);
	tei_list_init(&lane->sent_writes);
	tei_list_init(&lane->deferring);
	tei_list_init(&lane->copied_writes);
	tei_list_init(&lane->fetches);
	tei_list_init(&lane->due);
	tei_list_init(&lane->awaiting_room);
	lane->interest = EPOLLIN;
	if (state == TCP_LANE_CONNECTING)
		lane->interest |= EPOLLOUT;
	if (tei_tcp_watch(rail, fd, &lane->source, lane->interest) < 0)
		goto free_lane;
	lane->deadline_ms = tei_now_ms() + tcp_config(rail)->connect_timeout;
	rail->n_opening++;
	tei_tcp_lane_watch_time(lane);
	return lane;

free_lane:
	tei_free(lane);
close_fd:
	close(fd);
	return NULL;
}

void tei_tcp_lane_opened(struct tcp_lane *lane)
{
	if (!lane->deadline_ms)
		return;
	lane->deadline_ms = 0;
	lane->rail->n_opening--;
	tei_list_del(&lane->timed);
}

/* The memory stays until tei_tcp_lane_destroy(). */
static void close_lane(struct tcp_lane *lane)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};
	struct tcp_rail *rail = lane->rail;

	if (lane->fd < 0)
		return;
	tei_tcp_lane_opened(lane);
	tei_list_del(&lane->timed);
	for (int i = 0; i < TCP_POLLED_MAX; i++) {
		if (rail->polled[i] == lane)
			rail->polled[i] = NULL;
	}
	/* Bytes of unanswered requests that the kernel still has are void. */
	if (lane->n_unanswered)
		(void)setsockopt(lane->fd, SOL_SOCKET, SO_LINGER, &now,
				 sizeof(now));
	/*
	 * A child that has just been forked has the socket too: until it execs,
	 * close() neither ends the connection nor takes it out of epoll.
	 */
	(void)epoll_ctl(rail->epoll_fd, EPOLL_CTL_DEL, lane->fd, NULL);
	tei_tcp_zerocopy_recall(lane);
	(void)shutdown(lane->fd, SHUT_RDWR);
	close(lane->fd);
	lane->fd = -1;
	lane->state = TCP_LANE_CLOSED;
}

/* Frees a lane that no epoll event points to any more. */
static void free_lane(struct tcp_lane *lane)
{
	struct tcp_burst *out = lane->out;

	for (uint32_t i = out ? out->at : 0; out && i < out->n; i++) {
		if (out->payload[i].stream == TCP_STREAM_ORPHAN)
			tei_free(out->payload[i].copy);
		else if (out->payload[i].stream == TCP_STREAM_FETCHED)
			tei_tcp_fetch_sent(out->payload[i].fetch);
	}
	tei_tcp_copied_free(lane);
	tei_free(lane->out);
	tei_free(lane->in);
	tei_free(lane->headers);
	tei_free(lane->backlog);
	tei_free(lane->zerocopy);
	tei_free(lane);
}

void tei_tcp_lane_destroy(struct tcp_lane *lane)
{
	close_lane(lane);
	assert(tei_list_empty(&lane->reads) && tei_list_empty(&lane->writes));
	assert(tei_list_empty(&lane->sent_reads) &&
	       tei_list_empty(&lane->sent_writes));
	if (lane->rail->in_progress)
		tei_list_add_tail(&lane->rail->dead, &lane->dead);
	else
		free_lane(lane);
}

void tei_tcp_lanes_free(struct tcp_rail *rail)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&rail->dead)))
		free_lane(tei_list_entry(node, struct tcp_lane, dead));
}

void tei_tcp_lanes_close(struct tcp_endpoint *ep)
{
	for (uint32_t i = 0; i < TCP_LANES_MAX; i++) {
		if (ep->lanes[i])
			close_lane(ep->lanes[i]);
	}
	tei_list_del(&ep->waiting);
}

void tei_tcp_endpoint_break(struct tcp_endpoint *ep, int err)
{
	struct tcp_rail *rail = tcp_rail(ep->base->rail);

	tei_tcp_lanes_close(ep);
	if (ep->broken || ep->dropped)
		return;
	ep->broken = err;
	tei_list_add_tail(&rail->broken, &ep->broken_link);
	tei_tcp_signal(rail);
}

void tei_tcp_lane_fail(struct tcp_lane *lane, int err)
{
	if (lane->ep)
		tei_tcp_endpoint_break(lane->ep, err);
	else
		tei_tcp_lane_destroy(lane);
}

void tei_tcp_lane_bad(struct tcp_lane *lane, const char *what)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	lane->rail->base->bad_frames++;
	if (tei_log_allowed(&limit))
		LOG_INFO("rail tcp/%s: %s: connection closed",
			 lane->rail->base->device.name, what);
	tei_tcp_lane_fail(lane, -EPROTO);
}

void tei_tcp_lane_watch(struct tcp_lane *lane, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = &lane->source};

	if (lane->interest == events)
		return;
	lane->interest = events;
	if (epoll_ctl(lane->rail->epoll_fd, EPOLL_CTL_MOD, lane->fd, &ev) < 0)
		tei_tcp_lane_fail(lane, -errno);
}
