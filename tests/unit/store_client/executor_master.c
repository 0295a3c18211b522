/* SPDX-License-Identifier: Apache-2.0 */
/* executor_master.c - a master that a test bends, and owners that join it */
#include "tests/unit/store_client/executor_master.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/incarnation.h"
#include "store/proto/protocol.h"
#include "tests/lib/test.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"

struct master master;

static struct owner *owner_of(const char *engine)
{
	int i;

	for (i = 0; i < master.n_owners; i++)
		if (strcmp(master.owners[i].name, engine) == 0)
			return &master.owners[i];
	assert_true(master.n_owners < MASTER_OWNERS);
	(void)snprintf(master.owners[i].name, sizeof(master.owners[i].name),
		       "%s", engine);
	return &master.owners[master.n_owners++];
}

static struct owner *owner_at(const struct tei_frame_conn *heart)
{
	int i = 0;

	while (master.owners[i].heart != heart)
		i++;
	return &master.owners[i];
}

static void on_hello(struct tei_frame_conn *conn, const struct tei_frame *f)
{
	static uint8_t group[TES_STORE_GROUP_LEN];
	Store__HelloReply reply = STORE__HELLO_REPLY__INIT;
	Store__Hello *hello = store__hello__unpack(NULL, f->len, f->body);
	struct owner *o;

	assert_non_null(hello);
	assert_true(hello->features & TES_STORE_EXECUTES);
	o = owner_of(hello->engine);
	assert_int_equal(hello->engine_secret.len, TES_STORE_ENGINE_LEN);
	assert_int_equal(
		tei_incarnation(hello->engine_secret.data, o->incarnation), 0);
	if (hello->heartbeat) {
		o->heart = conn;
		atomic_fetch_add(&master.n_hearts, 1);
	}
	store__hello__free_unpacked(hello, NULL);
	reply.features = TES_STORE_PADS;
	reply.epoch = master.epoch;
	reply.digest_seed = master.seed;
	reply.heartbeat_ms = 50;
	reply.client_ttl_ms = 10000;
	reply.group.data = group;
	reply.group.len = sizeof(group);
	(void)tei_frame_reply(conn, f, &reply.base);
}

static void close_all(void)
{
	while (master.n_conns)
		tei_frame_close(master.conns[--master.n_conns]);
	for (int i = 0; i < master.n_owners; i++)
		master.owners[i].heart = NULL;
}

static void on_mount(struct tei_frame_conn *conn, const struct tei_frame *f)
{
	Store__Mount *mount = store__mount__unpack(NULL, f->len, f->body);
	Store__Status reply = STORE__STATUS__INIT;

	assert_non_null(mount);
	owner_of(mount->name)->base = (uint8_t *)(uintptr_t)mount->address;
	assert_int_equal(mount->segment.len, sizeof(master.segment));
	memcpy(master.segment, mount->segment.data, sizeof(master.segment));
	store__mount__free_unpacked(mount, NULL);
	atomic_fetch_add(&master.n_mounts, 1);
	if (atomic_load(&master.n_lost)) {
		if (atomic_fetch_sub(&master.n_lost, 1) == 1 && master.lost)
			master.lost();
		close_all();
		return;
	}
	reply.kept = master.kept;
	(void)tei_frame_reply(conn, f, &reply.base);
}

static void on_offer(struct tei_frame_conn *conn, const struct tei_frame *f)
{
	Store__Offer *offer = store__offer__unpack(NULL, f->len, f->body);
	Store__OfferReply reply = STORE__OFFER_REPLY__INIT;
	bool last, silent;
	size_t n;

	assert_non_null(offer);
	n = offer->objects->n_key_lens;
	last = offer->last;
	store__offer__free_unpacked(offer, NULL);
	reply.n_object = n;
	reply.object = calloc(n + 1, sizeof(*reply.object));
	for (size_t i = 0; i < n; i++)
		reply.object[i] = master.refusal;
	silent = last && master.n_silent;
	if (!silent)
		(void)tei_frame_reply(conn, f, &reply.base);
	master.n_silent -= silent;
	free(reply.object);
	atomic_fetch_add(&master.n_offered, (int)n);
	atomic_fetch_add(&master.n_last_offers, last);
}

