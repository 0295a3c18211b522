/* SPDX-License-Identifier: Apache-2.0 */
/* leak.c - an engine that learns what it may not know */
#include "tests/integration/store/leak.h"

#include "te/control/peer.h"
#include "te/core/engine.h"
#include "te/region/description.h"
#include "tests/lib/test.h"

struct leak {
	struct tei_peer *from, *to;
};

/* On the stranger's loop, where descriptions come in. */
static void tell(void *arg)
{
	const struct leak *leak = arg;
	struct tei_remote *stolen, *old;

	tei_mutex_lock(&leak->from->engine->mu);
	stolen = tei_remote_get(leak->from->announced.remote);
	tei_mutex_unlock(&leak->from->engine->mu);
	tei_mutex_lock(&leak->to->engine->mu);
	old = leak->to->announced.remote;
	leak->to->announced.remote = stolen;
	tei_mutex_unlock(&leak->to->engine->mu);
	tei_remote_put(old);
	tei_peer_post_news(leak->to);
}

void leak_regions(struct te_engine *member, struct te_engine *stranger,
		  const char *owner)
{
	struct leak leak;

	assert_int_equal(tei_peer_get(member, owner, &leak.from), 0);
	assert_int_equal(tei_peer_get(stranger, owner, &leak.to), 0);
	assert_true(tei_loop_do(stranger->loop, tell, &leak));
}
