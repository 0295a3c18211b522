/* SPDX-License-Identifier: Apache-2.0 */
/* dummy.c - life of a client without an engine; memory that it shares */
#include "store/daemon/dummy.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "store/client/client.h"

#define CALL_MS     1000
#define REPLICA_MS  1000
#define SETUP_MS    5000
#define RETRY_MS    20
#define COPIES_MIN  (64ull << 20) /* address space; pages come when touched */
#define N_ADDRESSES 8

/* ---- status ---- */

/* 0: the daemon is in its pool. @type: STATUS, POOL. */
static int ask_status(struct tes_dummy *dummy, uint16_t type,
		      struct tei_arena *arena, Agent__StatusReply **out)
{
	uint64_t ms = dummy->call_ms, deadline;
	struct tes_dummy_conn *conn;
	const uint8_t *body;
	size_t len;
	int code;

	deadline = tei_now_ns() + 2 * ms * TEI_NS_PER_MS;
	code = tes_dummy_connect(dummy, tei_now_ns() + ms * TEI_NS_PER_MS,
				 &conn);
	if (code)
		return code;
	code = tes_dummy_exchange(conn, type, NULL, arena, deadline, &body,
				  &len);
	tes_dummy_release(dummy, conn, code, NULL);
	if (code)
		return code;
	*out = agent__status_reply__unpack(&arena->pb, len, body);
	return *out ? 0 : tes_bad_reply("daemon");
}

static int check_daemon(struct tes_dummy *dummy)
{
	struct tei_arena arena;
	Agent__StatusReply *status;
	int code;

	tei_arena_init(&arena, 64u << 10);
	code = ask_status(dummy, AGENT__AGENT_TYPE__AGENT_STATUS, &arena,
			  &status);
	if (!code)
		code = status->health ? TE_STORE_RPC_FAIL : 0;
	if (!code && !*dummy->hostname) {
		size_t len = strnlen(status->hostname, TEI_NAME_LEN_MAX);

		memcpy(dummy->hostname, status->hostname, len);
	}
	tei_arena_fini(&arena);
	return code;
}

static int dummy_health(struct te_store *store)
{
	return check_daemon(store->dummy) ? TE_STORE_RPC_FAIL : 0;
}

static int dummy_pool(struct te_store *store, struct te_store_pool *out)
{
	struct tei_arena arena;
	Agent__StatusReply *status;
	int code;

	tei_arena_init(&arena, 64u << 10);
	code = ask_status(store->dummy, AGENT__AGENT_TYPE__AGENT_POOL, &arena,
			  &status);
	if (!code)
		code = status->pool_code;
	if (!code) {
		memset(out, 0, sizeof(*out));
		out->capacity_bytes = status->capacity_bytes;
		out->used_bytes = status->used_bytes;
		out->objects = status->objects;
		out->owners = status->owners;
		out->clients = status->clients;
		out->evicted_objects = status->evicted_objects;
		out->evicted_bytes = status->evicted_bytes;
		out->master_metadata_bytes = status->master_metadata_bytes;
		out->master_key_bytes = status->master_key_bytes;
	}
	tei_arena_fini(&arena);
	return code;
}

static struct te_engine *dummy_engine(struct te_store *store)
{
	(void)store;
	return NULL;
}

static const char *dummy_hostname(struct te_store *store)
{
	return store->dummy->hostname;
}

static void dummy_stats(struct te_store *store, struct te_store_stats *out)
{
	memset(out, 0, sizeof(*out));
	out->local_buffer_bytes = store->dummy->copies.bytes;
}

/* Any memory will do: a registration only says where it ends. */
static int dummy_register(struct te_store *store, void *addr, uint64_t length)
{
	int rc;

	if (!tei_is_mapped((uintptr_t)addr, length))
		return TE_STORE_INVALID_PARAMS;
	rc = tes_addresses_add(&store->addresses, (uintptr_t)addr, length);
	if (!rc)
		tes_addresses_keep(&store->addresses, (uintptr_t)addr, 0,
				   false);
	return tes_store_code(rc);
}

static int dummy_unregister(struct te_store *store, void *addr)
{
	te_region_id none;

	return addr && tes_addresses_take(&store->addresses, (uintptr_t)addr,
					  &none)
		       ? 0
		       : TE_STORE_INVALID_PARAMS;
}

