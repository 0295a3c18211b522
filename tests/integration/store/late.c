/* SPDX-License-Identifier: Apache-2.0 */
/* late.c - processes that stand still in the middle of a call */
#include "tests/integration/store/late.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

const struct late_way late_tcp = {
	.name = "tcp", .backends = "loop,tcp", .mapped = true};
const struct late_way late_verbs = {.name = "verbs",
				    .backends = "loop,verbs",
				    .mapped = true,
				    .by_device = true};
/* Its library writes to sockets by itself, where no middle is to be had. */
const struct late_way late_ofi_tcp = {.name = "ofi, provider tcp",
				      .backends = "loop,ofi",
				      .mapped = true,
				      .by_device = true};
const struct late_way late_ofi_net = {.name = "ofi, provider net",
				      .backends = "loop,ofi",
				      .mapped = true,
				      .by_device = true};
const struct late_way late_ofi_verbs = {.name = "ofi, provider verbs",
					.backends = "loop,ofi",
					.mapped = true,
					.by_device = true};
const struct late_way late_mapped = {.name = "shm, mapped",
				     .mapped = true,
				     .by_itself = true,
				     .marked = true};
const struct late_way late_foreign = {.name = "shm, by process copy",
				      .marked = true};

void late_start(struct late *l, const struct late_way *way,
		const char *const *args)
{
	*l = (struct late){.way = way};
	if (way->backends)
		setenv("TE_BACKENDS", way->backends, 1);
	else
		unsetenv("TE_BACKENDS");
	pool_start(&l->pool, args);
	l->cram.store = cram_owner(l->pool.address, way->mapped);
}

void late_stop(struct late *l)
{
	te_store_close(l->cram.store);
	pool_stop(&l->pool);
}

unsigned long late_rounds(unsigned long otherwise)
{
	const char *times = getenv("TE_TEST_FENCES");

	return times ? strtoul(times, NULL, 10) : otherwise;
}

struct test_process *late_begin(const struct late *l, const char *what,
				const char *key, uint64_t size,
				const char *point)
{
	bool page = l->way->by_itself && !strcmp(point, "middle");
	char bytes[32];
	const char *const args[] = {
		l->pool.address,      what, key, bytes, point,
		page ? "page" : NULL, NULL};
	struct test_process *p;

	(void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)size);
	p = test_process_start("store_halter", args);
	assert_non_null(test_process_line(p, "ready", POOL_START_MS));
	return p;
}

void late_halt(struct test_process *p)
{
	assert_non_null(test_process_line(p, "halted", POOL_START_MS));
	test_process_signal(p, SIGSTOP);
}

struct late_end late_go_on(struct test_process *p)
{
	struct late_end end = {.code = 0};
	const char *line;

	test_process_signal(p, SIGCONT);
	line = test_process_line(p, "done ", POOL_START_MS);
	assert_non_null(line);
	assert_int_equal(sscanf(line, "done %d %7s %llu", &end.code, end.bytes,
				&end.stale),
			 3);
	assert_int_equal(test_process_wait(p, POOL_START_MS), 0);
	test_process_end(p);
	return end;
}
