/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h - two engines, a segment between them, and short ways to use it
 *
 * The owner publishes memory, the user reaches it by one backend. A backend
 * that reaches only itself has one engine in both parts. Everything here fails
 * the running test when it goes wrong.
 *
 * The memory of each side is the host's or a GPU's. A processor that touches a
 * GPU's address gets a signal, so tests give addresses to the engines and look
 * at the bytes behind them: rig_bytes(), `there` and `here`.
 */
#ifndef CONFORMANCE_RIG_H
#define CONFORMANCE_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/te.h>

#include "tests/lib/test.h"

#define RIG_LEN     ((size_t)8 << 20) /* bytes of the owner's open region */
#define RIG_WAIT_MS 200000
#define RIG_ANY     (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

struct rig {
	struct te_engine *owner, *user;
	te_segment_id segment;
	te_region_id region;
	uint8_t *
		memory; /* memory[RIG_LEN] of the owner, remote read and write */
	uint8_t *there; /* the bytes of it */
	uint8_t *local; /* local[RIG_LEN] of the user; see rig_local_add() */
	uint8_t *here;  /* the bytes of it */
};

extern const char *rig_variant; /* of the test: "shm.foreign.gpu_local" */
extern const char *rig_name;    /* without its places: "shm.foreign" */
extern const char *rig_backend; /* "shm", or a list */
extern const char *const *rig_settings; /* more; NULL: none */
extern bool rig_remote_gpu;             /* the owner's memory is a GPU's */
extern bool rig_local_gpu;              /* the user's is */
extern bool rig_arena;       /* what peers reach is te_memory_alloc()ed */
extern bool rig_nic;         /* moves the bytes, and not the owner's CPU:
				 * it keeps all of a region where it is, and
				 * says no more than "refused" or "silent" */
extern bool rig_self;        /* it reaches only its own engine */
extern bool rig_one_process; /* it reaches only its own process */

/* Starts the driver of GPUs; ends it, and nothing of them is left. */
void rig_gpus_start(void);
void rig_gpus_stop(void);
/* The backend and the driver of GPUs; more can be set. */
struct te_config *rig_config(void);
struct te_engine *rig_engine(const char *name);
/*
 * Zeroed memory for regions of @owner. Arenas are freed with their engine at
 * the latest: then @owner is NULL.
 */
uint8_t *rig_memory(struct te_engine *owner, size_t len);
void rig_memory_free(struct te_engine *owner, uint8_t *memory);
/* RIG_LEN zeroed bytes for a user, until they are freed. */
uint8_t *rig_local(void);
void rig_local_free(uint8_t *local);
/* Registers them with a user, which only a GPU's need. */
void rig_local_add(struct te_engine *user, uint8_t *local);
/* Where a processor finds the bytes of an address of either kind. */
uint8_t *rig_bytes(void *addr);
void rig_open(struct rig *r);
void rig_close(struct rig *r);

/*
 * Publish r->memory anew. Needed before the test writes where a peer has read:
 * only when the region is unpinned has the owner's worker come back from the
 * system call by which the peer got its bytes (ThreadSanitizer minds).
 */
void rig_renew(struct rig *r);

te_region_id rig_region(struct te_engine *owner, void *addr, uint64_t length,
			uint32_t access, const uint8_t *group);
/* Bytes that depend on @seed, and whether they are there. */
void rig_fill(uint8_t *bytes, size_t len, unsigned int seed);
void rig_check(const uint8_t *bytes, size_t len, unsigned int seed);
/* Whether all RIG_LEN bytes are @value. */
bool rig_is_all(const uint8_t *bytes, uint8_t value);

/* A request of one piece. */
struct te_request rig_request(const struct rig *r, uint32_t op,
			      const void *remote, struct iovec *piece);
/* Submit one request, wait for its end. */
struct te_completion rig_run(struct te_engine *engine,
			     const struct te_request *request);
/* The error that it ends with. */
int rig_move(const struct rig *r, uint32_t op, const void *remote, void *local,
	     size_t len);
/* Submit all, wait; completions[n] in the order of requests. */
void rig_run_all(struct te_engine *engine, const struct te_request *requests,
		 size_t n, struct te_completion *completions);

/*
 * Whether the backend alone lets peers reach the owner's memory of a GPU; if not,
 * it gets tcp beside it.
 */
bool rig_find_way(void);

/* ---- another process ---- */

struct rig_peer {
	struct test_process *process;
	char name[TE_NAME_LEN_MAX + 1];
	uint64_t addr; /* of RIG_LEN bytes, remote read and write */
};

/* NULL: any port. */
void rig_peer_start(struct rig_peer *p, const char *name);
/* SIGKILL, and wait. */
void rig_peer_kill(struct rig_peer *p);
/* What main() does in that process. */
int rig_peer_main(const char *name);

/* ---- the groups of tests; main.c runs them ---- */

extern const struct CMUnitTest rig_data_tests[], rig_refusal_tests[],
	rig_load_tests[], rig_trouble_tests[], rig_limits_tests[],
	rig_gpu_tests[];
extern const size_t rig_n_data_tests, rig_n_refusal_tests, rig_n_load_tests,
	rig_n_trouble_tests, rig_n_limits_tests, rig_n_gpu_tests;

#endif
