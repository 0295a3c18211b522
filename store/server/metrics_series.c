/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_series.c - figures of each segment and of each tenant
 *
 * Several mounts may bear one name; their figures are added up, because one
 * series may appear only once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "store/server/metrics_parts.h"
#include "store/server/state.h"

#define LINES_MAX 512 /* of a piece: a third of a millisecond */

/* How many bytes of @value are one character of a label, which is put at @out. */
static size_t label_one(const char *value, char out[4], size_t *n)
{
	size_t len = tei_utf8_len(value, strnlen(value, 4));

	*n = 0;
	if (*value == '\\' || *value == '"' || *value == '\n')
		out[(*n)++] = '\\';
	if (len > 1) {
		memcpy(out, value, len);
		*n = len;
	} else if (!len) {
		out[(*n)++] = '?';
	} else {
		out[(*n)++] = (char)(*value == '\n' ? 'n' : *value);
	}
	return len ? len : 1;
}

void tes_server_label(const char *value, char *out, size_t room)
{
	size_t at = 0, n, len;
	char one[4];

	for (; *value; value += len, at += n) {
		len = label_one(value, one, &n);
		if (at + n + 1 > room)
			break;
		memcpy(&out[at], one, n);
	}
	out[at] = '\0';
}

/* ---- segments ---- */

struct tes_server_sum {
	const char *name;
	uint64_t used, size;
};

static int by_name(const void *a, const void *b)
{
	const struct tes_server_sum *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int add_sum(struct tes_server_metrics *m,
		   const struct tes_core_segment *segment)
{
	size_t room = strlen(segment->name) + 1;
	char *name = tei_arena_alloc(&m->names, room);

	if (!name)
		return -ENOMEM;
	m->sums[m->n_sums++] = (struct tes_server_sum){
		memcpy(name, segment->name, room),
		segment->used,
		segment->size,
	};
	return 0;
}

/* Live segments as they are now; no text yet. */
int tes_server_metrics_collect(struct tes_server_metrics *m,
			       struct evbuffer *out)
{
	struct tes_core_segment segment;
	size_t cursor = 0;

	(void)out;
	m->sums = tei_calloc(TES_CORE_MOUNTS_MAX, sizeof(*m->sums));
	if (!m->sums)
		return -ENOMEM;
	while (m->n_sums < TES_CORE_MOUNTS_MAX &&
	       tes_core_segment_next(m->server->core, &cursor, &segment))
		if (!segment.suspect && add_sum(m, &segment))
			return -ENOMEM;
	return 0;
}

int tes_server_metrics_sum(struct tes_server_metrics *m, struct evbuffer *out)
{
	struct tes_server_sum *sums = m->sums;
	size_t n = 0;

	(void)out;
	qsort(sums, m->n_sums, sizeof(*sums), by_name);
	for (size_t i = 0; i < m->n_sums; i++) {
		if (n && !strcmp(sums[n - 1].name, sums[i].name)) {
			sums[n - 1].used += sums[i].used;
			sums[n - 1].size += sums[i].size;
		} else {
			sums[n++] = sums[i];
		}
	}
	m->n_sums = n;
	return 0;
}

int tes_server_metrics_segments(struct tes_server_metrics *m,
				struct evbuffer *out)
{
	static const struct {
		const char *name, *help;
	} series[] = {
		{"segment_allocated_bytes", "memory of a segment in use"},
		{"segment_total_capacity_bytes", "memory of a segment"},
	};
	const char *name = series[m->series].name;
	char label[TES_SERVER_LABEL_ROOM];

	if (!m->at)
		tes_server_metric_head(out, name, "gauge",
				       series[m->series].help);
	for (int i = 0; i < LINES_MAX && m->at < m->n_sums; i++, m->at++) {
		const struct tes_server_sum *sum = &m->sums[m->at];

		tes_server_label(sum->name, label, sizeof(label));
		evbuffer_add_printf(out, "%s{segment=\"%s\"} %" PRIu64 "\n",
				    name, label,
				    m->series ? sum->size : sum->used);
	}
	if (m->at < m->n_sums)
		return 1;
	m->at = 0;
	return ++m->series < sizeof(series) / sizeof(series[0]);
}

/* ---- tenants ---- */

static void tenant_line(struct evbuffer *out, const char *name, size_t series,
			const struct tes_core_tenant *t)
{
	const uint64_t values[] = {t->charged, t->effective,
				   t->evicted_bytes_total, t->rejects_total};
	char label[TES_SERVER_LABEL_ROOM];

	tes_server_label(t->name, label, sizeof(label));
	evbuffer_add_printf(out, "%s{tenant=\"%s\"} %" PRIu64 "\n", name, label,
			    values[series]);
}

int tes_server_metrics_tenants(struct tes_server_metrics *m,
			       struct evbuffer *out)
{
	static const struct {
		const char *name, *type, *help;
	} series[] = {
		{"te_master_tenant_charged_bytes", "gauge",
		 "memory that a tenant's objects take"},
		{"te_master_tenant_quota_bytes", "gauge",
		 "memory that they may take"},
		{"mooncake_tenant_evict_bytes_total", "counter",
		 "evicted because of a tenant's quota"},
		{"mooncake_tenant_quota_reject_total", "counter",
		 "puts refused because of it"},
	};
	bool on = m->server->settings.enable_multi_tenants;
	const char *name = series[m->series].name;
	struct tes_core_tenant t;

	if (!m->at)
		tes_server_metric_head(out, name, series[m->series].type,
				       series[m->series].help);
	for (int i = 0; i < LINES_MAX; i++) {
		if (!on || !tes_core_tenant_next(m->server->core, &m->at, &t)) {
			m->at = 0;
			return ++m->series < sizeof(series) / sizeof(series[0]);
		}
		tenant_line(out, name, m->series, &t);
	}
	return 1;
}
