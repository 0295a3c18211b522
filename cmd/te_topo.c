/* SPDX-License-Identifier: Apache-2.0 */
/*
 * te_topo.c - show what this machine looks like to the engine
 *
 * Tables by default; JSON in both forms, for the setting "topology" of an
 * engine; a drawing. Exit codes: 0 shown, 1 could not be shown, 2 could not be
 * understood.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/conf.h"
#include "base/mem.h"
#include "cmd/doctor/gpu_driver.h"
#include "cmd/te_topo.h"

#define ABOUT                                                                 \
	"Show this machine's NICs, memories and GPUs, how near they are "     \
	"to each other, and what is wrong. A file that --json or --matrix "   \
	"has written, corrected by hand, can be given to an engine: setting " \
	"topology, or MC_CUSTOM_TOPO_JSON."

struct settings {
	bool json, matrix, virtual_nics, detail;
	char *svg, *from, *sysfs, *hwloc_xml;
};

#define ROW(field) TEI_SETTING(struct settings, field)

/* clang-format off */
static const struct tei_setting rows[] = {
	{ ROW(json), .type = TEI_CONF_BOOL, .def = "0",
	  .help = "print everything as JSON" },
	{ ROW(matrix), .type = TEI_CONF_BOOL, .def = "0",
	  .help = "print the preferred and the other NICs of each memory, as "
		  "Mooncake's JSON" },
	{ ROW(svg), .type = TEI_CONF_STRING,
	  .help = "file to draw a picture into" },
	{ ROW(from), .type = TEI_CONF_STRING,
	  .help = "JSON file to show instead of this machine" },
	{ ROW(sysfs), .type = TEI_CONF_STRING,
	  .help = "copy of another machine's /sys to show instead" },
	{ ROW(hwloc_xml), .type = TEI_CONF_STRING,
	  .help = "file that lstopo has written to show instead, or with "
		  "--sysfs to take names from" },
	{ ROW(virtual_nics), .alias = "virtual", .type = TEI_CONF_BOOL,
	  .def = "0", .help = "show interfaces without a device too" },
	{ ROW(detail), .type = TEI_CONF_BOOL, .def = "1",
	  .help = "look up the names of devices" },
};
/* clang-format on */

static int complain_of(const char *what)
{
	(void)fprintf(stderr, "te-topo: %s\n", what);
	return 2;
}

static int print_json(const struct te_topo *topo, enum te_topo_form form)
{
	size_t len = 0;
	char *text;
	int rc;

	(void)te_topo_format(topo, form, NULL, &len);
	text = tei_malloc(len);
	if (!text)
		return -ENOMEM;
	rc = te_topo_format(topo, form, text, &len);
	if (!rc && fputs(text, stdout) < 0)
		rc = -EIO;
	tei_free(text);
	return rc;
}

/*
 * Asks the files of this machine, or those beside the copy of its /sys, how
 * GPUs' memory gets to RDMA devices. "": there are none.
 */
static const char *way_of_gpus(const struct settings *s)
{
	struct tei_host host = {.root = ""};
	char root[PATH_MAX] = "";
	const char *way;

	if (s->from || s->hwloc_xml)
		return "";
	if (s->sysfs) {
		size_t len = strlen(s->sysfs);

		if (len < 4 || len >= sizeof(root) ||
		    strcmp(s->sysfs + len - 4, "/sys") != 0)
			return "";
		memcpy(root, s->sysfs, len - 4);
	}
	host.root = root;
	way = tei_gpu_way(&host);
	return way ? way : "?";
}

static int show(const struct settings *s, const struct te_topo *topo)
{
	int rc = 0;

	if (s->svg) {
		rc = tei_topo_draw(topo, s->svg);
		if (rc) {
			(void)fprintf(stderr, "te-topo: %s: %s\n", s->svg,
				      strerror(-rc));
			return 1;
		}
	}
	if (s->json)
		rc = print_json(topo, TE_TOPO_FULL);
	else if (s->matrix)
		rc = print_json(topo, TE_TOPO_MATRIX);
	else if (!s->svg)
		rc = tei_topo_print_text(topo, way_of_gpus(s), stdout);
	if (!rc && fflush(stdout))
		rc = -errno;
	if (rc)
		(void)fprintf(stderr, "te-topo: cannot write to stdout: %s\n",
			      strerror(-rc));
	return rc ? 1 : 0;
}

static int run_topo(const struct tei_conf *conf)
{
	const struct settings *s = conf->values;
	const struct te_topo_source source = {
		.json = s->from,
		.sysfs_root = s->sysfs,
		.hwloc_xml = s->hwloc_xml,
		.flags = (s->detail ? TE_TOPO_DETAIL : 0u) |
			 (s->virtual_nics ? TE_TOPO_VIRTUAL : 0u),
	};
	struct te_topo *topo;
	char error[512];
	int rc;

	if (s->json && s->matrix)
		return complain_of(
			"--json and --matrix cannot both be printed");
	if (s->from && (s->sysfs || s->hwloc_xml))
		return complain_of("--from is a machine of its own: not with "
				   "--sysfs or --hwloc_xml");
	rc = te_topo_load(&source, &topo, error, sizeof(error));
	if (rc)
		return complain_of(error);
	rc = show(s, topo);
	te_topo_destroy(topo);
	return rc;
}

int main(int argc, char **argv)
{
	struct settings settings;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(rows[0]),
				&settings};

	return tei_conf_program(&conf, argc, argv, ABOUT, run_topo);
}
