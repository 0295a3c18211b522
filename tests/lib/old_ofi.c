/* SPDX-License-Identifier: Apache-2.0 */
/* old_ofi.c - a te_ofi.so whose libfabric is older than any that is driven */
#include "backends/ofi/provider.h"

static uint32_t version(void)
{
	return FI_VERSION(1, 16);
}

extern const struct ofi_provider tei_ofi_provider;
TEI_MODULE_EXPORT const struct ofi_provider tei_ofi_provider = {
	.module.abi = OFI_PROVIDER_ABI,
	.version = version,
};
