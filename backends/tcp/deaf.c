/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deaf.c - connections that the network has stopped carrying
 *
 * A firewall forgets a connection, one of several paths swallows what is sent
 * by it: new connections work, and this one would be tried for many minutes.
 * That is no slow peer. The kernel of one that is stopped, or does not read,
 * still acknowledges what comes and answers when it is asked; here nothing
 * comes at all, though it was sent or asked for again and again.
 *
 * Looked at are lanes with requests unanswered, and only when no answer has
 * come for a while.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "backends/tcp/tcp.h"
#include "base/clock.h"
#include "base/log.h"

#define UNHEARD_MIN 2 /* times that it was sent, or asked for, in vain */

static uint64_t answered(const struct tcp_lane *lane)
{
	return lane->n_requests - lane->n_unanswered;
}

static void begin(struct tcp_lane *lane, uint64_t now_ms)
{
	lane->quiet_ms = now_ms;
	lane->n_answered = answered(lane);
}

void tei_tcp_asking_add(struct tcp_lane *lane)
{
	if (!tei_list_empty(&lane->asking))
		return;
	begin(lane, tei_now_ms());
	tei_list_add_tail(&lane->rail->asking, &lane->asking);
	tei_tcp_tick_start(lane->rail);
}

static void probe(struct tcp_lane *lane, bool often)
{
	if (lane->probed == often)
		return;
	lane->probed = often;
	tei_tcp_keep(lane->fd, often);
}

/* The last packet may be older than the first unanswered request. */
static bool is_deaf(const struct tcp_lane *lane, uint64_t limit_ms)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(lane->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return false;
	return info.tcpi_last_ack_recv >= limit_ms &&
	       info.tcpi_last_data_recv >= limit_ms &&
	       (info.tcpi_retransmits >= UNHEARD_MIN ||
		info.tcpi_probes >= UNHEARD_MIN);
}

/* False: its endpoint is broken, and other lanes with it. */
static bool look(struct tcp_lane *lane, uint64_t now_ms)
{
	uint64_t most = tcp_config(lane->rail)->unresponsive_timeout;

	if (answered(lane) != lane->n_answered || !lane->n_unanswered)
		begin(lane, now_ms);
	probe(lane, now_ms - lane->quiet_ms >= most / 2);
	if (!lane->n_unanswered) {
		tei_list_del(&lane->asking);
		return true;
	}
	if (now_ms - lane->quiet_ms < most || !is_deaf(lane, most))
		return true;
	LOG_DEBUG("rail tcp/%s: the network carries a connection no more",
		  lane->rail->base->device.name);
	tei_tcp_lane_fail(lane, -ETIMEDOUT);
	return false;
}

void tei_tcp_asking_look(struct tcp_rail *rail, uint64_t now_ms)
{
	tei_list_for_each_safe (pos, tmp, &rail->asking) {
		if (!look(tei_list_entry(pos, struct tcp_lane, asking), now_ms))
			return;
	}
}
