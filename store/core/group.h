/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - objects that their writers want to be evicted together */
#ifndef STORE_CORE_GROUP_H
#define STORE_CORE_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"

struct tes_core;
struct tes_extra;

/* Objects that are evicted together; there as long as it has members. */
struct tes_group {
	struct tei_hash_node node;
	uint16_t tenant;         /* of all of them */
	struct tei_list members; /* struct tes_extra */
	size_t name_len;
	char name[];
};

/* -ENOMEM. */
int tes_core_group_join(struct tes_core *core, struct tes_extra *x,
			const char *name, size_t len);
/* Nothing when it is in none. The last one's leave is the group's end. */
void tes_core_group_leave(struct tes_core *core, struct tes_extra *x);

#endif
