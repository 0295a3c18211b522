/* SPDX-License-Identifier: Apache-2.0 */
/* staging.h - an owner of host memory, and a user of a GPU's */
#ifndef TESTS_UNIT_TE_STAGING_H
#define TESTS_UNIT_TE_STAGING_H

#include "tests/unit/te/gpu.h"

#define LEN GPU_LEN

static uint8_t host[LEN];

/* An owner of host memory, and a user of a GPU's. */
struct pair {
	struct te_engine *owner, *user;
	te_segment_id segment;
	te_region_id region;
	CUdeviceptr at; /* of cuda:1; at[LEN] */
	uint8_t *bytes; /* behind it */
};

/* Takes over the user's engine. */
static inline struct pair pair_of(const char *backends, struct te_engine *user)
{
	struct pair pair = {.owner = gpu_engine(backends, "1m"), .user = user};

	pair.at = fake_cuda_alloc(&cuda, 1, LEN);
	pair.bytes = cuda.bytes(pair.at);
	rig_region(pair.owner, host, LEN, RIG_ANY);
	pair.region = rig_region(pair.user, as_pointer(pair.at), LEN,
				 TE_ACCESS_LOCAL);
	pair.segment = rig_segment(pair.user, pair.owner);
	return pair;
}

static inline struct pair pair_open(const char *backends, const char *staging)
{
	return pair_of(backends, gpu_engine(backends, staging));
}

static inline void pair_close(struct pair *pair)
{
	te_engine_destroy(pair->user);
	te_engine_destroy(pair->owner);
	fake_cuda_free(&cuda, 1, pair->at);
}

static inline int move(const struct pair *pair, uint32_t op, size_t remote,
		       size_t local, size_t length)
{
	return rig_move(pair->user, pair->segment, op, host + remote,
			as_pointer(pair->at + local), length);
}

#endif
