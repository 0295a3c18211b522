/* SPDX-License-Identifier: Apache-2.0 */
/*
 * absent.c - the ofi backend where the headers of libfabric were missing
 *
 * The backend takes the same settings and finds no device: an engine that asks
 * for one by name is refused, as on a host without that device.
 */
#include <errno.h>

#include "backends/ofi/config.h"
#include "base/log.h"
#include "base/text.h"
#include "te/backend.h"

#define WHY "this build is without libfabric"

static int find_nothing(const struct tei_search *search)
{
	const struct ofi_config *config = search->config;
	const char *devices = config->devices;

	if (!tei_words_mean_all(devices)) {
		LOG_ERROR("ofi.devices: no device is called %s: " WHY, devices);
		return -EINVAL;
	}
	if (search->named)
		LOG_WARN("backend ofi: not used: " WHY);
	else
		LOG_DEBUG("backend ofi: not used: " WHY);
	return 0;
}

/* Has no rail, so only probe() is ever called. */
extern const struct tei_backend_ops tei_backend_ofi;
const struct tei_backend_ops tei_backend_ofi = {
	.name = "ofi",
	.abi = TEI_BACKEND_ABI,
	.caps = TEI_CAP_REMOTE | TEI_CAP_ONE_SIDED,
	.settings = tei_ofi_settings,
	.n_settings = OFI_SETTINGS,
	.config_size = sizeof(struct ofi_config),
	.probe = find_nothing,
};
