/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - exporting a GPU's memory, whole or chunk by chunk */
#include "te/device/export.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "te/core/engine.h"

static bool add_piece(struct tei_export *out,
		      const struct tei_export_piece *one)
{
	uint32_t room = out->room ? 2 * out->room : 16;
	struct tei_export_piece *grown;

	if (out->n == out->room) {
		grown = tei_realloc(out->pieces, room * sizeof(*grown));
		if (!grown)
			return false;
		out->pieces = grown;
		out->room = room;
	}
	out->pieces[out->n++] = *one;
	return true;
}

static void close_pieces(struct tei_export *out)
{
	while (out->n)
		(void)close(out->pieces[--out->n].fd);
}

/* What is exported, and by whom. */
struct job {
	const struct tei_runtime_ops *ops;
	struct tei_runtime *runtime;
	const struct tei_memory_facts *facts;
	uint64_t from, to; /* whole pages */
};

static int export_one(const struct job *job, uint64_t from, uint64_t to,
		      struct tei_export *out)
{
	struct tei_export_piece piece = {.addr = from, .length = to - from};
	int rc = job->ops->export(job->runtime, from, to - from, job->facts,
				  &piece.fd, out->why);

	if (rc)
		return rc;
	if (add_piece(out, &piece))
		return 0;
	(void)close(piece.fd);
	return -ENOMEM;
}

/* Exports each chunk, for drivers that refuse more than one. */
static int export_chunks(const struct job *job, struct tei_export *out)
{
	struct tei_memory_facts facts = *job->facts;
	uint64_t at = job->from, end;
	int rc;

	for (;;) {
		end = facts.base + facts.length;
		rc = export_one(job, at, end < job->to ? end : job->to, out);
		if (rc || end >= job->to)
			return rc;
		at = end;
		rc = job->ops->look(job->runtime, at, &facts, out->why);
		if (rc)
			return rc;
		if (!facts.length || facts.base + facts.length <= at)
			return -EOPNOTSUPP;
	}
}

static void warn_of_order(const struct te_engine *engine, const struct job *job)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	char why[TEI_RUNTIME_WHY_LEN];

	if (job->ops->order(job->runtime, job->facts, why) &&
	    tei_log_allowed(&limit))
		LOG_WARN("engine %s: a NIC may read memory of %s:%d before a "
			 "copy to it has ended, unless the copy's stream is "
			 "synchronized: %s",
			 engine->name, job->ops->name, job->facts->gpu, why);
}

int tei_export_make(struct te_engine *engine, uint64_t addr, uint64_t length,
		    const struct tei_memory_found *found,
		    struct tei_export *out)
{
	uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	struct job job = {.ops = found->ops,
			  .runtime = found->runtime,
			  .facts = &found->facts,
			  .from = addr & ~mask,
			  .to = (addr + length + mask) & ~mask};
	int rc;

	*out = (struct tei_export){.n = 0};
	warn_of_order(engine, &job);
	out->by_address = job.ops->by_address(&engine->config, &out->how);
	rc = export_one(&job, job.from, job.to, out);
	if (rc && rc != -ENOMEM && found->facts.chunked) {
		rc = export_chunks(&job, out);
		if (rc)
			close_pieces(out);
	}
	if (rc == -ENOMEM)
		tei_export_free(out);
	return rc == -ENOMEM ? rc : 0;
}

void tei_export_free(struct tei_export *exported)
{
	close_pieces(exported);
	tei_free(exported->pieces);
	exported->pieces = NULL;
}
