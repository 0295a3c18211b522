/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late.h - processes that stand still in the middle of a call, and a pool that
 * goes on without them
 */
#ifndef TESTS_INTEGRATION_STORE_LATE_H
#define TESTS_INTEGRATION_STORE_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/integration/store/cram.h"
#include "tests/store/pool.h"

/* How they move bytes. */
struct late_way {
	const char *name;
	const char *backends; /* NULL: by itself, which is shm */
	bool mapped;          /* the memory, by them */
	bool by_itself;       /* the process copies: a page can stop it */
	bool marked;          /* a write's middle is in a marked chunk */
	bool by_device;       /* whom it does not stop: no middle */
};

extern const struct late_way late_tcp, late_verbs, late_ofi_tcp, late_ofi_net,
	late_ofi_verbs, late_mapped, late_foreign;

struct late {
	const struct late_way *way; /* not owned */
	struct pool pool;
	struct cram cram; /* of the only owner */
};

/* @args: more arguments of the master, ends with NULL. */
void late_start(struct late *l, const struct late_way *way,
		const char *const *args);
void late_stop(struct late *l);
/* How many rounds TE_TEST_FENCES wants; @otherwise: when it says nothing. */
unsigned long late_rounds(unsigned long otherwise);

/* A process that is about to do @what with @key, up to @point: halter.c. */
struct test_process *late_begin(const struct late *l, const char *what,
				const char *key, uint64_t size,
				const char *point);
/* It stands still there. */
void late_halt(struct test_process *p);

/* What it says of its call, and of requests that came late. */
struct late_end {
	int code;
	char bytes[8]; /* "old", "new", "none", "other" */
	unsigned long long stale;
};

/* It goes on and ends. */
struct late_end late_go_on(struct test_process *p);

#endif
