/* SPDX-License-Identifier: Apache-2.0 */
/* peer_judge.c - which backend a peer is reached by, why, and whether that is well */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/doctor/peer.h"

static const struct tei_rule reach = {
	"peer.reach", "an engine that answers under this name",
	"is it running, is its port open to us (firewall), does it serve other "
	"hosts (setting insecure)"};
static const struct tei_rule backend = {
	"peer.backend", "the backend that is best for this peer",
	"rails that are down: see the other findings of te-doctor here and at "
	"the peer; setting backends"};
static const struct tei_rule rails = {
	"peer.rails", "bytes by each rail of that backend",
	"te-topo shows which NICs are near the memory; each rail needs a "
	"network that the peer is in, too"};
static const struct tei_rule way = {
	"peer.way",
	"the addresses and packet sizes that were meant, at both ends",
	"the smaller MTU of the two ends holds: ip link set INTERFACE mtu 9000 "
	"there, too; another address: settings tcp.devices, verbs.gid_index"};
static const struct tei_rule rate = {
	"peer.rate", "half of what its rails can, or more",
	"te-perf --reference says what the bare system does; MTU, congestion, "
	"PCIe and NUMA findings here and at the peer"};

static uint64_t carried_by(const struct tei_peer_visit *v, const char *name)
{
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < v->n_rails; i++)
		if (!strcmp(v->rails[i].backend, name))
			bytes += v->rails[i].bytes + v->rails[i].written;
	return bytes;
}

const char *tei_peer_carrier(const struct tei_peer_visit *v)
{
	const char *best = NULL;
	uint64_t most = 0, bytes;
	size_t i;

	for (i = 0; i < v->n_rails; i++) {
		bytes = carried_by(v, v->rails[i].backend);
		if (bytes > most) {
			most = bytes;
			best = v->rails[i].backend;
		}
	}
	return best;
}

static bool is_first_of_backend(const struct tei_peer_visit *v, size_t at)
{
	size_t i;

	for (i = 0; i < at; i++)
		if (!strcmp(v->rails[i].backend, v->rails[at].backend))
			return false;
	return true;
}

/* The rail of a backend that has come farthest; @first is its first one. */
static const struct tei_peer_rail *nearest(const struct tei_peer_visit *v,
					   size_t first)
{
	static const unsigned char steps[] = {
		[TE_LINK_ABSENT] = 0,  [TE_LINK_APART] = 1,
		[TE_LINK_PAUSED] = 2,  [TE_LINK_NONE] = 3,
		[TE_LINK_OPENING] = 4, [TE_LINK_UP] = 5};
	const struct tei_peer_rail *best = &v->rails[first];
	size_t i;

	for (i = first + 1; i < v->n_rails; i++) {
		const struct tei_peer_rail *rail = &v->rails[i];

		if (!strcmp(rail->backend, best->backend) &&
		    (best->state == TE_RAIL_DOWN ||
		     (rail->state != TE_RAIL_DOWN &&
		      steps[rail->link] > steps[best->link])))
			best = rail;
	}
	return best;
}

static void refusal(const struct tei_peer_rail *rail, char *out, size_t room)
{
	if (rail->state == TE_RAIL_DOWN)
		(void)snprintf(out, room, "whose rails are down");
	else if (rail->link == TE_LINK_ABSENT)
		(void)snprintf(out, room, "which the peer does not have");
	else if (rail->link == TE_LINK_APART)
		(void)snprintf(out, room, "which reaches none of the peer's");
	else if (rail->error && rail->link != TE_LINK_UP)
		(void)snprintf(out, room, "which failed: %s",
			       te_strerror(rail->error));
	else
		(void)snprintf(out, room, "which does not reach its memory");
}

void tei_peer_why(const struct tei_peer_visit *v, const char *chosen, char *out,
		  size_t room)
{
	size_t i, len = 0;
	char text[96];

	*out = '\0';
	for (i = 0; i < v->n_rails && len < room; i++) {
		if (!strcmp(v->rails[i].backend, chosen))
			break;
		/* The backend loop reaches nobody else, and need not. */
		if (!is_first_of_backend(v, i) ||
		    !strcmp(v->rails[i].backend, "loop"))
			continue;
		refusal(nearest(v, i), text, sizeof(text));
		len += (size_t)snprintf(out + len, room - len,
					"; before it %s, %s",
					v->rails[i].backend, text);
	}
	if (!len)
		(void)snprintf(out, room, "; the first choice of this engine");
}

/* Where the engine has no rail of it at all, nothing else says why. */
static bool has_verbs(const struct tei_peer_visit *v)
{
	size_t i;

	for (i = 0; i < v->n_rails; i++)
		if (!strcmp(v->rails[i].backend, "verbs"))
			return true;
	return false;
}

