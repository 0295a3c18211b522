/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h - engines for tests, one line each
 *
 * Everything fails the running test when it goes wrong.
 */
#ifndef TESTS_UNIT_TE_RIG_H
#define TESTS_UNIT_TE_RIG_H

#include <string.h>

#include <te/te.h>

#include "tests/lib/stat.h"
#include "tests/lib/test.h"

#define RIG_ANY     (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)
#define RIG_WAIT_MS 60000

/* @settings: name, value, ..., NULL. */
static inline struct te_engine *rig_engine(const char *const settings[])
{
	struct te_config *config;
	struct te_engine *engine;
	char error[256] = "";

	assert_int_equal(te_config_create(&config), 0);
	for (; settings && *settings; settings += 2) {
		if (te_config_set(config, settings[0], settings[1], error,
				  sizeof(error)))
			fail_msg("%s", error);
	}
	assert_int_equal(te_engine_create(config, "127.0.0.1", &engine), 0);
	te_config_destroy(config);
	return engine;
}

/* @name: of the host, or its address with a port. */
static inline struct te_engine *rig_engine_named(const char *name)
{
	struct te_config *config;
	struct te_engine *engine;

	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_engine_create(config, name, &engine), 0);
	te_config_destroy(config);
	return engine;
}

static inline te_region_id rig_region(struct te_engine *engine, void *addr,
				      uint64_t length, uint32_t access)
{
	struct te_region region = {
		.addr = addr, .length = length, .access = access};
	te_region_id id;

	assert_int_equal(te_region_add(engine, &region, &id), 0);
	return id;
}

static inline te_segment_id rig_segment(struct te_engine *engine,
					const struct te_engine *owner)
{
	te_segment_id id;

	assert_int_equal(te_segment_open(engine, te_engine_name(owner),
					 RIG_WAIT_MS, &id),
			 0);
	return id;
}

static inline struct te_request rig_request(te_segment_id segment, uint32_t op,
					    const void *remote,
					    const struct iovec *piece)
{
	return (struct te_request){.op = op,
				   .segment = segment,
				   .remote = (uintptr_t)remote,
				   .pieces = piece,
				   .n_pieces = 1};
}

/* Bytes none of which is like its neighbours; by words, for TSan's sake. */
static inline void rig_fill(uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
		uint64_t x = (i + 8) * 0x9e3779b97f4a7c15;

		memcpy(bytes + i, &x, sizeof(x));
	}
}

/* A submitted request, alone in its batch. */
static inline struct te_batch *rig_submit(struct te_engine *engine,
					  const struct te_request *request)
{
	struct te_batch *batch;

	assert_int_equal(te_batch_create(engine, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, request, 1), 0);
	return batch;
}

/* Awaits the end of the one request of the batch, which it destroys. */
static inline struct te_completion rig_end(struct te_batch *batch)
{
	struct te_completion completion;

	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, &completion, 1), 1);
	te_batch_destroy(batch);
	return completion;
}

static inline struct te_completion rig_run(struct te_engine *engine,
					   const struct te_request *request)
{
	return rig_end(rig_submit(engine, request));
}

static inline int rig_move(struct te_engine *engine, te_segment_id segment,
			   uint32_t op, const void *remote, void *local,
			   size_t len)
{
	struct iovec piece = {local, len};
	struct te_request request = rig_request(segment, op, remote, &piece);

	return rig_run(engine, &request).error;
}

#endif
