/* SPDX-License-Identifier: Apache-2.0 */
/*
 * absent.c - the verbs backend where the headers of libibverbs were missing
 *
 * The backend takes the same settings and finds no device: an engine that asks
 * for one by name is refused, as on a host without that device.
 */
#include <errno.h>

#include "backends/verbs/config.h"
#include "base/log.h"
#include "base/text.h"
#include "te/backend.h"

#define WHY "this build is without libibverbs"

static int find_nothing(const struct tei_search *search)
{
	const struct verbs_config *config = search->config;
	const char *devices = config->devices;

	if (!tei_words_mean_all(devices)) {
		LOG_ERROR("verbs.devices: no device is called %s: " WHY,
			  devices);
		return -EINVAL;
	}
	if (search->named)
		LOG_ERROR("backend verbs: not used: " WHY);
	else
		LOG_DEBUG("backend verbs: not used: " WHY);
	return 0;
}

/* Has no rail, so only probe() is ever called. */
extern const struct tei_backend_ops tei_backend_verbs;
const struct tei_backend_ops tei_backend_verbs = {
	.name = "verbs",
	.abi = TEI_BACKEND_ABI,
	.caps = TEI_CAP_REMOTE | TEI_CAP_ONE_SIDED,
	.settings = tei_verbs_settings,
	.n_settings = VERBS_SETTINGS,
	.config_size = sizeof(struct verbs_config),
	.probe = find_nothing,
};
