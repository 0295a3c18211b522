/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - te-core-perf: the master's logic alone, with simulated clients
 */
#include <stdio.h>
#include <string.h>

#include "perf/lib/report.h"
#include "tests/bench/core-perf/parts.h"

static const char about[] =
	"Measures the master's state machine without sockets, threads or bytes: "
	"puts, questions, memory, the expiry of an owner, walks, the eviction policy "
	"and the allocator. Times of steps are CPU time.";

/* clang-format off */
static const struct tei_setting rows[] = {
	{ TEI_SETTING(struct options, only), .type = TEI_CONF_CHOICE,
	  .def = "all", .choices = "all|objects|expiry|walks|touch|space",
	  .help = "what to measure" },
	{ TEI_SETTING(struct options, objects), .type = TEI_CONF_UINT,
	  .def = "100000", .min = 1000, .max = 1e9,
	  .help = "that the pool has room for; each costs some 280 bytes" },
	{ TEI_SETTING(struct options, asked), .type = TEI_CONF_UINT,
	  .def = "2000000", .min = 1000, .max = 1e12,
	  .help = "keys asked for" },
	{ TEI_SETTING(struct options, value_size), .type = TEI_CONF_SIZE,
	  .def = "4k", .min = 1, .max = 1 << 30, .help = "of each object" },
	{ TEI_SETTING(struct options, cycles), .type = TEI_CONF_UINT,
	  .def = "5", .min = 1, .max = 100,
	  .help = "how often all objects are evicted for others" },
	{ TEI_SETTING(struct options, expire), .type = TEI_CONF_UINT,
	  .def = "1000000", .min = 1000, .max = 1e9,
	  .help = "objects of the owner that expires" },
	{ TEI_SETTING(struct options, space_rounds), .type = TEI_CONF_UINT,
	  .def = "100", .max = 1e6,
	  .help = "how often a twentieth of a full space is replaced" },
	{ TEI_SETTING(struct options, json), .type = TEI_CONF_BOOL,
	  .def = "0", .help = "report as one JSON object" },
};
/* clang-format on */

static const struct part {
	const char *name;
	int (*measure)(const struct options *o, struct figures *f);
} parts[] = {
	{"objects", measure_objects}, {"expiry", measure_expiry},
	{"walks", measure_walks},     {"touch", measure_touch},
	{"space", measure_space},
};

static int run(const struct tei_conf *conf)
{
	static struct figures figures;
	const struct options *o = conf->values;
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(parts) / sizeof(*parts); i++)
		if (!strcmp(o->only, "all") || !strcmp(o->only, parts[i].name))
			rc = parts[i].measure(o, &figures);
	if (!rc)
		rc = figures_report(&figures, o->json);
	return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct options options;
	struct tei_conf conf = {rows, sizeof(rows) / sizeof(*rows), &options};

	return tei_tool_main(&conf, argc, argv, about, run);
}
