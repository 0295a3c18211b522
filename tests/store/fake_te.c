/* SPDX-License-Identifier: Apache-2.0 */
/* fake_te.c - an engine that a test can bend */
#include "tests/store/fake_te.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l/crc.h>
#include <te/gpu.h>

#include "base/clock.h"
#include "base/incarnation.h"
#include "base/log.h"

#define N_ENGINES 16
#define N_REGIONS 32
#define N_GROUPS  32

struct region {
	te_region_id id;
	struct te_region r;
	uint8_t group[TE_GROUP_SECRET_LEN];
};

/* A segment that an engine has open; its id is 1 + the owner's index. */
struct opened {
	uint64_t epoch, since_ns;
	uint8_t incarnation[TE_INCARNATION_LEN];
	unsigned int count;
};

struct te_engine {
	char name[64];
	unsigned int index;
	bool alive;
	uint8_t secret[TE_ENGINE_SECRET_LEN];
	uint8_t incarnation[TE_INCARNATION_LEN];
	struct region regions[N_REGIONS];
	uint8_t groups[N_GROUPS][TE_GROUP_SECRET_LEN];
	unsigned int n_groups, n_revokes, n_revoke_waits;
	uint64_t epochs[N_ENGINES]; /* in which we serve each peer */
	struct opened opened[N_ENGINES];
	uint64_t learns_at_ns; /* 0: when told to */
};

struct te_batch {
	struct te_engine *engine;
	uint32_t capacity, n;
	struct te_completion *done;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static enum fake_te_hold held;
static struct te_engine *engines[N_ENGINES];
static unsigned int n_lives;
static te_region_id last_region;
static fake_te_hook *hook;
static void *hook_arg;

int te_engine_create(const struct te_config *config, const char *name,
		     struct te_engine **out)
{
	struct te_engine *e = calloc(1, sizeof(*e));
	unsigned int i;

	(void)config;
	if (!e)
		return -ENOMEM;
	pthread_mutex_lock(&mu);
	for (i = 0; engines[i];)
		i++;
	engines[i] = e;
	e->index = i;
	e->alive = true;
	(void)snprintf(e->name, sizeof(e->name), "%s:%u",
		       name ? name : "127.0.0.1", 10000 + i);
	(void)snprintf((char *)e->secret, sizeof(e->secret), "life %u",
		       ++n_lives);
	if (tei_incarnation(e->secret, e->incarnation))
		abort();
	for (i = 0; i < N_ENGINES; i++)
		e->epochs[i] = 1;
	pthread_mutex_unlock(&mu);
	*out = e;
	return 0;
}

void te_engine_destroy(struct te_engine *e)
{
	if (!e)
		return;
	pthread_mutex_lock(&mu);
	engines[e->index] = NULL;
	pthread_mutex_unlock(&mu);
	free(e);
}

const char *te_engine_name(const struct te_engine *e)
{
	return e->name;
}

void te_engine_incarnation(const struct te_engine *e,
			   uint8_t out[TE_INCARNATION_LEN])
{
	memcpy(out, e->incarnation, TE_INCARNATION_LEN);
}

void te_engine_secret(const struct te_engine *e,
		      uint8_t out[TE_ENGINE_SECRET_LEN])
{
	memcpy(out, e->secret, TE_ENGINE_SECRET_LEN);
}

/* ---- memory ---- */

int te_region_add(struct te_engine *e, const struct te_region *r,
		  te_region_id *out)
{
	int rc = -ENOMEM;
	unsigned int i;

	pthread_mutex_lock(&mu);
	for (i = 0; i < N_REGIONS && rc; i++) {
		if (e->regions[i].id)
			continue;
		e->regions[i].r = *r;
		if (r->group)
			memcpy(e->regions[i].group, r->group,
			       TE_GROUP_SECRET_LEN);
		*out = e->regions[i].id = ++last_region;
		rc = 0;
	}
	pthread_mutex_unlock(&mu);
	return rc;
}

int te_region_remove(struct te_engine *e, te_region_id id)
{
	int rc = -ENOENT;
	unsigned int i;

	pthread_mutex_lock(&mu);
	for (i = 0; i < N_REGIONS; i++)
		if (e->regions[i].id == id) {
			e->regions[i].id = 0;
			rc = 0;
		}
	pthread_mutex_unlock(&mu);
	return rc;
}

int te_region_describe(struct te_engine *engine, te_region_id region,
		       struct te_region_facts *out)
{
	(void)engine;
	(void)region;
	*out = (struct te_region_facts){.memory = TE_MEMORY_HOST};
	return 0;
}

int te_region_remove_within(struct te_engine *engine, te_region_id region,
			    uint32_t timeout_ms)
{
	(void)timeout_ms;
	return te_region_remove(engine, region);
}

int te_memory_alloc(struct te_engine *e, uint64_t length, void **out)
{
	(void)e;
	if (posix_memalign(out, 4096, length))
		return -ENOMEM;
	memset(*out, 0, length);
	return 0;
}

int te_memory_alloc_at(struct te_engine *e, uint64_t length,
		       const char *location, void **out)
{
	(void)location;
	return te_memory_alloc(e, length, out);
}

void te_memory_free(struct te_engine *e, void *addr)
{
	(void)e;
	free(addr);
}

/* Nobody uses a GPU here. */
int te_gpu_pin(void *addr, uint64_t length)
{
	(void)addr;
	(void)length;
	return -ENODEV;
}

void te_gpu_unpin(void *addr)
{
	(void)addr;
}

int te_group_join(struct te_engine *e,
		  const uint8_t secret[TE_GROUP_SECRET_LEN])
{
	pthread_mutex_lock(&mu);
	memcpy(e->groups[e->n_groups++ % N_GROUPS], secret,
	       TE_GROUP_SECRET_LEN);
	pthread_mutex_unlock(&mu);
	return 0;
}

int te_group_leave(struct te_engine *e,
		   const uint8_t secret[TE_GROUP_SECRET_LEN])
{
	int rc = -ENOENT;

	pthread_mutex_lock(&mu);
	for (unsigned int i = 0; i < N_GROUPS && rc; i++) {
		if (memcmp(e->groups[i], secret, TE_GROUP_SECRET_LEN) != 0)
			continue;
		memset(e->groups[i], 0, TE_GROUP_SECRET_LEN);
		rc = 0;
	}
	pthread_mutex_unlock(&mu);
	return rc;
}

/* ---- peers ---- */

static struct te_engine *by_name(const char *name)
{
	unsigned int i;

