/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - the rows of the ofi backend's settings */
#include "backends/ofi/config.h"

#include <stddef.h>

const struct tei_setting tei_ofi_settings[OFI_SETTINGS] = {
	{TEI_SETTING_AS(struct ofi_config, provider, "ofi.provider"),
	 .type = TEI_CONF_STRING, .env = "TE_OFI_PROVIDER", .def = "efa,cxi",
	 .help = "providers of libfabric that are used, best first; verbs, tcp and net only if named here"},
	{TEI_SETTING_AS(struct ofi_config, devices, "ofi.devices"),
	 .type = TEI_CONF_STRING, .env = "TE_OFI_DEVICES",
	 .help = "domains of the providers (rdmap0s6, eth0), each a rail; default: all but lo"},
	{TEI_SETTING_AS(struct ofi_config, depth, "ofi.depth"), .expert = true,
	 .type = TEI_CONF_UINT, .def = "128", .min = 1, .max = OFI_DEPTH_MAX,
	 .help = "operations in flight of an endpoint, if the provider has room"},
	{TEI_SETTING_AS(struct ofi_config, completions, "ofi.completions"),
	 .expert = true, .type = TEI_CONF_UINT, .def = "32767", .min = 16,
	 .max = 1 << 24, .help = "that a rail has room for"},
	{TEI_SETTING_AS(struct ofi_config, chunk, "ofi.chunk"), .expert = true,
	 .type = TEI_CONF_SIZE, .def = "0", .unit = "bytes", .max = 1LL << 46,
	 .help = "most memory of one key; 0: all of a region"},
	{TEI_SETTING_AS(struct ofi_config, bounce, "ofi.bounce"),
	 .expert = true, .type = TEI_CONF_SIZE, .def = "4194304",
	 .unit = "bytes", .max = 1 << 30,
	 .help = "as verbs.bounce, where the provider wants local memory registered"},
	{TEI_SETTING_AS(struct ofi_config, endpoints, "ofi.endpoints"),
	 .expert = true, .type = TEI_CONF_UINT, .def = "0", .max = 1 << 20,
	 .help = "as endpoints, of a rail of this backend; 0: half of what a provider without connections has"},
};
