/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - those who watch learn what is there and what is no more */
#include "store/core/watch.h"

#include <string.h>

#include "store/core/group.h"
#include "store/core/object.h"
#include "store/core/state.h"
#include "store/core/tenant.h"

void tes_core_told(const struct tes_core *core, const struct tes_object *o,
		   enum tes_core_news news)
{
	const char *tenant = tes_core_tenant_of(core, o)->name;
	const struct tes_extra *x = tes_core_object_extra(o);
	struct tes_core_item item = {
		.key = {o->key, o->key_len},
		.tenant = {tenant, strlen(tenant)},
	};

	if (x && x->group)
		item.group = (struct tes_core_key){x->group->name,
						   x->group->name_len};
	core->config.watch(news, &item, core->config.watch_arg);
}