	for (i = 0; i < N_ENGINES; i++)
		if (engines[i] && strcmp(engines[i]->name, name) == 0)
			return engines[i];
	return NULL;
}

static void learn(struct te_engine *e, const struct te_engine *owner)
{
	struct opened *o = &e->opened[owner->index];

	o->epoch = owner->epochs[e->index];
	o->since_ns = tei_now_ns();
	memcpy(o->incarnation, owner->incarnation, TE_INCARNATION_LEN);
}

int te_segment_open(struct te_engine *e, const char *name, uint32_t timeout_ms,
		    te_segment_id *out)
{
	struct te_engine *owner;
	int rc = -ETIMEDOUT;

	(void)timeout_ms;
	pthread_mutex_lock(&mu);
	owner = by_name(name);
	if (owner && owner->alive) {
		struct opened *o = &e->opened[owner->index];

		if (!o->count++ || memcmp(o->incarnation, owner->incarnation,
					  TE_INCARNATION_LEN) != 0)
			learn(e, owner);
		*out = 1 + owner->index;
		rc = 0;
	}
	pthread_mutex_unlock(&mu);
	return rc;
}

int te_peer_probe(struct te_engine *e, const char *name, uint32_t timeout_ms,
		  uint64_t *rtt_us)
{
	const struct te_engine *owner;
	bool alive;

	(void)e;
	(void)timeout_ms;
	(void)rtt_us;
	pthread_mutex_lock(&mu);
	owner = by_name(name);
	alive = owner && owner->alive;
	pthread_mutex_unlock(&mu);
	return alive ? 0 : -ETIMEDOUT;
}

void te_segment_close(struct te_engine *e, te_segment_id id)
{
	pthread_mutex_lock(&mu);
	e->opened[id - 1].count--;
	pthread_mutex_unlock(&mu);
}

int te_segment_incarnation(struct te_engine *e, te_segment_id id,
			   uint8_t out[TE_INCARNATION_LEN])
{
	pthread_mutex_lock(&mu);
	memcpy(out, e->opened[id - 1].incarnation, TE_INCARNATION_LEN);
	pthread_mutex_unlock(&mu);
	return 0;
}

static void learn_all(struct te_engine *e)
{
	unsigned int i;

	for (i = 0; i < N_ENGINES; i++)
		if (engines[i] && e->opened[i].count)
			learn(e, engines[i]);
}

int te_segment_epoch(struct te_engine *e, te_segment_id id, uint64_t *epoch,
		     uint64_t *since_ns)
{
	pthread_mutex_lock(&mu);
	if (e->learns_at_ns && e->learns_at_ns <= tei_now_ns()) {
		e->learns_at_ns = 0;
		learn_all(e);
	}
	*epoch = e->opened[id - 1].epoch;
	*since_ns = e->opened[id - 1].since_ns;
	pthread_mutex_unlock(&mu);
	return 0;
}

void fake_te_hold_revokes(enum fake_te_hold hold)
{
	pthread_mutex_lock(&mu);
	held = hold;
	pthread_cond_broadcast(&freed);
	pthread_mutex_unlock(&mu);
}

static int await_free(void)
{
	int rc;

	pthread_mutex_lock(&mu);
	while (held == FAKE_TE_STUCK)
		pthread_cond_wait(&freed, &mu);
	rc = held == FAKE_TE_LATE ? -ETIMEDOUT : 0;
	pthread_mutex_unlock(&mu);
	if (rc)
		(void)poll(NULL, 0, 1);
	return rc;
}

int te_peer_revoke(struct te_engine *e,
		   const uint8_t incarnation[TE_INCARNATION_LEN],
		   uint32_t timeout_ms)
{
	unsigned int i;

	(void)timeout_ms;
	pthread_mutex_lock(&mu);
	for (i = 0; i < N_ENGINES; i++)
		if (!incarnation ||
		    (engines[i] && memcmp(engines[i]->incarnation, incarnation,
					  TE_INCARNATION_LEN) == 0))
			e->epochs[i]++;
	e->n_revokes++;
	pthread_mutex_unlock(&mu);
	return await_free();
}

int te_peer_revoke_wait(struct te_engine *e,
			const uint8_t incarnation[TE_INCARNATION_LEN],
			uint32_t timeout_ms)
{
	(void)incarnation;
	(void)timeout_ms;
	pthread_mutex_lock(&mu);
	e->n_revoke_waits++;
	pthread_mutex_unlock(&mu);
	return await_free();
}

/* ---- batches ---- */

static bool in_group(const struct te_engine *e, const struct region *region)
{
	unsigned int i;

	for (i = 0; i < e->n_groups && i < N_GROUPS; i++)
		if (memcmp(e->groups[i], region->group, TE_GROUP_SECRET_LEN) ==
		    0)
			return true;
	return !region->r.group;
}

static uint64_t length_of(const struct te_request *req)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < req->n_pieces; i++)
		sum += req->pieces[i].iov_len;
	return sum;
}