static void on_frame(struct tei_frame_conn *conn, const struct tei_frame *f,
		     void *arg)
{
	Store__HeartbeatReply beat = STORE__HEARTBEAT_REPLY__INIT;
	Store__Status status = STORE__STATUS__INIT;

	(void)arg;
	switch (f->type) {
	case STORE__STORE_TYPE__STORE_HELLO:
		on_hello(conn, f);
		break;
	case STORE__STORE_TYPE__STORE_HEARTBEAT:
		beat.epoch = master.epoch;
		beat.remount = !owner_at(conn)->base;
		(void)tei_frame_reply(conn, f, &beat.base);
		break;
	case STORE__STORE_TYPE__STORE_MOUNT:
		on_mount(conn, f);
		break;
	case STORE__STORE_TYPE__STORE_OFFER:
		on_offer(conn, f);
		break;
	case STORE__STORE_TYPE__STORE_TASK_DONE:
		if (master.answer)
			store__task_done__free_unpacked(master.answer, NULL);
		master.answer = store__task_done__unpack(NULL, f->len, f->body);
		assert_non_null(master.answer);
		atomic_fetch_add(&master.n_answers, 1);
		break;
	default:
		(void)tei_frame_reply(conn, f, &status.base);
		break;
	}
}

static void on_down(struct tei_frame_conn *conn, int err, const char *text,
		    void *arg)
{
	int i;

	(void)err;
	(void)text;
	(void)arg;
	for (i = 0; i < master.n_owners; i++)
		if (master.owners[i].heart == conn)
			master.owners[i].heart = NULL;
	for (i = 0; master.conns[i] != conn;)
		i++;
	master.conns[i] = master.conns[--master.n_conns];
	tei_frame_close(conn);
}

static void on_accepted(struct tei_frame_conn *conn, void *arg)
{
	(void)arg;
	assert_true(master.n_conns < MASTER_CONNS);
	master.conns[master.n_conns++] = conn;
}

static const struct tei_frame_ops ops = {.frame = on_frame, .down = on_down};

static void do_listen(void *arg)
{
	const struct tei_frame_server_config config = {
		.protocol = &tes_store_protocol,
		.host = "127.0.0.1",
		.n_max = MASTER_CONNS,
		.ops = &ops,
		.accepted = on_accepted,
	};

	(void)arg;
	master.rc = tei_frame_listen(master.loop, &config, &master.port,
				     &master.server);
}

static void do_close(void *arg)
{
	(void)arg;
	tei_frame_server_close(master.server);
	while (master.n_conns)
		tei_frame_close(master.conns[--master.n_conns]);
}

struct change {
	uint64_t epoch, seed;
	bool kept;
};

void master_change_now(uint64_t epoch, uint64_t seed, bool kept)
{
	close_all();
	for (int i = 0; i < master.n_owners; i++)
		master.owners[i].base = NULL;
	master.epoch = epoch;
	master.seed = seed;
	master.kept = kept;
}

static void do_change(void *arg)
{
	const struct change *to = arg;

	master_change_now(to->epoch, to->seed, to->kept);
}

void master_change(uint64_t epoch, uint64_t seed, bool kept)
{
	struct change to = {epoch, seed, kept};

	assert_true(tei_loop_do(master.loop, do_change, &to));
}

static struct te_store *join(void)
{
	struct te_store *store = NULL;
	char address[32];
	const struct te_store_config config = {
		.size = sizeof(config),
		.setup_timeout_ms = POOL_START_MS,
		.call_timeout_ms = POOL_START_MS,
		.replica_timeout_ms = POOL_START_MS,
		.master = address,
		.segment_bytes = MASTER_BYTES,
	};

	(void)snprintf(address, sizeof(address), "127.0.0.1:%u",
		       (unsigned int)master.port);
	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

/* On the loop, which knows the owners. */
static void do_name(void *store)
{
	owner_of(te_store_hostname(store))->store = store;
}

int master_set_up(void **state)
{
	int i;

	(void)state;
	memset(&master, 0, sizeof(master));
	master.epoch = MASTER_EPOCH;
	master.seed = MASTER_SEED;
	assert_int_equal(tei_loop_create("master", &master.loop), 0);
	assert_true(tei_loop_do(master.loop, do_listen, NULL));
	assert_int_equal(master.rc, 0);
	for (i = 0; i < MASTER_OWNERS; i++) {
		struct te_store *store = join();

		assert_true(tei_loop_do(master.loop, do_name, store));
	}
	return 0;
}

int master_tear_down(void **state)
{
	int i;

	(void)state;
	fake_te_set_hook(NULL, NULL);
	for (i = 0; i < MASTER_OWNERS; i++)
		te_store_close(master.owners[i].store);
	assert_true(tei_loop_do(master.loop, do_close, NULL));
	tei_loop_stop(master.loop);
	tei_loop_destroy(master.loop);
	if (master.answer)
		store__task_done__free_unpacked(master.answer, NULL);
	return 0;
}
