/* SPDX-License-Identifier: Apache-2.0 */
/* direct.c - the table of clients that have an engine of their own */
#include "store/client/client.h"

#define VERB(name, parameters, arguments) .name = tes_direct_##name,

/* clang-format off */
const struct tes_store_ops tes_direct_ops = {
	.close = tes_direct_close,
	.engine = tes_direct_engine,
	.hostname = tes_direct_hostname,
	.health = tes_direct_health,
	.reg = tes_direct_register,
	.unreg = tes_direct_unregister,
	.stats = tes_direct_stats,
	TES_VERBS_OF_BOTH(VERB)
	TES_VERBS_OF_DIRECT(VERB)
};
/* clang-format on */
