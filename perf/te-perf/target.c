/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.c - the initiator's view of the side that is written and read
 */
#include "perf/te-perf/target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "perf/te-perf/serve.h"

#define READY_MS  300000 /* touching a large working set takes a while */
#define ANSWER_MS 300000 /* a busy machine, not a slow target */
#define STOP_MS   30000
#define OPEN_MS   300000

/* ---- a process of our own ---- */

static int start_process(struct target *t, const struct options *o)
{
	struct role_args args;
	int rc = role_args(&args, o, "target");

	return rc ? rc
		  : tei_process_start_helper(&t->process, "target", args.argv,
					     -1);
}

/* ---- one on another host ---- */

static int connect_any(const struct tei_address *at, int n,
		       struct tei_address *out)
{
	int fd, rc = -EHOSTUNREACH;

	for (int i = 0; i < n; i++) {
		fd = socket(at[i].ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return -errno;
		if (!connect(fd, (const struct sockaddr *)&at[i].ss,
			     at[i].len)) {
			*out = at[i];
			return fd;
		}
		rc = -errno;
		close(fd);
	}
	return rc;
}

int target_connect(const char *name, struct tei_process *process,
		   struct tei_address *at, char own[TEI_HOST_LEN_MAX + 1])
{
	struct tei_address found[4];
	char host[TEI_HOST_LEN_MAX + 1];
	uint16_t port;
	int n, fd, rc = tei_name_split(name, host, &port);

	if (rc || !port) {
		fprintf(stderr,
			"te-perf: connect: \"%s\" is wrong, give "
			"host:port\n",
			name);
		return -EINVAL;
	}
	n = tei_resolve(host, port, found, 4);
	fd = n > 0 ? connect_any(found, n, at) : n;
	if (fd < 0)
		return fd;
	tei_process_adopt(process, "target", fd);
	return serve_own_host(fd, own);
}

static int connect_to(struct target *t, const struct options *o)
{
	int rc = target_connect(o->connect, &t->process, &t->at, t->host);

	t->remote_host = t->process.in >= 0;
	return rc;
}

/* ---- talking to it ---- */

/* Say @line and hear the answer, which must begin with @word. */
static int ask_target(struct target *t, const char *line, const char *word,
		      uint64_t timeout_ms, char answer[TEI_PROCESS_LINE])
{
	int rc = tei_process_say(&t->process, line);

	if (!rc)
		rc = tei_process_hear(&t->process, answer, timeout_ms);
	if (rc)
		return rc;
	tei_text_clean(answer); /* a terminal would obey what a peer says */
	if (!strncmp(answer, word, strlen(word)))
		return 0;
	fprintf(stderr, "te-perf: the target says: %s\n", answer);
	return -ECONNREFUSED;
}

static int ask_open(struct target *t)
{
	char line[64 + LOCATIONS_LEN], answer[TEI_PROCESS_LINE];
	char locations[LOCATIONS_LEN];
	int rc;

	locations_text(&t->options->theirs, locations);
	snprintf(line, sizeof(line), "open %" PRIu64 " %d %s",
		 t->len + PROBE_ROOM, t->options->foreign, locations);
	rc = ask_target(t, line, "ready ", READY_MS, answer);
	if (!rc)
		snprintf(t->name, sizeof(t->name), "%s", answer + 6);
	return rc;
}

static int ask_usage(struct target *t, uint64_t timeout_ms, uint64_t *cpu_ns,
		     uint64_t *rss)
{
	char answer[TEI_PROCESS_LINE];
	int rc = ask_target(t, "usage", "usage ", timeout_ms, answer);

	if (!rc &&
	    sscanf(answer, "usage %" SCNu64 " %" SCNu64, cpu_ns, rss) != 2)
		rc = -EPROTO;
	return rc;
}

int target_usage(struct target *t, uint64_t *cpu_ns, uint64_t *rss)
{
	*cpu_ns = *rss = 0;
	return t->memory.side.n ? 0 : ask_usage(t, ANSWER_MS, cpu_ns, rss);
}

int target_take(struct target *t)
{
	char answer[TEI_PROCESS_LINE];

	if (t->memory.side.n)
		return inbox_open(&t->inbox, t->engine);
	return ask_target(t, "notify", "notify", ANSWER_MS, answer);
}

int target_reference(struct target *t, uint64_t len, struct tei_bare_peer *peer)
{
	char line[64], answer[TEI_PROCESS_LINE];
	unsigned int port;
	int rc;

	snprintf(line, sizeof(line), "reference %" PRIu64, len);
	rc = ask_target(t, line, "reference ", READY_MS, answer);
	if (rc)
		return rc;
	if (sscanf(answer, "reference %u", &port) != 1)
		return -EPROTO;
	/* A pid over there means nothing here: no process_vm_readv(). */
	peer->pid = 0;
	peer->at[0] = t->at;
	tei_address_set_port(&peer->at[0], (uint16_t)port);
	peer->n_at = 1;
	return 0;
}

int target_start(struct target *t, const struct options *o, uint64_t len)
{
	int rc = 0;

	*t = (struct target){
		.process = TEI_PROCESS_NONE, .options = o, .len = len};
	snprintf(t->host, sizeof(t->host), "127.0.0.1");
	if (o->connect)
		rc = connect_to(t, o);
	/*
	 * At once, for it waits for no stranger, and our own memory may take
	 * longer; and we may have to wait for other initiators.
	 */
	if (!rc && t->remote_host)
		rc = ask_open(t);
	if (!rc)
		return 0;
	if (rc != -EINVAL)
		fprintf(stderr, "te-perf: target %s: %s\n", o->connect,
			te_strerror(rc));
	target_close(t);
	return rc;
}

/* ---- its memory ---- */

/* The region that is of @location, or any; taken ones are left out. */
static struct te_segment_region *find_region(uint64_t least,
					     struct te_segment_region *regions,
					     size_t n, const char *location)
{
	struct te_segment_region *any = NULL;

	for (size_t i = 0; i < n; i++) {
		if (regions[i].length < least)
			continue;
		if (!strcmp(regions[i].location, location))
			return &regions[i];
		any = &regions[i];
	}
	return any;
}

/*
 * Orders the regions as the locations are. Those of "*" have the names of where
 * they are, so they come last.
 */
static int take_regions(struct side *side, const struct locations *l,
			struct te_segment_region *regions, size_t n)
{
	struct te_segment_region *r;

