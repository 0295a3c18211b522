/* SPDX-License-Identifier: Apache-2.0 */
/*
 * te_doctor.c - why RDMA, or the engine, does not do what this host could
 *
 * Alone it looks at the host, with the word "peer" at other engines, with
 * "listen" it is one to be looked at. Exit codes: 0 nothing fails, 1 something
 * does or could not be looked at, 2 could not be understood.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/text.h"
#include "cmd/doctor/engines.h"
#include "cmd/doctor/host.h"
#include "cmd/doctor/listen.h"
#include "cmd/doctor/pairs.h"
#include "cmd/doctor/peer.h"

#define ABOUT                                                                    \
	"Look for what makes RDMA, and transfers on the whole, slow or "         \
	"impossible on this host: devices, ports, addresses, limits, links, "    \
	"the kernel. Each finding says what is there, what should be, and how "  \
	"to mend it; nothing is changed. Ends with 1 when something fails.\n\n"  \
	"te-doctor peer NAME...: how these engines are reached from here, why "  \
	"so, and how fast; memory that they publish is read for a moment. "      \
	"te-doctor listen [HOST[:PORT]]: be such an engine, until interrupted. " \
	"te-doctor pairs NAME NAME...: how fast each of these, which are "       \
	"te-doctor listen --pairs, writes to and reads from each other one."

struct settings {
	bool json, strict, insecure, pairs;
	char *root, *engine, *name, *backends;
	uint64_t time;
};

#define NAMES_MAX 64

/* The command line before its settings. */
static enum { WORD_NONE, WORD_PEER, WORD_PAIRS, WORD_LISTEN } word;
static const char *names[NAMES_MAX]; /* names[n_names] */
static size_t n_names;

#define ROW(field) TEI_SETTING(struct settings, field)

/* clang-format off */
static const struct tei_setting rows[] = {
	{ ROW(json), .type = TEI_CONF_BOOL, .def = "0",
	  .help = "print the findings as JSON" },
	{ ROW(strict), .type = TEI_CONF_BOOL, .def = "0",
	  .help = "end with 1 also when there are only warnings" },
	{ ROW(root), .type = TEI_CONF_STRING,
	  .help = "folder with copies of another machine's /sys, /proc and "
		  "/dev to look at instead" },
	{ ROW(time), .group = "peer, pairs and listen", .type = TEI_CONF_DURATION,
	  .def = "1s", .min = 1, .max = 60000,
	  .help = "how long to read from each peer; pairs: and to write" },
	{ ROW(insecure), .type = TEI_CONF_BOOL, .def = "0",
	  .help = "serve other hosts, too" },
	{ ROW(engine), .type = TEI_CONF_STRING,
	  .help = "settings of the engine: backends=tcp,tcp.lanes=2" },
	{ ROW(pairs), .type = TEI_CONF_BOOL, .def = "0",
	  .help = "listen: let te-doctor pairs write here, and have it "
		  "measured from here to others" },
	{ ROW(backends), .type = TEI_CONF_STRING,
	  .help = "pairs: measure by each of these, tcp,verbs; default: as the "
		  "engines choose" },
	{ ROW(name), .type = TEI_CONF_STRING,
	  .help = "pairs: host by which the others reach this one; default: "
		  "with insecure the host's name" },
};
/* clang-format on */

static int complain_of(const char *what)
{
	(void)fprintf(stderr, "te-doctor: %s\n", what);
	return 2;
}

static int print(const struct settings *s, const struct tei_report *r,
		 const struct tei_matrix *m)
{
	int rc = 0;

	if (r->short_of_memory)
		return -ENOMEM;
	if (s->json && m)
		return tei_report_json(r, "pairs", tei_pairs_pack(m), stdout);
	if (s->json)
		return tei_report_json(r, NULL, NULL, stdout);
	if (m)
		rc = tei_pairs_text(m, stdout);
	return rc ? rc : tei_report_text(r, stdout);
}

