/* SPDX-License-Identifier: Apache-2.0 */
/*
 * te_metad.c - a metadata server of its own: a directory of engines over HTTP
 *
 * Prints where it serves, serves, ends on SIGTERM and SIGINT. Exit codes: 0
 * ended as asked, 1 broke while running, 2 its settings are wrong.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/loop.h"
#include "cmd/stop.h"
#include "store/server/metadata_http.h"

#define ABOUT                                                              \
	"A directory of engines: keeps, in memory, under which address a " \
	"name is reached. GET, PUT and DELETE of /metadata?key=, GET /health."

struct settings {
	char *host, *log_level, *allow_host, *allow_uids;
	uint64_t port, entries, value, bytes;
	bool insecure;
};

#define ROW(field) TEI_SETTING(struct settings, field)

/* clang-format off */
static const struct tei_setting rows[] = {
	{ ROW(port), .type = TEI_CONF_UINT, .def = "8080", .max = 65535,
	  .help = "port to listen on; 0: any free one" },
	{ ROW(host), .type = TEI_CONF_STRING, .def = "0.0.0.0",
	  .help = "address to listen on; 0.0.0.0: all" },
	{ ROW(insecure), .env = "MOONCAKE_INSECURE", .type = TEI_CONF_BOOL,
	  .def = "0",
	  .help = "serve everybody, other hosts too, without any key" },
	{ ROW(allow_uids), .env = "MOONCAKE_ALLOW_UIDS",
	  .type = TEI_CONF_UIDS, .def = "",
	  .help = "users of this host that may write, beside its own and root (1000,2000-2999 or any)" },
	{ ROW(allow_host), .env = "MOONCAKE_ALLOW_HOST",
	  .type = TEI_CONF_STRING, .def = "",
	  .help = "requests may be for these names, too (a,b)" },
	{ ROW(log_level), .type = TEI_CONF_STRING, .def = "INFO",
	  .help = "error, warn, info, debug or trace" },
	{ .name = "max_entries", .offset = offsetof(struct settings, entries),
	  .type = TEI_CONF_UINT, .def = "1000000", .min = 1, .max = 1e9,
	  .help = "entries kept" },
	{ .name = "max_value", .offset = offsetof(struct settings, value),
	  .type = TEI_CONF_SIZE, .def = "1m", .min = 1, .max = 1 << 30,
	  .help = "bytes of one value" },
	{ .name = "max_bytes", .offset = offsetof(struct settings, bytes),
	  .type = TEI_CONF_SIZE, .def = "256m", .min = 1, .max = 1e15,
	  .help = "memory of all entries" },
};
/* clang-format on */

static int start_server(const struct settings *s, struct tei_loop *loop,
			struct tes_metadata_server **out)
{
	struct tes_metadata_config config = {
		.host = strcmp(s->host, "0.0.0.0") != 0 ? s->host : NULL,
		.port = (uint16_t)s->port,
		.insecure = s->insecure,
		.allow_uids = s->allow_uids,
		.allow_host = s->allow_host,
		.limits = {s->entries, s->value, s->bytes},
	};
	uint16_t port;
	int rc = tes_metadata_server_start(loop, &config, &port, out);

	if (rc)
		return rc;
	if (s->insecure)
		LOG_WARN("te-metad: insecure: every host and user is served");
	/* Scripts wait for this very line. */
	printf("Metadata server started on port %u\n", (unsigned int)port);
	(void)fflush(stdout);
	return 0;
}

static int serve_metadata(const struct settings *s, struct tei_loop *loop)
{
	struct tes_metadata_server *server = NULL;
	struct stop stop;
	int code = 1;

	if (!stop_catch(&stop, loop)) {
		fprintf(stderr, "te-metad: cannot catch signals\n");
	} else if (start_server(s, loop, &server)) {
		code = 2; /* what it was has been logged */
	} else {
		code = tei_loop_run(loop) < 0 ? 1 : 0;
		tes_metadata_server_stop(server);
	}
	stop_release(&stop);
	return code;
}

/* Reads a level, also by the words that old scripts use. */
static int take_level(const char *text, int *out)
{
	if (!strcasecmp(text, "warning"))
		text = "warn";
	else if (!strcasecmp(text, "critical"))
		text = "error";
	return tei_log_level_parse(text, out);
}

static int run_metad(const struct tei_conf *conf)
{
	const struct settings *s = conf->values;
	struct tei_loop *loop;
	int level, code, rc;

	if (take_level(s->log_level, &level)) {
		fprintf(stderr,
			"te-metad: --log_level %s: should be error, "
			"warn, info, debug or trace\n",
			s->log_level);
		return 2;
	}
	tei_log_set_level(level);
	rc = tei_loop_create_bare(&loop);
	if (rc < 0) {
		fprintf(stderr, "te-metad: cannot start a loop: %s\n",
			strerror(-rc));
		return 1;
	}
	code = serve_metadata(s, loop);
	tei_loop_destroy(loop);
	return code;
}

int main(int argc, char **argv)
{
	struct settings settings;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(rows[0]),
				&settings};

	return tei_conf_program(&conf, argc, argv, ABOUT, run_metad);
}
