/* SPDX-License-Identifier: Apache-2.0 */
/* transfer_engine_bench.h - the parts of transfer_engine_bench */
#ifndef CMD_TRANSFER_ENGINE_BENCH_H
#define CMD_TRANSFER_ENGINE_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include <te/te.h>

#include "base/glog.h"

#define BENCH "transfer_engine_bench"

struct bench_settings {
	char *mode, *operation, *protocol, *device_name, *nic_priority_matrix;
	char *local_server_name, *metadata_server, *segment_id;
	char *report_unit, *backend, *gpu_id;
	uint64_t buffer_size, block_size, batch_size, threads;
	uint64_t duration; /* ms */
	uint64_t report_precision, v;
	bool init_mem, use_vram, insecure, auto_discovery;
	struct tei_glog glog;
};

/* "--setting value: why" on stderr; 2. */
int bench_complain(const char *setting, const char *value, const char *why);
/* Whether names are addresses: there is no directory. */
bool bench_is_p2p(const struct bench_settings *s);
/* 0, or the exit code; what is wrong has been said. */
int bench_open_engine(const struct bench_settings *s, struct te_engine **out);

/*
 * Each thread has one batch in flight at a time, over @batch blocks of its own,
 * which lie at the same places on both sides, one thread's behind the other's.
 */
struct bench {
	struct te_engine *engine; /* not owned */
	te_segment_id segment;
	uint32_t op;     /* TE_READ, TE_WRITE */
	char *local;     /* local[n_threads * batch * block] */
	uint64_t remote; /* address of as much in the segment */
	uint64_t block;  /* bytes */
	uint32_t batch, n_threads;
	uint64_t duration_ms;
};

struct bench_result {
	uint64_t n_batches;  /* of all threads */
	uint64_t elapsed_ns; /* until the last of them ended */
	uint32_t rail;       /* the last one that carried; ~0: none */
};

/*
 * Blocks for the duration, and until what is in flight then has ended. The first
 * request that fails ends all of it and is the error; or -ENOMEM, -EAGAIN
 * (threads).
 */
int bench_run(const struct bench *bench, struct bench_result *out);

#endif
