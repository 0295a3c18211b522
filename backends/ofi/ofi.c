/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ofi.c - the ofi backend: its table of operations
 *
 * Providers of libfabric read and write memory of the target one-sided: its
 * engine has no part in it, though a provider that is software may use its CPU
 * while the rail is driven.
 */
#include "backends/ofi/ofi.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/net.h"
#include "base/text.h"

/*
 * The provider, loaded when the settings name one that is used.
 *
 * By default they do not, so that most engines never load libfabric.
 */

#define DESCRIPTORS 24 /* of a rail, and while domains are listed */

/* Set once it is loaded: two at once find the same table. */
static const struct ofi_provider *_Atomic provider;

void tei_ofi_use(const struct ofi_provider *api)
{
	assert(!api || api->module.abi == OFI_PROVIDER_ABI);
	atomic_store(&provider, api);
}

const struct ofi_provider *tei_ofi_in_use(void)
{
	return atomic_load(&provider);
}

/* NULL: it cannot be loaded, or is too old; @why says so. */
static const struct ofi_provider *load_module(const char *path, char *why)
{
	const struct ofi_provider *api = tei_ofi_in_use();
	uint32_t version;

	if (api)
		return api;
	api = tei_module_load(path, "te_ofi", "tei_ofi_provider",
			      OFI_PROVIDER_ABI, why);
	if (!api)
		return NULL;
	version = api->version();
	if (FI_VERSION_LT(version, OFI_VERSION)) {
		(void)snprintf(why, TEI_MODULE_ERROR_LEN,
			       "libfabric is %u.%u, older than %u.%u",
			       FI_MAJOR(version), FI_MINOR(version),
			       FI_MAJOR(OFI_VERSION), FI_MINOR(OFI_VERSION));
		return NULL;
	}
	tei_ofi_use(api);
	return api;
}

/* Passes devices on, and knows that there was one. */
struct count {
	const struct tei_search *search;
	unsigned int n;
};

static int count_found(const struct tei_device *device, void *arg)
{
	struct count *count = arg;

	count->n++;
	return count->search->found(device, count->search->arg);
}

static int find_domains(const struct tei_search *search, struct count *count,
			struct ofi_choice *choice, char *why)
{
	const struct ofi_config *config = search->config;
	const struct ofi_provider *api;
	int rc = tei_ofi_wants(config, !tei_ofi_in_use(), choice);

	if (rc <= 0)
		return rc;
	/* The library lists nothing when the process has no descriptors. */
	rc = tei_fds_spare(DESCRIPTORS);
	if (rc)
		return rc;
	api = load_module(search->module_path, why);
	if (!api)
		return 0;
	return tei_ofi_nics_find(api, config, count_found, count, choice);
}

static void tell_choice(const struct ofi_choice *choice)
{
	uint32_t version = tei_ofi_in_use()->version();

	LOG_INFO("backend ofi: libfabric %u.%u: %s%s%s", FI_MAJOR(version),
		 FI_MINOR(version), choice->used,
		 *choice->left ? "; left out: " : "", choice->left);
}

/*
 * Tells that there is no device. @why: of the library, or "". -EINVAL: one is
 * named.
 */
static int tell_absence(const struct tei_search *search,
			const struct ofi_choice *choice, const char *why)
{
	const struct ofi_config *config = search->config;
	const char *devices = config->devices;
	const char *said = *why            ? why
			   : *choice->left ? choice->left
					   : "ofi.provider names none";

	if (!tei_words_mean_all(devices)) {
		LOG_ERROR("ofi.devices: no domain is called %s: %s", devices,
			  said);
		return -EINVAL;
	}
	if (search->named)
		LOG_WARN("backend ofi: not used: %s", said);
	else
		LOG_DEBUG("backend ofi: not used: %s", said);
	return 0;
}

static int ofi_probe(const struct tei_search *search)
{
	char why[TEI_MODULE_ERROR_LEN] = "";
	struct count count = {.search = search};
	struct ofi_choice choice = {.reason = NULL};
	int rc = find_domains(search, &count, &choice, why);

	if (rc)
		return rc;
	if (!count.n)
		return tell_absence(search, &choice, why);
	tell_choice(&choice);
	return 0;
}

