/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosts.c - hosts of a scheme, which move bytes among themselves as they are
 * told
 */
#include "perf/te-perf/hosts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "perf/te-perf/memory.h"
#include "perf/te-perf/target.h"

#define ANSWER_MS 300000 /* touching a large working set takes a while */
#define HURRY_MS  10000
#define STOP_MS   30000
#define LOST_MS   1000 /* of one that is lost there is nothing to wait for */

static int lose_host(struct host *host, const char *why)
{
	if (!host->lost)
		fprintf(stderr, "te-perf: host %s: %s\n", host->name, why);
	host->lost = true;
	return -EIO;
}

/* ---- talking to them ---- */

static int say_line(struct host *host, const char *line)
{
	if (host->lost)
		return -EIO;
	if (tei_process_say(&host->process, line))
		return lose_host(host, "it has ended");
	return 0;
}

static bool begins_with(const char *line, const char *words)
{
	size_t len = strcspn(words, "|");

	if (!strncmp(line, words, len))
		return true;
	return words[len] && begins_with(line, words + len + 1);
}

/* For how long an answer is awaited from now on. */
static uint64_t patience_ms(const struct host *host)
{
	uint64_t now = tei_now_ns();

	if (host->deadline_ns == UINT64_MAX)
		return ANSWER_MS;
	return host->deadline_ns > now
		       ? (host->deadline_ns - now) / TEI_NS_PER_MS
		       : 0;
}

int host_misheard(struct host *host, const char *answer)
{
	char why[TEI_PROCESS_LINE + 80];

	snprintf(why, sizeof(why),
		 "its answer \"%s\" is not understood; is it a te-perf of this "
		 "version?",
		 answer);
	return lose_host(host, why);
}

int host_hear(struct host *host, const char *word,
	      char answer[TEI_PROCESS_LINE])
{
	int rc;

	if (host->lost)
		return -EIO;
	rc = tei_process_hear(&host->process, answer, patience_ms(host));
	if (rc == -EPIPE)
		return lose_host(host, "it has ended");
	if (rc)
		return lose_host(host, te_strerror(rc));
	tei_text_clean(answer); /* a terminal would obey what a peer says */
	if (begins_with(answer, word))
		return 0;
	if (strncmp(answer, "error ", 6) != 0)
		return host_misheard(host, answer);
	return lose_host(host, answer + 6);
}

void hosts_say(struct hosts *h, const char *line)
{
	for (uint32_t i = 0; i < h->n; i++)
		if (h->host[i].submits)
			(void)say_line(&h->host[i], line);
}

int hosts_ask(struct hosts *h, bool all, const char *line, const char *word)
{
	char answer[TEI_PROCESS_LINE];
	bool asked[HOSTS_MAX] = {0};
	int rc = 0;

	for (uint32_t i = 0; i < h->n; i++)
		asked[i] = (all || h->host[i].submits) &&
			   !say_line(&h->host[i], line);
	for (uint32_t i = 0; i < h->n; i++)
		if (asked[i] && host_hear(&h->host[i], word, answer))
			rc = -EIO;
	return hosts_lost(h) ? -EIO : rc;
}

bool hosts_lost(const struct hosts *h)
{
	for (uint32_t i = 0; i < h->n; i++)
		if (h->host[i].lost)
			return true;
	return false;
}

void hosts_hurry(struct hosts *h)
{
	uint64_t deadline = tei_now_ns() + HURRY_MS * TEI_NS_PER_MS;

	for (uint32_t i = 0; i < h->n; i++)
		h->host[i].deadline_ns = deadline;
}

uint64_t hosts_cpu_ns(struct hosts *h)
{
	char answer[TEI_PROCESS_LINE];
	uint64_t sum = 0, cpu, rss;

	for (uint32_t i = 0; i < h->n; i++)
		(void)say_line(&h->host[i], "usage");
	for (uint32_t i = 0; i < h->n; i++) {
		if (host_hear(&h->host[i], "usage ", answer))
			continue;
		if (sscanf(answer, "usage %" SCNu64 " %" SCNu64, &cpu, &rss) ==
		    2)
			sum += cpu;
		else
			(void)host_misheard(&h->host[i], answer);
	}
	return hosts_lost(h) ? 0 : sum;
}

/* ---- reaching them ---- */

/* @address: by which others reach it; NULL: on this host only. */
static int start_process(struct hosts *h, struct host *host, char *address)
{
	struct options with_host = *h->options;
	struct role_args args;
	int rc;

	with_host.host = address;
	rc = role_args(&args, &with_host, "target");
	if (!rc)
		rc = tei_process_start_helper(&host->process, "target",
					      args.argv, -1);
	return rc ? lose_host(host, te_strerror(rc)) : 0;
}

static int reach_host(struct host *host, char own[TEI_HOST_LEN_MAX + 1])
{
	struct tei_address at;
	int rc = target_connect(host->name, &host->process, &at, own);

	if (rc == -EINVAL) {
		host->lost = true;
		return rc;
	}
	return rc ? lose_host(host, te_strerror(rc)) : 0;
}

