/* SPDX-License-Identifier: Apache-2.0 */
/* engines.c - opening an engine by settings in one line; sending a message */
#include "cmd/doctor/engines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define TELL_MS 5000

/* @list is cut up on the way. */
static int set_each(struct te_config *config, char *list, char error[256])
{
	char *rest = list, *name, *value;
	int rc = 0;

	while (!rc && (name = strsep(&rest, ","))) {
		value = strchr(name, '=');
		if (!value) {
			(void)snprintf(error, 256,
				       "engine: \"%.60s\" is not of the form "
				       "name=value",
				       name);
			return -EINVAL;
		}
		*value++ = '\0';
		rc = te_config_set(config, name, value, error, 256);
	}
	return rc ? -EINVAL : 0;
}

static int configure(const struct tei_engine_wish *wish,
		     struct te_config *config, char error[256])
{
	char *list;
	int rc = 0;

	if (wish->settings) {
		list = tei_strdup(wish->settings);
		rc = list ? set_each(config, list, error) : -ENOMEM;
		tei_free(list);
	}
	if (!rc && wish->insecure)
		rc = te_config_set(config, "insecure", "true", error, 256);
	if (!rc && wish->backends && *wish->backends)
		rc = te_config_set(config, "backends", wish->backends, error,
				   256);
	return rc;
}

int tei_engine_open(const struct tei_engine_wish *wish, const char *name,
		    struct te_engine **out, char error[256])
{
	struct te_config *config;
	int rc = te_config_create(&config);

	*error = '\0';
	if (rc)
		return rc;
	rc = configure(wish, config, error);
	if (!rc)
		rc = te_engine_create(config, name, out);
	te_config_destroy(config);
	return rc;
}

int tei_engine_tell(struct te_engine *engine, te_segment_id segment,
		    const char *text)
{
	struct iovec piece = {(void *)(uintptr_t)text, strlen(text)};
	struct te_request request = {.op = TE_NOTIFY,
				     .segment = segment,
				     .pieces = &piece,
				     .n_pieces = 1,
				     .timeout_ms = TELL_MS};
	struct te_completion done;
	struct te_batch *batch;
	int rc = te_batch_create(engine, 1, &batch);

	if (rc)
		return rc;
	rc = te_batch_submit(batch, &request, 1);
	if (!rc)
		rc = te_batch_wait(batch, UINT32_MAX);
	if (!rc)
		rc = te_batch_result(batch, 0, &done);
	if (!rc)
		rc = done.error;
	te_batch_destroy(batch);
	return rc;
}