static int access_error(const struct te_engine *e,
			const struct te_engine *owner,
			const struct te_request *req)
{
	uint64_t length = length_of(req);
	unsigned int i;

	for (i = 0; i < N_REGIONS; i++) {
		const struct region *region = &owner->regions[i];
		uint64_t base = (uint64_t)(uintptr_t)region->r.addr;

		if (!region->id || !region->r.access || !in_group(e, region))
			continue;
		if (req->remote >= base &&
		    req->remote + length <= base + region->r.length)
			return 0;
	}
	return -EFAULT;
}

static void move(const struct te_request *req, struct te_completion *done)
{
	uint8_t *remote = (uint8_t *)(uintptr_t)req->remote;
	uint32_t i;

	for (i = 0; i < req->n_pieces; i++) {
		const struct iovec *p = &req->pieces[i];

		if (req->op == TE_READ)
			memcpy(p->iov_base, remote + done->bytes, p->iov_len);
		else
			memcpy(remote + done->bytes, p->iov_base, p->iov_len);
		done->bytes += p->iov_len;
	}
	done->crc = te_crc32c(0, remote + req->crc_from, req->crc_len);
}

static int check(struct te_engine *e, const struct te_request *req)
{
	struct te_engine *owner = engines[req->segment - 1];
	struct opened *o = &e->opened[req->segment - 1];
	uint64_t epoch = req->epoch ? req->epoch : o->epoch;

	if (!owner || !owner->alive)
		return req->flags & TE_FAIL_FAST ? -ECONNREFUSED : -ETIMEDOUT;
	if (memcmp(o->incarnation, owner->incarnation, TE_INCARNATION_LEN) != 0)
		return -ESTALE;
	if (epoch != owner->epochs[e->index]) {
		learn(e, owner);
		return -ESTALE;
	}
	return access_error(e, owner, req);
}

