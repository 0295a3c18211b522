/* SPDX-License-Identifier: Apache-2.0 */
/* peer_judge.c - which backend a peer is reached by, why, and whether that is well */
#include <inttypes.h>
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
			bytes += v->rails[i].bytes;
	return bytes;
}

/* The backend that has carried most; NULL: none. */
static const char *carrier(const struct tei_peer_visit *v)
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

static bool any_rail_is_up(const struct tei_peer_visit *v, const char *name)
{
	size_t i;

	for (i = 0; i < v->n_rails; i++)
		if (!strcmp(v->rails[i].backend, name) &&
		    v->rails[i].state == TE_RAIL_UP)
			return true;
	return false;
}

static bool is_first_of_backend(const struct tei_peer_visit *v, size_t at)
{
	size_t i;

	for (i = 0; i < at; i++)
		if (!strcmp(v->rails[i].backend, v->rails[at].backend))
			return false;
	return true;
}

/* "; before it shm, which does not reach this peer": what was preferred to it. */
static void tell_why(const struct tei_peer_visit *v, const char *chosen,
		     char *out, size_t room)
{
	size_t i, len = 0;

	*out = '\0';
	for (i = 0; i < v->n_rails; i++) {
		const char *name = v->rails[i].backend;

		if (!strcmp(name, chosen))
			break;
		if (len < room && is_first_of_backend(v, i))
			len += (size_t)snprintf(
				out + len, room - len, "; before it %s, %s",
				name,
				any_rail_is_up(v, name)
					? "which does not reach this peer"
					: "whose rails are down");
	}
	if (!len)
		(void)snprintf(out, room, "; the first choice of this engine");
}

static void judge_backend(const struct tei_peer_visit *v, const char *chosen,
			  struct tei_report *r)
{
	bool slow = v->has_rdma && !strcmp(chosen, "tcp");
	char why[128];

	tell_why(v, chosen, why, sizeof(why));
	tei_report_add(r, slow ? TEI_MARK_WARN : TEI_MARK_OK, &backend, v->name,
		       "%s%s%s", chosen, why,
		       slow ? "; this host has RDMA" : "");
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
	double bps = v->ns ? (double)v->bytes * 8e9 / (double)v->ns : 0;
	double speed = (double)speed_of(v);
	char of[48] = "";

	if (speed > 0)
		(void)snprintf(of, sizeof(of), " of %.4g", speed / 1e9);
	tei_report_add(r, bps < speed / 2 ? TEI_MARK_WARN : TEI_MARK_OK, &rate,
		       v->name,
		       "%.3g%s Gbit/s, %" PRIu64 " bytes read in %.2g s",
		       bps / 1e9, of, v->bytes, (double)v->ns / 1e9);
}

void tei_peer_judge(const struct tei_peer_visit *v, struct tei_report *r)
{
	const char *chosen = carrier(v);

	if (v->error) {
		tei_report_add(r, TEI_MARK_FAIL, &reach, v->name, "%s",
			       te_strerror(v->error));
		return;
	}
	tei_report_add(r, TEI_MARK_OK, &reach, v->name,
		       "answers in %" PRIu64 " us", v->rtt_us);
	if (!v->readable)
		tei_report_add(r, TEI_MARK_UNKNOWN, &rate, v->name,
			       "it publishes nothing that we may read; run "
			       "te-doctor listen there");
	else if (v->read_error)
		tei_report_add(r, TEI_MARK_FAIL, &backend, v->name,
			       "a read failed: %s", te_strerror(v->read_error));
	if (!v->readable || v->read_error || !chosen)
		return;
	judge_backend(v, chosen, r);
	judge_rails(v, chosen, r);
	judge_rate(v, r);
}
