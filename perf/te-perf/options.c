/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - settings of te-perf, and engines made by them
 */
#include "perf/te-perf/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static int set(struct te_config *config, const char *name, const char *value)
{
	char error[256];
	int rc = te_config_set(config, name, value, error, sizeof(error));

	if (rc)
		fprintf(stderr, "te-perf: %s\n", error);
	return rc;
}

/* "tcp.lanes=2,slice_max=4m"; @list is cut up on the way. */
static int set_each(struct te_config *config, char *list)
{
	char *rest = list, *name, *value;
	int rc = 0;

	while (!rc && (name = strsep(&rest, ","))) {
		value = strchr(name, '=');
		if (!value) {
			fprintf(stderr,
				"te-perf: engine: \"%s\" is not of the form "
				"name=value\n",
				name);
			return -EINVAL;
		}
		*value++ = 0;
		rc = set(config, name, value);
	}
	return rc;
}

static int fill_config(struct te_config *config, const struct options *o)
{
	int rc = set(config, "backends", o->backend);
	char *list;

	if (rc || !o->engine)
		return rc;
	list = tei_strdup(o->engine);
	if (!list)
		return -ENOMEM;
	rc = set_each(config, list);
	tei_free(list);
	return rc;
}

static int create(const struct te_config *config, const struct options *o,
		  struct te_engine **out)
{
	int rc = te_engine_create(config, "127.0.0.1", out);

	if (rc == -ENODEV) {
		fprintf(stderr, "te-perf: backend: \"%s\" is not to be had\n",
			o->backend);
		return -EINVAL;
	}
	if (rc)
		fprintf(stderr, "te-perf: engine: %s\n", te_strerror(rc));
	return rc;
}

int engine_open(const struct options *o, struct te_engine **out)
{
	struct te_config *config;
	int rc = te_config_create(&config);

	if (rc)
		return rc;
	if (fill_config(config, o))
		rc = -EINVAL;
	else
		rc = create(config, o, out);
	te_config_destroy(config);
	return rc;
}
