/* SPDX-License-Identifier: Apache-2.0 */
/* test_inbound.c - how long inbound peers and their links are remembered */
#include "te/control/inbound.h"

#include <string.h>

#include "te/core/engine.h"
#include "te/transfer/link.h"
#include "te/worker/worker.h"
#include "tests/unit/te/alone.h"

static const uint8_t who[TE_INCARNATION_LEN] = "somebody else";

static int set_up(void **state)
{
	(void)state;
	return alone_open(NULL);
}

/* As when a drop is queued at the worker while its lanes have just closed. */
static void link_goes_while_its_drop_is_queued(void *arg)
{
	struct tei_inbound_peer *inbound = tei_inbound_peer_get(engine, who);
	struct tei_link *link;

	link = tei_link_make(engine, engine->worker->rails[0]);
	assert_true(inbound && link);
	link->in.inbound = inbound;
	link->in.dropping = true;
	tei_list_add_tail(&inbound->links, &link->link);
	inbound->n_links++;
	tei_inbound_peer_link_gone(&link->in.gone);
	/* Now the last control connection ends ... */
	tei_inbound_peer_release(engine, inbound);
	/* ... and only then the worker comes to the drop. */
	tei_inbound_peer_link_late(&link->in.late);
	*(bool *)arg = !tei_inbound_peer_find(engine, who);
}

static void guest_lives_as_long_as_the_last_of_its_links(void **state)
{
	bool forgotten = false;

	(void)state;
	tei_loop_do(engine->loop, link_goes_while_its_drop_is_queued,
		    &forgotten);
	assert_true(forgotten);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			guest_lives_as_long_as_the_last_of_its_links, set_up,
			alone_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
