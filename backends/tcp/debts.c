/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backlog.c - what a target owes on a lane: answers, and data for READs
 *
 * Two rings of TCP_WINDOW places, which together bound what a peer may have
 * unanswered. Neighbouring ids that end alike share one answer.
 */
#include "backends/tcp/tcp.h"

struct tcp_answer *answer_at(struct tcp_backlog *d, uint32_t i)
{
	return &d->answers[(d->first_answer + i) % TCP_WINDOW];
}

struct tcp_served *read_at(struct tcp_backlog *d, uint32_t i)
{
	return &d->reads[(d->first_read + i) % TCP_WINDOW];
}

static bool is_full(const struct tcp_backlog *d)
{
	return d->n_ids + d->n_reads >= TCP_WINDOW;
}

bool tei_tcp_backlog_answer(struct tcp_lane *lane, uint64_t id, int err)
{
	struct tcp_backlog *d = lane->backlog;
	uint16_t status = (uint16_t)tei_status_from_errno(err);
	struct tcp_answer *last;

	if (is_full(d))
		return false;
	d->n_ids++;
	if (d->n_answers) {
		last = answer_at(d, d->n_answers - 1);
		if (last->status == status && last->id + last->count == id) {
			last->count++;
			return true;
		}
	}
	*answer_at(d, d->n_answers++) =
		(struct tcp_answer){.id = id, .count = 1, .status = status};
	return true;
}

void answers_sent(struct tcp_backlog *d, uint32_t n)
{
	for (; n; n--) {
		d->n_ids -= answer_at(d, 0)->count;
		d->first_answer = (d->first_answer + 1) % TCP_WINDOW;
		d->n_answers--;
	}
}

bool tei_tcp_backlog_read(struct tcp_lane *lane, const struct tcp_frame *ask)
{
	struct tcp_backlog *d = lane->backlog;

	if (is_full(d))
		return false;
	*read_at(d, d->n_reads++) = (struct tcp_served){
		.id = ask->id,
		.key = ask->key,
		.address = ask->address,
		.length = ask->length,
	};
	return true;
}

static void pop_read(struct tcp_backlog *d)
{
	d->first_read = (d->first_read + 1) % TCP_WINDOW;
	d->n_reads--;
}

void read_sent(struct tcp_backlog *d, uint64_t length)
{
	struct tcp_served *served = read_at(d, 0);

	served->sent += length;
	if (served->sent == served->length)
		pop_read(d);
}

void answer_refused_reads(struct tcp_lane *lane)
{
	struct tcp_backlog *d = lane->backlog;

	while (d && d->n_reads && read_at(d, 0)->err) {
		struct tcp_served served = *read_at(d, 0);

		pop_read(d);
		lane->rail->base->refused_slices++;
		(void)tei_tcp_backlog_answer(lane, served.id, served.err);
	}
}