	for (uint32_t i = 0; i < 2 * l->n; i++) {
		const char *name = l->name[i % l->n];

		if ((i < l->n) == !strcmp(name, "*"))
			continue;
		r = find_region(side->span + PROBE_ROOM, regions, n, name);
		if (!r)
			return -EPROTO;
		side->at[i % l->n] = r->addr;
		r->length = 0;
	}
	return 0;
}

int target_side(struct te_engine *engine, te_segment_id segment,
		const struct locations *locations, uint64_t len,
		struct side *out)
{
	struct side side = {.n = locations->n,
			    .span = side_span(len, locations->n)};
	struct te_segment_region regions[LOCATIONS_MAX];
	size_t n = LOCATIONS_MAX;
	int rc = te_segment_regions(engine, segment, regions, &n);

	if (!rc)
		rc = take_regions(&side, locations, regions,
				  n < LOCATIONS_MAX ? n : LOCATIONS_MAX);
	if (!rc)
		*out = side;
	return rc;
}

static int find_memory(struct target *t)
{
	if (t->memory.side.n) {
		t->side = t->memory.side;
		return 0;
	}
	return target_side(t->engine, t->segment, &t->options->theirs, t->len,
			   &t->side);
}

static int open_own(struct target *t)
{
	snprintf(t->name, sizeof(t->name), "%s", te_engine_name(t->engine));
	return memory_open(&t->memory, t->engine, &t->options->theirs,
			   t->options->foreign, t->len,
			   TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE);
}

int target_open(struct target *t, struct te_engine *engine)
{
	bool own = options_in_process(t->options);
	int rc = 0;

	t->engine = engine;
	/* Only now: what is wrong with the settings has been said once. */
	if (!own && !t->remote_host)
		rc = start_process(t, t->options);
	if (!rc && own)
		rc = open_own(t);
	else if (!rc && !t->remote_host)
		rc = ask_open(t);
	if (!rc)
		rc = te_segment_open(engine, t->name, OPEN_MS, &t->segment);
	if (!rc)
		rc = find_memory(t);
	if (rc)
		fprintf(stderr, "te-perf: target: %s\n", te_strerror(rc));
	return rc;
}

int target_close(struct target *t)
{
	int code;

	if (t->segment)
		te_segment_close(t->engine, t->segment);
	inbox_close(&t->inbox);
	memory_close(&t->memory);
	code = tei_process_stop(&t->process, STOP_MS);
	t->segment = 0;
	return code ? -EIO : 0;
}