static void judge_backend(const struct tei_peer_visit *v, const char *chosen,
			  struct tei_report *r)
{
	bool slow = v->has_rdma && !strcmp(chosen, "tcp");
	char why[128];

	tei_peer_why(v, chosen, why, sizeof(why));
	tei_report_add(
		r, slow ? TEI_MARK_WARN : TEI_MARK_OK, &backend, v->name,
		"%s%s%s%s", chosen, why, slow ? "; this host has RDMA" : "",
		slow && !has_verbs(v) ? ", this engine no rail of verbs" : "");
}

static void judge_rails(const struct tei_peer_visit *v, const char *chosen,
			struct tei_report *r)
{
	uint64_t sum = carried_by(v, chosen);
	enum tei_mark mark = TEI_MARK_OK;
	char text[160] = "";
	size_t i, len = 0;

	for (i = 0; i < v->n_rails && len < sizeof(text); i++) {
		const struct tei_peer_rail *rail = &v->rails[i];

		if (strcmp(rail->backend, chosen) != 0)
			continue;
		if (!rail->bytes && rail->state == TE_RAIL_UP)
			mark = TEI_MARK_WARN;
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s%s %.0f %% (%s)", len ? ", " : "",
					rail->name,
					100 * (double)rail->bytes / (double)sum,
					te_rail_state_name(rail->state));
	}
	tei_report_add(r, mark, &rails, v->name, "%s", text);
}

/* "..., MTU 1024 (4096 here, 1024 there), ..." of verbs: one end could do more. */
static bool is_uneven(const char *text)
{
	const char *mtu = strstr(text, "MTU ");
	unsigned int holds, here, there;

	return mtu &&
	       sscanf(mtu, "MTU %u (%u here, %u there)", &holds, &here,
		      &there) == 3 &&
	       here != there;
}

static void judge_ways(const struct tei_peer_visit *v, struct tei_report *r)
{
	size_t i;

	for (i = 0; i < v->n_rails; i++) {
		const struct tei_peer_rail *rail = &v->rails[i];

		if (*rail->way)
			tei_report_add(r,
				       is_uneven(rail->way) ? TEI_MARK_WARN
							    : TEI_MARK_OK,
				       &way, v->name, "%s: %s", rail->name,
				       rail->way);
	}
}

/* Bits a second of all rails that have carried; 0: not known of each. */
static uint64_t speed_of(const struct tei_peer_visit *v)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < v->n_rails; i++) {
		if (!v->rails[i].bytes)
			continue;
		if (!v->rails[i].speed_bps)
			return 0;
		sum += v->rails[i].speed_bps;
	}
	return sum;
}

static void judge_rate(const struct tei_peer_visit *v, struct tei_report *r)
{
	double bps = v->read.ns
			     ? (double)v->read.bytes * 8e9 / (double)v->read.ns
			     : 0;
	double speed = (double)speed_of(v);
	char of[48] = "";

	if (speed > 0)
		(void)snprintf(of, sizeof(of), " of %.4g", speed / 1e9);
	tei_report_add(r, bps < speed / 2 ? TEI_MARK_WARN : TEI_MARK_OK, &rate,
		       v->name, "%.3g%s Gbit/s, %.4g MiB read in %.2g s",
		       bps / 1e9, of, (double)v->read.bytes / (1 << 20),
		       (double)v->read.ns / 1e9);
}

void tei_peer_judge(const struct tei_peer_visit *v, struct tei_report *r)
{
	const char *chosen = tei_peer_carrier(v);

	if (v->error) {
		tei_report_add(r, TEI_MARK_FAIL, &reach, v->name, "%s",
			       te_strerror(v->error));
		return;
	}
	if (v->rtt_us)
		tei_report_add(r, TEI_MARK_OK, &reach, v->name,
			       "answers in %" PRIu64 " us", v->rtt_us);
	else
		tei_report_add(r, TEI_MARK_OK, &reach, v->name, "answers");
	if (!v->read.possible)
		tei_report_add(r, TEI_MARK_UNKNOWN, &rate, v->name,
			       "it publishes nothing that we may read; run "
			       "te-doctor listen there");
	else if (v->read.error)
		tei_report_add(r, TEI_MARK_FAIL, &backend, v->name,
			       "a read failed: %s", te_strerror(v->read.error));
	if (!v->read.possible || v->read.error || !chosen)
		return;
	judge_backend(v, chosen, r);
	judge_rails(v, chosen, r);
	judge_ways(v, r);
	judge_rate(v, r);
}
