/* SPDX-License-Identifier: Apache-2.0 */
/* pairs_show.c - the matrix as tables and as JSON */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "cmd/doctor/pairs.h"

/* ---- text ---- */

static int widest(const struct tei_matrix *m)
{
	size_t i, width = 4;

	for (i = 0; i < m->n; i++)
		if (strlen(m->names[i]) > width)
			width = strlen(m->names[i]);
	return (int)width;
}

static void print_cell(const struct tei_answer *a, bool write, FILE *out)
{
	uint64_t bps = write ? a->write_bps : a->read_bps;

	if (*a->failure)
		(void)fprintf(out, " %8s", "fails");
	else if (!bps)
		(void)fprintf(out, " %8s", "?");
	else
		(void)fprintf(out, " %8.3g", (double)bps / 1e9);
}

static void print_table(const struct tei_matrix *m, size_t backend, bool write,
			FILE *out)
{
	const char *by = m->backends[backend];
	int width = widest(m);
	size_t from, to;

	(void)fprintf(out, "Gbit/s that the row %s the column%s%s\n\n",
		      write ? "writes to" : "reads from", *by ? ", by " : "",
		      by);
	(void)fprintf(out, "     %-*s", width, "");
	for (to = 0; to < m->n; to++)
		(void)fprintf(out, " %8zu", to + 1);
	for (from = 0; from < m->n; from++) {
		(void)fprintf(out, "\n%4zu %-*s", from + 1, width,
			      m->names[from]);
		for (to = 0; to < m->n; to++)
			if (from == to)
				(void)fprintf(out, " %8s", "-");
			else
				print_cell(
					tei_matrix_cell(m, backend, from, to),
					write, out);
	}
	(void)fprintf(out, "\n\n");
}

int tei_pairs_text(const struct tei_matrix *m, FILE *out)
{
	size_t backend;

	for (backend = 0; backend < m->n_backends; backend++) {
		print_table(m, backend, true, out);
		print_table(m, backend, false, out);
	}
	return ferror(out) ? -EIO : 0;
}

/* ---- JSON ---- */

static json_t *pack_rails(const struct tei_answer *a)
{
	json_t *rails = json_array();
	size_t i;

	for (i = 0; i < a->n_rails; i++)
		(void)json_array_append_new(
			rails,
			json_pack("{s:s, s:s, s:I, s:I}", "name",
				  a->rails[i].name, "state", a->rails[i].state,
				  "read_bps", (json_int_t)a->rails[i].read_bps,
				  "write_bps",
				  (json_int_t)a->rails[i].write_bps));
	return rails;
}

static json_t *pack_cell(const struct tei_matrix *m, size_t backend,
			 size_t from, size_t to)
{
	const struct tei_answer *a = tei_matrix_cell(m, backend, from, to);
	const char *why = a->why + strspn(a->why, "; ");

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o}",
			 "from", m->names[from], "to", m->names[to], "wanted",
			 m->backends[backend], "backend", a->backend, "why",
			 why, "failure", a->failure, "rtt_us",
			 (json_int_t)a->rtt_us, "read_bps",
			 (json_int_t)a->read_bps, "write_bps",
			 (json_int_t)a->write_bps, "rails", pack_rails(a));
}

json_t *tei_pairs_pack(const struct tei_matrix *m)
{
	json_t *all = json_array();
	size_t backend, from, to;
	int rc = all ? 0 : -1;

	for (backend = 0; backend < m->n_backends; backend++)
		for (from = 0; from < m->n; from++)
			for (to = 0; to < m->n && !rc; to++)
				if (from != to)
					rc = json_array_append_new(
						all, pack_cell(m, backend, from,
							       to));
	if (rc)
		json_decref(all);
	return rc ? NULL : all;
}