/* Asks for memory at once, as a listener hangs up on who says nothing. */
static int say_open(const struct hosts *h, struct host *host)
{
	char line[64 + LOCATIONS_LEN], locations[LOCATIONS_LEN];

	locations_text(&h->options->theirs, locations);
	snprintf(line, sizeof(line), "open %" PRIu64 " %d %s",
		 h->options->walked + PROBE_ROOM, h->options->foreign,
		 locations);
	return say_line(host, line);
}

/*
 * Reaches the target and starts a process for this side: --bidirectional alone.
 */
static int reach_two(struct hosts *h)
{
	struct host *us = &h->host[0], *target = &h->host[1];
	char own[TEI_HOST_LEN_MAX + 1];
	char *connect = h->options->connect;
	int rc;

	snprintf(us->name, sizeof(us->name), "initiator");
	snprintf(target->name, sizeof(target->name), "%s",
		 connect ? connect : "target");
	h->n = 2;
	rc = connect ? reach_host(target, own) : start_process(h, target, NULL);
	if (!rc)
		rc = say_open(h, target);
	if (!rc)
		rc = start_process(h, us, connect ? own : NULL);
	return rc ? rc : say_open(h, us);
}

static int reach_list(struct hosts *h)
{
	char own[TEI_HOST_LEN_MAX + 1];
	const char *at = h->options->connect;
	int rc = 0;

	for (; !rc && h->n < h->options->n_hosts; at += strcspn(at, ",") + 1) {
		struct host *host = &h->host[h->n++];

		if (strcspn(at, ",") >= sizeof(host->name))
			return -EINVAL;
		snprintf(host->name, sizeof(host->name), "%.*s",
			 (int)strcspn(at, ","), at);
		rc = reach_host(host, own);
		if (!rc)
			rc = say_open(h, host);
	}
	return rc;
}

static int start_processes(struct hosts *h)
{
	int rc = 0;

	while (!rc && h->n < h->options->n_hosts) {
		struct host *host = &h->host[h->n++];

		snprintf(host->name, sizeof(host->name), "process %u", h->n);
		rc = start_process(h, host, NULL);
		if (!rc)
			rc = say_open(h, host);
	}
	return rc;
}

/* ---- pairs ---- */

static int hear_ready(struct hosts *h)
{
	char answer[TEI_PROCESS_LINE];
	int rc = 0;

	for (uint32_t i = 0; i < h->n; i++) {
		if (host_hear(&h->host[i], "ready ", answer))
			rc = -EIO;
		else
			snprintf(h->host[i].engine, sizeof(h->host[i].engine),
				 "%s", answer + 6);
	}
	return rc;
}

static int set_up_pair(struct hosts *h, const struct pair *p)
{
	const struct options *o = h->options;
	char line[2 * TEI_PROCESS_LINE], answer[TEI_PROCESS_LINE];
	char locations[LOCATIONS_LEN];
	struct host *from = &h->host[p->from];
	int len, rc;

	locations_text(&o->theirs, locations);
	len = snprintf(line, sizeof(line), "pair %s %u %u %u %" PRIu64 " %s",
		       h->host[p->to].engine, p->in, p->out, o->pairs.shares,
		       o->walked, locations);
	if (len >= TEI_PROCESS_LINE - 1)
		return lose_host(from, "the list of locations is too long");
	from->submits = true;
	rc = say_line(from, line);
	return rc ? rc : host_hear(from, "pair", answer);
}

/* After the pairs, so that memory of our own is none that others find. */
static int open_local(struct hosts *h)
{
	const struct options *o = h->options;
	char line[64 + LOCATIONS_LEN], locations[LOCATIONS_LEN];

	locations_text(&o->ours, locations);
	snprintf(line, sizeof(line), "local %" PRIu64 " %d %s", o->walked,
		 o->foreign, locations);
	return hosts_ask(h, false, line, "local");
}

int hosts_open(struct hosts *h, const struct options *o)
{
	int rc;

	*h = (struct hosts){.options = o};
	for (uint32_t i = 0; i < HOSTS_MAX; i++) {
		h->host[i].process = TEI_PROCESS_NONE;
		h->host[i].deadline_ns = UINT64_MAX;
	}
	if (!strcmp(o->scheme, "none"))
		rc = reach_two(h);
	else
		rc = o->connect ? reach_list(h) : start_processes(h);
	if (!rc)
		rc = hear_ready(h);
	for (uint32_t i = 0; !rc && i < o->pairs.n; i++)
		rc = set_up_pair(h, &o->pairs.pair[i]);
	return rc ? rc : open_local(h);
}

int hosts_close(struct hosts *h)
{
	int rc = 0;

	for (uint32_t i = 0; i < h->n; i++) {
		struct host *host = &h->host[i];

		if (tei_process_stop(&host->process,
				     host->lost ? LOST_MS : STOP_MS) &&
		    !host->lost)
			rc = -EIO;
	}
	h->n = 0;
	return rc;
}
