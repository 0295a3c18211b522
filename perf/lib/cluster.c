/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster.c - a pool of real processes on loopback: a master and its owners
 */
#include "perf/lib/cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "perf/lib/backends.h"

#define READY_TEXT    "Master service started on port "
#define READY_MS      60000
#define MOUNT_MS      60000 /* all owners, which may touch much memory */
#define STOP_MS       30000
#define CALL_MS       30000 /* how long it takes is what is measured */
#define LOOK_MS       2
#define EXTENT_HEADER 64 /* bytes that every extent begins with */

static int start_master(struct tei_cluster *c)
{
	char path[PATH_MAX], port[] = "--port=0", http[] = "--metrics_port=0";
	char address[] = "--rpc_address=127.0.0.1", rest[16];
	char http_address[] = "--metrics_host=127.0.0.1";
	char *argv[] = {path, port, address, http, http_address, NULL};
	int rc = tei_process_path("mooncake_master", path);

	if (!rc)
		rc = tei_process_start_server(&c->master, "mooncake_master",
					      argv);
	if (!rc)
		rc = tei_process_await_log(&c->master, READY_TEXT, rest,
					   sizeof(rest), READY_MS);
	if (!rc)
		snprintf(c->name, sizeof(c->name), "127.0.0.1:%d", atoi(rest));
	return rc;
}

static int start_owner(struct tei_cluster *c, uint64_t bytes)
{
	char path[PATH_MAX], host[] = "--host=127.0.0.1", port[] = "--port=0";
	char master[TE_NAME_LEN_MAX + 32], size[64];
	char directory[] = "--metadata_server=P2PHANDSHAKE";
	char *argv[] = {path, host, port, directory, master, size, NULL};
	int rc = tei_process_path("mooncake_client", path);

	if (rc)
		return rc;
	snprintf(master, sizeof(master), "--master_server_address=%s", c->name);
	snprintf(size, sizeof(size), "--global_segment_size=%" PRIu64, bytes);
	rc = tei_process_start_server(&c->owner[c->n_owners], "mooncake_client",
				      argv);
	c->n_owners += !rc;
	return rc;
}

int tei_cluster_start(struct tei_cluster *c, unsigned int n_owners,
		      uint64_t pool_bytes, int node)
{
	struct tei_node_policy old = {.node = TEI_NODE_ANY};
	int rc;

	memset(c, 0, sizeof(*c));
	rc = start_master(c);
	if (!rc)
		rc = tei_node_begin(node, &old);
	while (!rc && c->n_owners < n_owners)
		rc = start_owner(c, pool_bytes / n_owners & ~4095ull);
	tei_node_end(&old);
	if (rc)
		tei_cluster_stop(c);
	return rc;
}

static bool all_alive(const struct tei_cluster *c)
{
	for (unsigned int i = 0; i < c->n_owners; i++)
		if (!tei_process_alive(&c->owner[i]))
			return false;
	return tei_process_alive(&c->master);
}

int tei_cluster_await(struct tei_cluster *c, struct te_store *store)
{
	uint64_t deadline = tei_now_ms() + MOUNT_MS;
	struct te_store_pool pool;

	while (te_store_pool(store, &pool) || pool.owners < c->n_owners) {
		if (!all_alive(c)) {
			fprintf(stderr, "pool: a server has ended early\n");
			return -ECHILD;
		}
		if (tei_now_ms() > deadline) {
			fprintf(stderr, "pool: not complete in time\n");
			return -ETIMEDOUT;
		}
		poll(NULL, 0, LOOK_MS);
	}
	return 0;
}

int tei_cluster_stop(struct tei_cluster *c)
{
	int bad = 0;

	while (c->n_owners)
		bad |= tei_process_stop(&c->owner[--c->n_owners], STOP_MS);
	bad |= tei_process_stop(&c->master, STOP_MS);
	return bad ? -EIO : 0;
}

/*
 * Sets the backends of an engine; NULL: those of the protocol. -errno, said on
 * stderr behind @who.
 */
static int choose_backends(const char *who, struct te_config *engine,
			   const char *backends)
{
	char error[256];
	int rc = 0;

	if (backends)
		rc = te_config_set(engine, "backends", backends, error,
				   sizeof(error));
	if (rc)
		fprintf(stderr, "%s: %s\n", who, error);
	return rc;
}

int tei_backends_check(const char *program, const char *backends)
{
	struct te_engine *engine = NULL;
	struct te_config *config;
	int rc;

	if (!backends || !strcmp(backends, "auto"))
		return 0;
	if (!tei_backends_given(program, "backends", backends))
		return -EINVAL;
	rc = te_config_create(&config);
	if (rc)
		return rc;
	rc = choose_backends(program, config, backends);
	if (!rc)
		rc = te_engine_create(config, "127.0.0.1", &engine);
	if (rc && rc != -EINVAL) /* which was said already */
		fprintf(stderr, "%s: backends: \"%s\": %s\n", program, backends,
			te_strerror(rc));
	te_engine_destroy(engine);
	te_config_destroy(config);
	return rc;
}

int tei_pool_join_as(struct te_store_config *config, const char *backends,
		     struct te_store **out)
{
	char who[300];
	struct te_config *engine;
	int code, rc = te_config_create(&engine);

	config->size = sizeof(*config);
	config->call_timeout_ms = CALL_MS;
	config->replica_timeout_ms = CALL_MS;
	if (rc) {
		fprintf(stderr, "pool %s: cannot join: %s\n", config->master,
			te_strerror(rc));
		return rc;
	}
	(void)snprintf(who, sizeof(who), "pool %s: cannot join",
		       config->master);
	rc = choose_backends(who, engine, backends);
	if (!rc) {
		config->engine_config = engine;
		code = te_store_setup(config, out); /* has said why not */
		rc = code ? -ECONNREFUSED : 0;
		if (code)
			fprintf(stderr, "pool %s: cannot join: %s\n",
				config->master, te_store_strerror(code));
	}
	te_config_destroy(engine);
	config->engine_config = NULL;
	return rc;
}

int tei_pool_join(const char *master, const char *host, const char *backends,
		  struct te_store **out)
{
	struct te_store_config config = {.master = master, .host = host};

	return tei_pool_join_as(&config, backends, out);
}

uint64_t tei_pool_extent_bytes(uint64_t block_bytes)
{
	return (block_bytes + EXTENT_HEADER + 63) & ~63ull;
}
