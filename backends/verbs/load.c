/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c - the provider, loaded when this host has devices
 *
 * Most hosts have none: they pay for one look at /sys.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "backends/verbs/verbs.h"
#include "base/log.h"

#define DEVICES     "/sys/class/infiniband"
#define DESCRIPTORS 8 /* of a rail, and while devices are listed */

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

static bool is_shortage(int err)
{
	return err == EMFILE || err == ENFILE;
}

/* 1 or 0; -EMFILE, -ENFILE: unknown. */
static int has_devices(void)
{
	const struct dirent *entry;
	DIR *dir = opendir(DEVICES);

	if (!dir)
		return is_shortage(errno) ? -errno : 0;
	do {
		entry = readdir(dir);
	} while (entry && entry->d_name[0] == '.');
	(void)closedir(dir);
	return entry != NULL;
}

/* What libibverbs has no descriptors to look at, it does not list. */
static int check_descriptors(void)
{
	int fds[DESCRIPTORS], n = 0, rc = 0;

	while (n < DESCRIPTORS && !rc) {
		fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (fds[n] < 0)
			rc = -errno;
		else
			n++;
	}
	while (n)
		(void)close(fds[--n]);
	return is_shortage(-rc) ? rc : 0;
}

/* Have it in use, unless there is none, or no device for it: @why says so. */
static int find(const char *path, char *why)
{
	const struct verbs_provider *api = tei_verbs_in_use();
	int rc = api ? 1 : has_devices();

	if (!rc)
		(void)snprintf(why, TEI_MODULE_ERROR_LEN,
			       "no device in " DEVICES);
	if (rc <= 0)
		return rc;
	rc = check_descriptors();
	if (api || rc)
		return rc;
	api = tei_module_load(path, "te_verbs", "tei_verbs_provider",
			      VERBS_PROVIDER_ABI, why);
	if (api)
		tei_verbs_use(api);
	return 0;
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
	int rc = find(search->module_path, why);

	if (!rc)
		rc = tei_verbs_ports_find(tei_verbs_in_use(), search->config,
					  found, &count);
	if (rc || count.n)
		return rc;
	if (search->named)
		LOG_ERROR("backend verbs: not used: %s", why);
	else
		LOG_DEBUG("backend verbs: not used: %s", why);
	return 0;
}