/* ---- memory ---- */

static void *dummy_pool_alloc(struct te_store *store, uint64_t length)
{
	struct te_store_buffer *buffer =
		length ? tes_buffer_take(&store->dummy->user, length) : NULL;

	return buffer ? buffer->data : NULL;
}

static int dummy_pool_free(struct te_store *store, void *addr)
{
	struct te_store_buffer *buffer =
		addr ? tes_buffer_find(&store->dummy->user, addr) : NULL;

	if (!buffer)
		return TE_STORE_INVALID_PARAMS;
	tes_buffer_destroy(buffer);
	return 0;
}

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + TES_DUMMY_PAGE - 1) / TES_DUMMY_PAGE * TES_DUMMY_PAGE;
}

static int map_memory(struct tes_dummy *dummy, uint64_t copies)
{
	void *at;
	int fd;

	dummy->bytes = dummy->user_bytes + copies;
	fd = tes_sealed_create(dummy->bytes);
	if (fd < 0)
		return fd;
	at = mmap(NULL, dummy->bytes, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (at == MAP_FAILED) {
		(void)close(fd);
		return -ENOMEM;
	}
	dummy->memfd = fd;
	dummy->memory = at;
	atomic_store(&dummy->pinned,
		     tes_pins_add(&dummy->pins, "memory shared with the daemon",
				  at, dummy->bytes));
	return 0;
}

static void unmap_memory(struct tes_dummy *dummy)
{
	tes_dummy_unpin(dummy);
	(void)munmap(dummy->memory, dummy->bytes);
	(void)close(dummy->memfd);
}

static int open_memory(struct tes_dummy *dummy, const struct te_store_config *c)
{
	uint64_t copies = whole_pages(c->local_buffer_bytes);
	int rc;

	if (copies < COPIES_MIN)
		copies = COPIES_MIN;
	dummy->user_bytes = whole_pages(c->pool_bytes);
	rc = map_memory(dummy, copies);
	if (rc)
		return rc;
	rc = -ENOMEM;
	dummy->replaced = tei_calloc(dummy->bytes / TES_DUMMY_PAGE / 8 + 1, 1);
	if (!dummy->replaced)
		goto err_memory;
	rc = tes_buffers_init_over(&dummy->user, dummy->memory,
				   dummy->user_bytes);
	if (rc)
		goto err_bits;
	rc = tes_buffers_init_over(&dummy->copies,
				   dummy->memory + dummy->user_bytes, copies);
	if (!rc)
		return 0;
	tes_buffers_fini(&dummy->user);
err_bits:
	tei_free(dummy->replaced);
err_memory:
	unmap_memory(dummy);
	assert(rc < 0);
	return rc;
}

static void close_memory(struct tes_dummy *dummy)
{
	tes_buffers_fini(&dummy->copies);
	tes_buffers_fini(&dummy->user);
	tei_free(dummy->replaced);
	unmap_memory(dummy);
}

/* ---- setup ---- */

/* A daemon is of this host. 0, -600. */
static int find_daemon(struct tes_dummy *dummy, const char *daemon)
{
	struct tei_address at[N_ADDRESSES];
	char host[TEI_HOST_LEN_MAX + 1];
	int n;

	if (*daemon == '/') {
		dummy->path = strlen(daemon) < TES_AGENT_PATH_MAX
				      ? tei_strdup(daemon)
				      : NULL;
		return dummy->path ? 0 : TE_STORE_INVALID_PARAMS;
	}
	if (tei_name_split(daemon, host, &dummy->port) || !dummy->port)
		return TE_STORE_INVALID_PARAMS;
	n = tei_resolve(host, dummy->port, at, N_ADDRESSES);
	for (int i = 0; i < n; i++)
		if (tei_address_is_local(&at[i])) {
			dummy->at = at[i];
			return 0;
		}
	LOG_ERROR("store: daemon %s: not on this host", daemon);
	return TE_STORE_INVALID_PARAMS;
}

static int wait_healthy(struct tes_dummy *dummy, uint64_t timeout_ms)
{
	const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000};
	uint64_t deadline = tei_now_ns() + timeout_ms * TEI_NS_PER_MS;
	int code;

	while ((code = check_daemon(dummy)) && tei_now_ns() < deadline)
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	return code;
}