static void run(struct te_batch *b, const struct te_request *req)
{
	struct te_completion *done = &b->done[b->n];

	memset(done, 0, sizeof(*done));
	done->index = b->n++;
	done->user = req->user;
	done->flags = TE_REMOTE_QUIET;
	if (hook)
		hook(req, done, hook_arg);
	pthread_mutex_lock(&mu);
	if (!done->error)
		done->error = check(b->engine, req);
	if (!done->error)
		move(req, done);
	pthread_mutex_unlock(&mu);
}

int te_batch_create(struct te_engine *e, uint32_t capacity,
		    struct te_batch **out)
{
	struct te_batch *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->engine = e;
	b->capacity = capacity;
	b->done = calloc(capacity, sizeof(*b->done));
	if (!b->done) {
		free(b);
		return -ENOMEM;
	}
	*out = b;
	return 0;
}

void te_batch_destroy(struct te_batch *b)
{
	if (!b)
		return;
	free(b->done);
	free(b);
}

int te_batch_submit(struct te_batch *b, const struct te_request *reqs, size_t n)
{
	size_t i;

	if (n > b->capacity - b->n)
		return -ENOBUFS;
	for (i = 0; i < n; i++)
		run(b, &reqs[i]);
	return 0;
}

int te_batch_wait(struct te_batch *b, uint32_t timeout_ms)
{
	(void)b;
	(void)timeout_ms;
	return 0;
}

int te_request_cancel(struct te_batch *b, uint32_t index)
{
	(void)b;
	(void)index;
	return 0;
}

int te_batch_result(struct te_batch *b, uint32_t index,
		    struct te_completion *out)
{
	*out = b->done[index];
	return 0;
}

int te_batch_reset(struct te_batch *b)
{
	b->n = 0;
	return 0;
}

/* ---- the rest ---- */

uint32_t te_crc32c(uint32_t crc, const void *bytes, size_t len)
{
	return ~crc32_iscsi((unsigned char *)(uintptr_t)bytes, (int)len, ~crc);
}

/* What comes first adds the same, whatever comes behind it: zeros will do. */
uint32_t te_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b)
{
	static const uint8_t zeros[4096];
	uint32_t nothing = 0;

	while (len_b) {
		size_t len =
			len_b < sizeof(zeros) ? (size_t)len_b : sizeof(zeros);

		crc_a = te_crc32c(crc_a, zeros, len);
		nothing = te_crc32c(nothing, zeros, len);
		len_b -= len;
	}
	return crc_a ^ nothing ^ crc_b;
}

const char *te_strerror(int error)
{
	return strerror(-error);
}

void fake_te_set_hook(fake_te_hook *fn, void *arg)
{
	hook = fn;
	hook_arg = arg;
}

void fake_te_kill(struct te_engine *e)
{
	pthread_mutex_lock(&mu);
	e->alive = false;
	pthread_mutex_unlock(&mu);
}

void fake_te_learn_epochs(struct te_engine *e)
{
	pthread_mutex_lock(&mu);
	learn_all(e);
	pthread_mutex_unlock(&mu);
}

void fake_te_learn_epochs_after(struct te_engine *e, uint64_t ns)
{
	pthread_mutex_lock(&mu);
	e->learns_at_ns = tei_now_ns() + ns;
	pthread_mutex_unlock(&mu);
}

static unsigned int count_of(const unsigned int *counter)
{
	unsigned int n;

	pthread_mutex_lock(&mu);
	n = *counter;
	pthread_mutex_unlock(&mu);
	return n;
}

unsigned int fake_te_n_revokes(struct te_engine *e)
{
	return count_of(&e->n_revokes);
}

unsigned int fake_te_n_revoke_waits(struct te_engine *e)
{
	return count_of(&e->n_revoke_waits);
}