/* The exit code. @m: NULL, or what was measured between peers. */
static int show(const struct settings *s, const struct tei_report *r,
		const struct tei_matrix *m)
{
	int rc = print(s, r, m);

	if (!rc && fflush(stdout))
		rc = -errno;
	if (rc) {
		(void)fprintf(stderr, "te-doctor: cannot write to stdout: %s\n",
			      strerror(-rc));
		return 1;
	}
	return r->count[TEI_MARK_FAIL] || (s->strict && r->count[TEI_MARK_WARN])
		       ? 1
		       : 0;
}

static int look_at_host(const struct settings *s, const struct te_topo *topo)
{
	struct tei_host host = {.root = s->root ? s->root : "", .topo = topo};
	struct tei_report report = {0};
	int rc;

	if (!s->root)
		tei_probe(&host.probes);
	tei_check_host(&host, &report);
	rc = show(s, &report, NULL);
	tei_report_fini(&report);
	return rc;
}

/* ---- peers ---- */

static struct tei_engine_wish wish_of(const struct settings *s)
{
	return (struct tei_engine_wish){.settings = s->engine,
					.insecure = s->insecure};
}

/* Print what did not work, in a line; the exit code. */
static int give_up(int rc, const char *error)
{
	(void)fprintf(stderr, "te-doctor: %s\n",
		      *error ? error : te_strerror(rc));
	return *error ? 2 : 1;
}

static bool has_rdma(const struct te_topo *topo)
{
	struct te_topo_nic nic;
	uint32_t i;

	for (i = 0; !te_topo_nic(topo, i, &nic); i++)
		if (*nic.rdma && nic.state == TE_TOPO_UP)
			return true;
	return false;
}

static int visit_all(const struct settings *s, struct te_engine *engine,
		     const struct te_topo *topo)
{
	const struct tei_peer_plan plan = {.time_ms = s->time,
					   .has_rdma = has_rdma(topo)};
	struct tei_report report = {0};
	struct tei_peer_visit visit;
	int rc = 0, code = 1;
	size_t i;

	for (i = 0; !rc && i < n_names; i++) {
		rc = tei_peer_visit(engine, names[i], &plan, &visit);
		if (!rc)
			tei_peer_judge(&visit, &report);
	}
	if (!rc)
		code = show(s, &report, NULL);
	else
		code = give_up(rc, "");
	tei_report_fini(&report);
	return code;
}

/* An engine of ours cannot be; the log has said why, or @error does. */
static int no_engine(int rc, const char *error)
{
	if (*error)
		return give_up(rc, error);
	(void)fprintf(stderr, "te-doctor: no engine of ours: %s\n",
		      te_strerror(rc));
	return 1;
}

static int visit(const struct settings *s, const struct te_topo *topo)
{
	const struct tei_engine_wish wish = wish_of(s);
	struct te_engine *engine;
	char error[256];
	int code, rc = tei_engine_open(&wish, NULL, &engine, error);

	if (rc)
		return no_engine(rc, error);
	code = visit_all(s, engine, topo);
	te_engine_destroy(engine);
	return code;
}

static int listen_as(const struct settings *s, const char *name)
{
	const struct tei_engine_wish wish = wish_of(s);
	char error[256];
	int rc = tei_peer_listen(&wish, name, s->pairs, error);

	return rc ? no_engine(rc, error) : 0;
}

/* ---- pairs ---- */

#define BACKENDS_MAX 8

static void tell_pair(const char *from, const char *to, size_t done,
		      size_t total, void *arg)
{
	(void)arg;
	(void)fprintf(stderr, "\r\x1b[K%zu of %zu: %s > %s", done + 1, total,
		      from, to);
}

/* Cuts @list in place. Returns how many entries, at least one. */
static size_t split_list(char *list, const char *out[BACKENDS_MAX])
{
	size_t n = 0;

	out[0] = "";
	while (list && n < BACKENDS_MAX)
		out[n++] = strsep(&list, ",");
	return n ? n : 1;
}

