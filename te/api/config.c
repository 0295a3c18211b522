/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - te_config: names and values that were found right */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <te/te.h>

#include "base/conf.h"
#include "base/list.h"
#include "base/mem.h"
#include "te/core/config.h"

int te_config_create(struct te_config **out)
{
	struct te_config *config = tei_calloc(1, sizeof(*config));

	if (!config)
		return -ENOMEM;
	tei_list_init(&config->entries);
	*out = config;
	return 0;
}

static void entry_free(struct tei_config_entry *entry)
{
	tei_free(entry->name);
	tei_free(entry->value);
	tei_free(entry);
}

void te_config_destroy(struct te_config *config)
{
	struct tei_list *node;

	if (!config)
		return;
	while ((node = tei_list_pop(&config->entries)))
		entry_free(tei_list_entry(node, struct tei_config_entry, link));
	tei_free(config);
}

static int remember_setting(struct te_config *config, const char *name,
			    const char *value)
{
	struct tei_config_entry *entry = tei_calloc(1, sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	entry->name = tei_strdup(name);
	entry->value = tei_strdup(value);
	if (!entry->name || !entry->value) {
		entry_free(entry);
		return -ENOMEM;
	}
	tei_list_add_tail(&config->entries, &entry->link);
	return 0;
}

/*
 * Set the value in a scratch copy of the defaults, to see whether it is right.
 */
static int try_rows(const struct tei_setting *table, size_t n, size_t size,
		    const char *name, const char *value,
		    char error[TEI_CONF_ERROR_LEN])
{
	struct tei_conf conf;
	void *values = tei_calloc(1, size ? size : 1);
	int rc;

	if (!values)
		return -ENOMEM;
	rc = tei_conf_init(&conf, table, n, values);
	if (!rc) {
		rc = tei_conf_set(&conf, name, value, error);
		tei_conf_fini(&conf);
	}
	tei_free(values);
	return rc;
}

static int try_all(const char *name, const char *value,
		   char error[TEI_CONF_ERROR_LEN])
{
	const struct tei_backend_ops *const *ops;
	int rc;

	rc = try_rows(tei_config_rows, tei_config_n_rows,
		      sizeof(struct tei_config), name, value, error);
	if (!rc && !strcmp(name, "backends"))
		rc = tei_config_check_backends(tei_backends, value, "", error);
	for (ops = tei_backends; rc == -ENOENT && *ops; ops++) {
		if ((*ops)->n_settings)
			rc = try_rows((*ops)->settings, (*ops)->n_settings,
				      (*ops)->config_size, name, value, error);
	}
	return rc;
}

int te_config_set(struct te_config *config, const char *name, const char *value,
		  char *error, size_t error_len)
{
	char text[TEI_CONF_ERROR_LEN] = "out of memory";
	int rc;

	if (!config || !name || !value)
		return -EINVAL;
	rc = try_all(name, value, text);
	if (!rc)
		rc = remember_setting(config, name, value);
	if (rc && error && error_len)
		snprintf(error, error_len, "%s", text);
	return rc;
}
