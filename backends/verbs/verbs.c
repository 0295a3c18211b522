/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.c - the verbs backend: its table of operations
 *
 * NICs read and write memory of the target one-sided: its CPU has no part in
 * it.
 */
#include "backends/verbs/verbs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>

#include "base/log.h"
#include "base/net.h"

/*
 * The provider, loaded when this host has devices.
 *
 * Most hosts have none: they pay for one look at /sys.
 */

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

/* Returns 1 where the kernel has devices, else 0; -EMFILE, -ENFILE: unknown. */
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

/*
 * Loads the provider and has it in use, unless it cannot be loaded, or there is
 * no device for it: @why says so.
 */
static int find_device(const char *path, char *why)
{
	const struct verbs_provider *api = tei_verbs_in_use();
	int rc = api ? 1 : has_devices();

	if (!rc)
		(void)snprintf(why, TEI_MODULE_ERROR_LEN,
			       "no device in " DEVICES);
	if (rc <= 0)
		return rc;
	/* libibverbs leaves devices out when descriptors run out. */
	rc = tei_fds_spare(DESCRIPTORS);
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

static int verbs_probe(const struct tei_search *search)
{
	char why[TEI_MODULE_ERROR_LEN] = "no port of any device can be used";
	struct count count = {.search = search};
	int rc = find_device(search->module_path, why);

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

static int verbs_region_add(struct tei_rail *rail, uint64_t id, void *addr,
			    uint64_t length, uint32_t access, void *key,
			    size_t *len)
{
	return tei_verbs_region_add(&verbs_rail(rail)->regions, id, addr,
				    length, access, key, len);
}

static int verbs_region_hide(struct tei_rail *rail, uint64_t id)
{
	return tei_verbs_region_hide(&verbs_rail(rail)->regions, id);
}

static void verbs_region_remove(struct tei_rail *rail, uint64_t id)
{
	tei_verbs_region_remove(&verbs_rail(rail)->regions, id);
}

extern const struct tei_backend_ops tei_backend_verbs;
const struct tei_backend_ops tei_backend_verbs = {
	.name = "verbs",
	.abi = TEI_BACKEND_ABI,
	.caps = TEI_CAP_REMOTE | TEI_CAP_ONE_SIDED | TEI_CAP_DEVICE_MEM,
	.rail_size = sizeof(struct verbs_rail),
	.endpoint_size = sizeof(struct verbs_endpoint),
	.slice_size = sizeof(struct verbs_slice),
	.settings = tei_verbs_settings,
	.n_settings = VERBS_SETTINGS,
	.config_size = sizeof(struct verbs_config),
	.probe = verbs_probe,
	.rail_open = tei_verbs_rail_open,
	.rail_close = tei_verbs_rail_close,
	.rail_describe = tei_verbs_rail_describe,
	.rail_match = tei_verbs_rail_match,
	.region_add = verbs_region_add,
	.region_hide = verbs_region_hide,
	.region_remove = verbs_region_remove,
	.endpoint_open = tei_verbs_endpoint_open,
	.endpoint_connect = tei_verbs_endpoint_connect,
	.endpoint_way = tei_verbs_endpoint_way,
	.endpoint_close = tei_verbs_endpoint_close,
	.post = tei_verbs_post,
	.cancel = tei_verbs_cancel,
	.flush = tei_verbs_flush,
	.drop = tei_verbs_drop,
	.progress = tei_verbs_progress,
	.wait_fd = tei_verbs_wait_fd,
	.arm = tei_verbs_arm,
};
