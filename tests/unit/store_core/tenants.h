/* SPDX-License-Identifier: Apache-2.0 */
/* tenants.h - a pool of two tenants, "red" and "blue" */
#ifndef TESTS_UNIT_STORE_CORE_TENANTS_H
#define TESTS_UNIT_STORE_CORE_TENANTS_H

#include "tests/unit/store_core/charges.h"
#include "tests/unit/store_core/rig.h"

#define KIB 1024u

/* Sessions: 1 the owner (without a quota), 2 and 4 of "red", 3 of "blue". */
enum { OWNER = 1, RED, BLUE, RED2 };

static inline void join(struct rig *r, tes_session_id s, const char *tenant)
{
	char letter = (char)('a' + s);

	rig_tenant = tenant;
	assert_int_equal(rig_join(r, s, letter, letter), 0);
	rig_tenant = NULL;
	rig_plain(r, TES_EVENT_HEARTBEAT, s);
}

static inline void begin(struct rig *r, uint64_t pool, uint64_t red,
			 uint64_t blue)
{
	struct tes_core_config c = rig_config;

	c.tenants = true;
	rig_init(r, &c);
	assert_int_equal(tes_core_tenant_set(r->core, "red", red), 0);
	assert_int_equal(tes_core_tenant_set(r->core, "blue", blue), 0);
	join(r, OWNER, NULL);
	join(r, RED, "red");
	join(r, BLUE, "blue");
	join(r, RED2, "red");
	assert_int_equal(rig_mount(r, OWNER, 'm', 0x10000, pool), 0);
}

static inline void end(struct rig *r)
{
	assert_true(charges_exact(r->core));
	rig_fini(r);
}

static inline void name(char out[16], const char *prefix, int i)
{
	snprintf(out, 16, "%s%d", prefix, i % 10000);
}

#endif