static bool config_holds(const struct te_store_config *c)
{
	return tes_config_holds(c) && c->pool_bytes <= TE_LENGTH_MAX / 4 &&
	       c->local_buffer_bytes <= TE_LENGTH_MAX / 4 && !c->engine &&
	       !c->segment_bytes && !c->master && !c->host && !c->tenant;
}

static void name_memory(struct tes_dummy *dummy)
{
	struct tes_addresses *a = dummy->addresses;

	a->pool_begin = (uintptr_t)dummy->memory;
	a->pool_end = a->pool_begin + dummy->user_bytes;
	a->shared_end = a->pool_begin + dummy->bytes;
	a->pool = &dummy->user;
}

static int start_dummy(struct tes_dummy *dummy, const struct te_store_config *c)
{
	int code = find_daemon(dummy, c->daemon), rc;

	if (code)
		return code;
	rc = open_memory(dummy, c);
	if (rc) {
		LOG_ERROR("store: %" PRIu64 " bytes to share with the daemon "
			  "cannot be had: %s",
			  dummy->bytes, te_strerror(rc));
		return TE_STORE_INTERNAL_ERROR;
	}
	name_memory(dummy);
	if (c->setup_timeout_ms == TE_STORE_NO_WAIT)
		return 0;
	code = wait_healthy(dummy, c->setup_timeout_ms ? c->setup_timeout_ms
						       : SETUP_MS);
	if (!code)
		return 0;
	tes_dummy_disconnect(dummy);
	close_memory(dummy);
	return code;
}

static void init(struct tes_dummy *dummy, const struct te_store_config *c)
{
	dummy->call_ms = c->call_timeout_ms ? c->call_timeout_ms : CALL_MS;
	dummy->replica_ms =
		c->replica_timeout_ms ? c->replica_timeout_ms : REPLICA_MS;
	dummy->pid = getpid();
	tes_pins_init(&dummy->pins, c->pin_mib);
	tei_mutex_init(&dummy->mu);
	tei_cond_init(&dummy->freed);
	tei_list_init(&dummy->idle);
	tei_list_init(&dummy->late);
}

static void destroy(struct te_store *store)
{
	tes_addresses_fini(&store->addresses);
	tei_cond_fini(&store->dummy->freed);
	tei_mutex_fini(&store->dummy->mu);
	tei_free(store->dummy->path);
	tei_free(store->dummy);
	tei_free(store);
}

int tes_dummy_setup(const struct te_store_config *config, struct te_store **out)
{
	struct te_store *store;
	int code;

	if (!config_holds(config)) {
		LOG_ERROR("store: a daemon's client has neither engine nor "
			  "segment nor master nor tenant of its own");
		return TE_STORE_INVALID_PARAMS;
	}
	store = tei_calloc(1, sizeof(*store));
	if (store)
		store->dummy = tei_calloc(1, sizeof(*store->dummy));
	if (!store || !store->dummy) {
		tei_free(store);
		return TE_STORE_INTERNAL_ERROR;
	}
	store->ops = &tes_dummy_ops;
	tes_addresses_init(&store->addresses);
	init(store->dummy, config);
	store->dummy->addresses = &store->addresses;
	code = start_dummy(store->dummy, config);
	if (code) {
		LOG_ERROR("store: cannot use the daemon %s: %s", config->daemon,
			  te_store_strerror(code));
		destroy(store);
		return code;
	}
	*out = store;
	return 0;
}

static void dummy_close(struct te_store *store)
{
	tes_dummy_disconnect(store->dummy);
	close_memory(store->dummy);
	destroy(store);
}

#define VERB(name, parameters, arguments) .name = tes_dummy_##name,

/* clang-format off */
const struct tes_store_ops tes_dummy_ops = {
	.close = dummy_close,
	.engine = dummy_engine,
	.hostname = dummy_hostname,
	.health = dummy_health,
	.reg = dummy_register,
	.unreg = dummy_unregister,
	.stats = dummy_stats,
	.pool = dummy_pool,
	.pool_alloc = dummy_pool_alloc,
	.pool_free = dummy_pool_free,
	TES_VERBS_OF_BOTH(VERB)
};
/* clang-format on */
