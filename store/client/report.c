/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - tell the master that an owner does not answer us */
#include <string.h>

#include "store/client/client.h"
#include "store/proto/store.pb-c.h"

#define ARENA_MAX 4096

void tes_report_silent(void *arg, const uint8_t incarnation[TE_INCARNATION_LEN])
{
	struct te_store *store = arg;
	Store__Report msg = STORE__REPORT__INIT;
	struct tei_arena arena;

	if (!memcmp(incarnation, store->incarnation, TE_INCARNATION_LEN))
		return;
	msg.incarnation.data = (uint8_t *)(uintptr_t)incarnation;
	msg.incarnation.len = TE_INCARNATION_LEN;
	tei_arena_init(&arena, ARENA_MAX);
	tes_channel_tell(&store->channel, STORE__STORE_TYPE__STORE_REPORT,
			 &msg.base, &arena);
	tei_arena_fini(&arena);
}