static int measure_all(const struct settings *s, struct te_engine *engine)
{
	bool terminal = isatty(STDERR_FILENO);
	const char *backends[BACKENDS_MAX];
	size_t n = split_list(s->backends, backends);
	struct tei_report report = {0};
	struct tei_matrix matrix;
	int code, rc;

	rc = tei_matrix_init(&matrix, names, n_names, backends, n);
	if (!rc)
		rc = tei_pairs_ask(engine, &matrix, s->time,
				   terminal ? tell_pair : NULL, NULL);
	if (terminal)
		(void)fprintf(stderr, "\r\x1b[K");
	if (!rc)
		tei_pairs_judge(&matrix, &report);
	code = rc ? give_up(rc, "") : show(s, &report, &matrix);
	tei_report_fini(&report);
	tei_matrix_fini(&matrix);
	return code;
}

/*
 * Answers come to an engine of ours, so it needs a name that the others reach.
 */
static int measure_pairs(const struct settings *s)
{
	const struct tei_engine_wish wish = wish_of(s);
	char host[TE_NAME_LEN_MAX + 1] = "", error[256];
	struct te_engine *engine;
	int code, rc;

	if (s->name)
		(void)snprintf(host, sizeof(host), "%s", s->name);
	else if (s->insecure)
		(void)gethostname(host, sizeof(host) - 1);
	rc = tei_engine_open(&wish, *host ? host : NULL, &engine, error);
	if (rc)
		return no_engine(rc, error);
	code = measure_all(s, engine);
	te_engine_destroy(engine);
	return code;
}

/* ---- all of it ---- */

static int run_doctor(const struct tei_conf *conf)
{
	const struct settings *s = conf->values;
	char sys[4096], error[512];
	const struct te_topo_source source = {.sysfs_root =
						      s->root ? sys : NULL};
	struct te_topo *topo;
	int code;

	if (word == WORD_LISTEN)
		return listen_as(s, n_names ? names[0] : NULL);
	if (word == WORD_PAIRS)
		return measure_pairs(s);
	(void)snprintf(sys, sizeof(sys), "%s/sys", s->root ? s->root : "");
	if (te_topo_load(&source, &topo, error, sizeof(error)))
		return complain_of(error);
	code = word == WORD_PEER ? visit(s, topo) : look_at_host(s, topo);
	te_topo_destroy(topo);
	return code;
}

/* The words before the settings, taken off. False: they make no sense. */
static bool take_words(int *argc, char ***argv)
{
	char **words = *argv + 1;
	int n = 0, i;

	while (n + 1 < *argc && words[n][0] != '-')
		n++;
	if (!n)
		return true;
	word = !strcmp(words[0], "peer")     ? WORD_PEER
	       : !strcmp(words[0], "pairs")  ? WORD_PAIRS
	       : !strcmp(words[0], "listen") ? WORD_LISTEN
					     : WORD_NONE;
	if (word == WORD_NONE || n > NAMES_MAX)
		return false;
	for (i = 1; i < n; i++)
		names[n_names++] = words[i];
	*argc -= n;
	*argv += n;
	return word == WORD_PEER    ? n_names > 0
	       : word == WORD_PAIRS ? n_names > 1
				    : n_names <= 1;
}

static bool are_text(void)
{
	size_t i;

	for (i = 0; i < n_names; i++)
		if (!tei_utf8_is_text(names[i], strlen(names[i])))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	char *program = argv[0];
	struct settings settings;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(rows[0]),
				&settings};

	if (!take_words(&argc, &argv))
		return complain_of("peer NAME..., pairs NAME NAME..., "
				   "listen [NAME], or settings; --help tells "
				   "more");
	if (!are_text())
		return complain_of("a name is no text in UTF-8");
	argv[0] = program;
	return tei_conf_program(&conf, argc, argv, ABOUT, run_doctor);
}