/* ---- who reaches whom ---- */

static int ofi_rail_describe(struct tei_rail *rail, void *blob, size_t *len)
{
	return tei_ofi_self_encode(&ofi_rail(rail)->nic.self, blob, len);
}

/* Rails of a provider that has several fabrics are expected to be connected. */
static void tell_other_fabric(const struct ofi_nic *nic,
			      const struct ofi_self *other)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (!nic->kind->fabric || strcmp(nic->self.provider, other->provider) ||
	    !strcmp(nic->self.fabric, other->fabric))
		return;
	if (tei_log_allowed(&limit))
		LOG_WARN("rail %s: a peer's rail is not reached: it goes by "
			 "fabric %s of provider %s, not by %s",
			 nic->name, other->fabric, other->provider,
			 nic->self.fabric);
}

static int ofi_rail_match(struct tei_rail *base, const struct tei_address *peer,
			  const void *blob, size_t len)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct ofi_rail *rail = ofi_rail(base);
	struct ofi_self other;
	const char *fault;

	(void)peer;
	if (!len) /* it is not to be used yet */
		return 0;
	fault = tei_ofi_self_decode(blob, len, &other);
	if (!fault) {
		tell_other_fabric(&rail->nic, &other);
		return tei_ofi_match(&rail->nic.self, &other);
	}
	base->bad_frames++;
	if (tei_log_allowed(&limit))
		LOG_WARN(
			"rail %s: a peer's description of its rail is refused: "
			"%s",
			rail->nic.name, fault);
	return 0;
}

/* ---- regions ---- */

static int ofi_region_add(struct tei_rail *rail, uint64_t id, void *addr,
			  uint64_t length, uint32_t access, void *key,
			  size_t *len)
{
	return tei_ofi_region_add(&ofi_rail(rail)->regions, id, addr, length,
				  access, key, len);
}

static bool ofi_key_covers(const void *bytes, size_t len, uint64_t address,
			   uint64_t *room)
{
	struct ofi_key key;

	*room = UINT64_MAX;
	return !tei_ofi_key_decode(bytes, len, &key) &&
	       tei_ofi_key_covers(&key, address, room);
}

static int ofi_region_hide(struct tei_rail *rail, uint64_t id)
{
	bool kick;
	int rc = tei_ofi_region_hide(&ofi_rail(rail)->regions, id, &kick);

	if (kick)
		tei_ofi_kick(ofi_rail(rail));
	return rc;
}

static void ofi_region_remove(struct tei_rail *rail, uint64_t id)
{
	tei_ofi_region_remove(&ofi_rail(rail)->regions, id);
}

extern const struct tei_backend_ops tei_backend_ofi;
const struct tei_backend_ops tei_backend_ofi = {
	.name = "ofi",
	.abi = TEI_BACKEND_ABI,
	.caps = TEI_CAP_REMOTE | TEI_CAP_ONE_SIDED | TEI_CAP_DEVICE_MEM |
		TEI_CAP_EFA,
	.rail_size = sizeof(struct ofi_rail),
	.endpoint_size = sizeof(struct ofi_endpoint),
	.slice_size = sizeof(struct ofi_slice),
	.settings = tei_ofi_settings,
	.n_settings = OFI_SETTINGS,
	.config_size = sizeof(struct ofi_config),
	.probe = ofi_probe,
	.rail_open = tei_ofi_rail_open,
	.rail_close = tei_ofi_rail_close,
	.rail_describe = ofi_rail_describe,
	.rail_match = ofi_rail_match,
	.region_add = ofi_region_add,
	.key_covers = ofi_key_covers,
	.region_hide = ofi_region_hide,
	.region_remove = ofi_region_remove,
	.endpoint_open = tei_ofi_endpoint_open,
	.endpoint_connect = tei_ofi_endpoint_connect,
	.endpoint_way = tei_ofi_endpoint_way,
	.endpoint_close = tei_ofi_endpoint_close,
	.post = tei_ofi_post,
	.cancel = tei_ofi_cancel,
	.flush = tei_ofi_flush,
	.drop = tei_ofi_drop,
	.progress = tei_ofi_progress,
	.wait_fd = tei_ofi_wait_fd,
	.arm = tei_ofi_arm,
};
