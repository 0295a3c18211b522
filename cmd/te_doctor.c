/* SPDX-License-Identifier: Apache-2.0 */
/*
 * te_doctor.c - why RDMA, or the engine, does not do what this host could
 *
 * Alone it looks at the host, with the word "peer" at other engines, with "listen"
 * it is one to be looked at. Exit codes: 0 nothing fails, 1 something does or could
 * not be looked at, 2 could not be understood.
 */
#include <errno.h>
#include <string.h>

#include "base/conf.h"
#include "base/mem.h"
#include "cmd/doctor/host.h"
#include "cmd/doctor/peer.h"

#define ABOUT                                                                   \
	"Look for what makes RDMA, and transfers on the whole, slow or "        \
	"impossible on this host: devices, ports, addresses, limits, links, "   \
	"the kernel. Each finding says what is there, what should be, and how " \
	"to mend it; nothing is changed. Ends with 1 when something fails.\n\n" \
	"te-doctor peer NAME...: how these engines are reached from here, why " \
	"so, and how fast; memory that they publish is read for a moment. "     \
	"te-doctor listen [HOST[:PORT]]: be such an engine, until interrupted."

struct settings {
	bool json, strict, insecure;
	char *root, *engine;
	uint64_t time;
};

#define NAMES_MAX 64

/* The command line before its settings. */
static enum { WORD_NONE, WORD_PEER, WORD_LISTEN } word;
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
	{ ROW(time), .group = "peer and listen", .type = TEI_CONF_DURATION,
	  .def = "1s", .min = 1, .max = 60000,
	  .help = "how long to read from each peer" },
	{ ROW(insecure), .type = TEI_CONF_BOOL, .def = "0",
	  .help = "serve other hosts, too" },
	{ ROW(engine), .type = TEI_CONF_STRING,
	  .help = "settings of the engine: backends=tcp,tcp.lanes=2" },
};
/* clang-format on */

static int complain(const char *what)
{
	(void)fprintf(stderr, "te-doctor: %s\n", what);
	return 2;
}

static int show(const struct settings *s, const struct tei_report *r)
{
	int rc = r->short_of_memory ? -ENOMEM : 0;

	if (!rc && s->json)
		rc = tei_report_json(r, stdout);
	else if (!rc)
		rc = tei_report_text(r, stdout);
	if (!rc && fflush(stdout))
		rc = -EIO;
	if (rc) {
		(void)fprintf(stderr, "te-doctor: %s\n", strerror(-rc));
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
	rc = show(s, &report);
	tei_report_fini(&report);
	return rc;
}

/* ---- peers ---- */

/* "tcp.lanes=2,slice_max=4m"; @list is cut up on the way. */
static int set_each(struct te_config *config, char *list)
{
	char *rest = list, *name, *value, error[256];
	int rc = 0;

	while (!rc && (name = strsep(&rest, ","))) {
		value = strchr(name, '=');
		if (!value)
			return complain("engine: not of the form name=value");
		*value++ = '\0';
		rc = te_config_set(config, name, value, error, sizeof(error));
		if (rc)
			return complain(error);
	}
	return 0;
}

/* 0, or the exit code. */
static int configure(const struct settings *s, struct te_config **out)
{
	struct te_config *config;
	int code = 0;

	if (te_config_create(&config))
		return 1;
	if (s->engine)
		code = set_each(config, s->engine);
	if (!code && s->insecure)
		(void)te_config_set(config, "insecure", "true", NULL, 0);
	if (code)
		te_config_destroy(config);
	else
		*out = config;
	return code;
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
	struct tei_report report = {0};
	int rc = 0, code = 1;
	size_t i;

	for (i = 0; !rc && i < n_names; i++)
		rc = tei_peer_visit(engine, names[i], s->time, has_rdma(topo),
				    &report);
	if (!rc)
		code = show(s, &report);
	else
		(void)fprintf(stderr, "te-doctor: %s\n", te_strerror(rc));
	tei_report_fini(&report);
	return code;
}

static int visit(const struct settings *s, const struct te_topo *topo)
{
	struct te_config *config;
	struct te_engine *engine;
	int code = configure(s, &config);

	if (code)
		return code;
	code = 1; /* the library has said why */
	if (!te_engine_create(config, NULL, &engine)) {
		code = visit_all(s, engine, topo);
		te_engine_destroy(engine);
	}
	te_config_destroy(config);
	return code;
}

static int listen_as(const struct settings *s, const char *name)
{
	struct te_config *config;
	int code = configure(s, &config);

	if (code)
		return code;
	code = tei_peer_listen(config, name) ? 1 : 0;
	te_config_destroy(config);
	return code;
}

/* ---- all of it ---- */

static int run(const struct tei_conf *conf)
{
	const struct settings *s = conf->values;
	char sys[4096], error[512];
	const struct te_topo_source source = {.sysfs_root =
						      s->root ? sys : NULL};
	struct te_topo *topo;
	int code;

	if (word == WORD_LISTEN)
		return listen_as(s, n_names ? names[0] : NULL);
	(void)snprintf(sys, sizeof(sys), "%s/sys", s->root ? s->root : "");
	if (te_topo_load(&source, &topo, error, sizeof(error)))
		return complain(error);
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
	       : !strcmp(words[0], "listen") ? WORD_LISTEN
					     : WORD_NONE;
	if (word == WORD_NONE || n > NAMES_MAX)
		return false;
	for (i = 1; i < n; i++)
		names[n_names++] = words[i];
	*argc -= n;
	*argv += n;
	return word == WORD_PEER ? n_names > 0 : n_names <= 1;
}

int main(int argc, char **argv)
{
	char *program = argv[0];
	struct settings settings;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(rows[0]),
				&settings};

	if (!take_words(&argc, &argv))
		return complain("peer NAME..., listen [NAME], or settings; "
				"--help tells more");
	argv[0] = program;
	return tei_conf_program(&conf, argc, argv, ABOUT, run);
}
