/* SPDX-License-Identifier: Apache-2.0 */
/*
 * te_doctor.c - why RDMA, or the engine, does not do what this host could
 *
 * Exit codes: 0 nothing fails, 1 something does or could not be looked at, 2
 * could not be understood.
 */
#include <errno.h>
#include <string.h>

#include "base/conf.h"
#include "base/mem.h"
#include "cmd/doctor/host.h"

#define ABOUT                                                                   \
	"Look for what makes RDMA, and transfers on the whole, slow or "        \
	"impossible on this host: devices, ports, addresses, limits, links, "   \
	"the kernel. Each finding says what is there, what should be, and how " \
	"to mend it; nothing is changed. Ends with 1 when something fails."

struct settings {
	bool json, strict;
	char *root;
};

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

static int look(const struct settings *s)
{
	struct tei_host host = {.root = s->root ? s->root : ""};
	struct tei_report report = {0};
	char sys[4096], error[512];
	const struct te_topo_source source = {.sysfs_root =
						      s->root ? sys : NULL};
	struct te_topo *topo;
	int rc;

	(void)snprintf(sys, sizeof(sys), "%s/sys", host.root);
	if (te_topo_load(&source, &topo, error, sizeof(error)))
		return complain(error);
	host.topo = topo;
	if (!s->root)
		tei_probe(&host.probes);
	tei_check_host(&host, &report);
	rc = show(s, &report);
	tei_report_fini(&report);
	te_topo_destroy(topo);
	return rc;
}

static int run(const struct tei_conf *conf)
{
	return look(conf->values);
}

int main(int argc, char **argv)
{
	struct settings settings;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(rows[0]),
				&settings};

	return tei_conf_program(&conf, argc, argv, ABOUT, run);
}
