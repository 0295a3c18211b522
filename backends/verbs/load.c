/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c - the provider, loaded when this host has devices
 *
 * Most hosts have none: they pay for one look at /sys.
 */
#include <assert.h>
#include <dirent.h>
#include <stdatomic.h>

#include "backends/verbs/verbs.h"
#include "base/log.h"

#define DEVICES "/sys/class/infiniband"

/* Set once it is loaded: two at once find the same table. */
static const struct verbs_provider *_Atomic provider;

void tei_verbs_use(const struct verbs_provider *api)
{
	assert(!api || api->module.abi == VERBS_PROVIDER_ABI);
	atomic_store(&provider, api);
}

const struct verbs_provider *tei_verbs_in_use(void)
{
	return atomic_load(&provider);
}

static bool has_devices(void)
{
	const struct dirent *entry = NULL;
	DIR *dir = opendir(DEVICES);

	while (dir && (entry = readdir(dir)) && entry->d_name[0] == '.')
		;
	if (dir)
		(void)closedir(dir);
	return entry;
}

/* NULL: there is none, or no device for it; @why says so. */
static const struct verbs_provider *find(const char *path, char *why)
{
	const struct verbs_provider *api = tei_verbs_in_use();

	if (api)
		return api;
	if (!has_devices()) {
		(void)snprintf(why, TEI_MODULE_ERROR_LEN,
			       "no device in " DEVICES);
		return NULL;
	}
	api = tei_module_load(path, "te_verbs", "tei_verbs_provider",
			      VERBS_PROVIDER_ABI, why);
	if (api)
		tei_verbs_use(api);
	return api;
}

/* Passes devices on, and knows that there was one. */
struct count {
	const struct tei_search *search;
	unsigned int n;
};

static int found(const struct tei_device *device, void *arg)
{
	struct count *count = arg;

	count->n++;
	return count->search->found(device, count->search->arg);
}

int tei_verbs_probe(const struct tei_search *search)
{
	char why[TEI_MODULE_ERROR_LEN] = "no port of any device can be used";
	struct count count = {.search = search};
	int rc;

	rc = tei_verbs_ports_find(find(search->module_path, why),
				  search->config, found, &count);
	if (rc || count.n)
		return rc;
	if (search->named)
		LOG_ERROR("backend verbs: not used: %s", why);
	else
		LOG_DEBUG("backend verbs: not used: %s", why);
	return 0;
}
