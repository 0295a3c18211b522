/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - settings of the ofi backend
 *
 * The same in every build, also where the headers of libfabric were missing.
 */
#ifndef OFI_CONFIG_H
#define OFI_CONFIG_H

#include <stdint.h>

#include "base/conf.h"

#define OFI_DEPTH_MAX 4096 /* operations of one endpoint in flight */

struct ofi_config {
	char *provider;       /* "efa,cxi": libfabric's names, best first */
	char *devices;        /* "eth0,rdmap0s6"; NULL, "", "all": every one */
	uint64_t depth;       /* operations of one endpoint in flight */
	uint64_t completions; /* that a rail has room for */
	uint64_t chunk;       /* most bytes of one key; 0: all of a region */
	uint64_t bounce;      /* bytes of bounce buffers */
	uint64_t endpoints;   /* to peers, of a rail; 0: as the provider has */
};

#define OFI_SETTINGS 7
extern const struct tei_setting tei_ofi_settings[OFI_SETTINGS];

#endif
