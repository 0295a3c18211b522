/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.c - the target's talk, its regions and what it has granted of them
 *
 * A region is an arena when it is all of one te_memory_alloc(): handing out the
 * descriptor of a part would hand out the rest. Before a reader gets the
 * descriptor, the memfd is sealed against new writable mappings. A seal cannot
 * be undone, so a later region for writers over the same memory is foreign. A
 * peer that may write, but not read, gets no mapping either: a mapping could be
 * read.
 *
 * A grant is recorded while the region is pinned, so that a removal, which
 * comes once no pin is left, finds it.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "backends/shm/shm.h"
#include "base/chance.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include <te/te.h>

#define LOOKS_MIN 100          /* before one that is slow is looked at */
#define GPU_UNIT  (2ull << 20) /* bytes */

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* ---- regions ---- */

static struct shm_region *find_region(struct shm_rail *rail, uint64_t id)
	TEI_REQUIRES(rail->mu)
{
	struct tei_hash_node *node =
		tei_hash_first(&rail->regions, tei_chance_mix(id));

	for (; node; node = tei_hash_next(&rail->regions, node)) {
		struct shm_region *region =
			TEI_CONTAINER(node, struct shm_region, node);

		if (region->key.id == id)
			return region;
	}
	return NULL;
}

/*
 * A descriptor that gives no more than @access. -EOPNOTSUPP: not to be shared;
 * others are no reason to do without for as long as the region lives.
 */
static int share(const struct tei_backing *backing, uint32_t access)
{
	char path[40];
	int seals, fd;

	if (access & TE_ACCESS_REMOTE_WRITE) {
		seals = fcntl(backing->fd, F_GET_SEALS);
		if (seals < 0 || (seals & F_SEAL_FUTURE_WRITE))
			return -EOPNOTSUPP;
	} else if (fcntl(backing->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE)) {
		return -EOPNOTSUPP;
	} else {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", backing->fd);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	fd = fcntl(backing->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

static int share_whole(const struct shm_rail *rail, const void *addr,
		       uint64_t length, uint32_t access)
{
	struct tei_backing backing;

	if (!(access & TE_ACCESS_REMOTE_READ))
		return -EOPNOTSUPP;
	if (tei_memory_backing(rail->base->core, addr, length, &backing))
		return -EOPNOTSUPP;
	if (backing.offset || length < backing.asked)
		return -EOPNOTSUPP;
	return share(&backing, access);
}

/*
 * A GPU's memory that may be handed out: who opens it may read and write all of
 * it, and a driver shares less than GPU_UNIT together with what lies beside it.
 * -ENOENT: it is the host's. -EOPNOTSUPP.
 */
static int share_gpu(const struct shm_rail *rail, const struct shm_key *key,
		     struct tei_gpu_shared *out)
{
	const uint32_t both = TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE;
	int rc = tei_region_share(rail->base->core, key->id, out);

	if (rc)
		return rc;
	if (!shm_config(rail)->gpu || (key->access & both) != both)
		return -EOPNOTSUPP;
	if (!shm_config(rail)->gpu_parts &&
	    (out->base != key->addr || out->length != key->length ||
	     out->length % GPU_UNIT))
		return -EOPNOTSUPP;
	return 0;
}

/* Fills kind and what is handed out. -EOPNOTSUPP and others. */
static int share_region(const struct shm_rail *rail, struct shm_region *region)
{
	struct shm_key *key = &region->key;
	int rc = share_gpu(rail, key, &region->shared);

	region->fd = -1;
	key->kind = SHM_GPU;
	if (rc != -ENOENT)
		return rc;
	rc = share_whole(rail, (void *)(uintptr_t)key->addr, key->length,
			 key->access);
	if (rc < 0 && (rc != -EOPNOTSUPP || !rail->foreign))
		return rc;
	key->kind = rc < 0 ? SHM_FOREIGN : SHM_ARENA;
	if (rc >= 0)
		region->fd = rc;
	return 0;
}

int tei_shm_region_add(struct tei_rail *base, uint64_t id, void *addr,
		       uint64_t length, uint32_t access, void *key, size_t *len)
{
	struct shm_rail *rail = shm_rail(base);
	struct shm_region *region;
	int rc;

	if (*len < SHM_KEY_LEN)
		return -ENOBUFS;
	region = tei_calloc(1, sizeof(*region));
	if (!region)
		return -ENOMEM;
	region->key = (struct shm_key){
		.id = id,
		.addr = (uintptr_t)addr,
		.length = length,
		.access = (uint16_t)access,
	};
	rc = share_region(rail, region);
	if (rc) {
		tei_free(region);
		return rc;
	}
	tei_list_init(&region->grants);
	tei_shm_key_encode(&region->key, key);
	*len = SHM_KEY_LEN;
	tei_mutex_lock(&rail->mu);
	tei_hash_insert(&rail->regions, &region->node, tei_chance_mix(id));
	tei_mutex_unlock(&rail->mu);
	return 0;
}

/* ---- taking back ---- */

static void grant_free(struct shm_grant *grant)
{
	if (grant->ep)
		grant->ep->taken[grant->slot / 64] &=
			~((uint64_t)1 << grant->slot % 64);
	tei_list_del(&grant->of_region);
	tei_list_del(&grant->of_endpoint);
	if (grant->orphan)
		tei_shm_orphan_put(grant->orphan);
	tei_free(grant);
}

static bool is_of_gpu(const struct shm_grant *grant)
{
	return grant->region->key.kind == SHM_GPU;
}

bool tei_shm_has_gpu_grant(const struct shm_endpoint *ep)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);
	bool any = false;

	tei_mutex_lock(&rail->mu);
	tei_list_for_each (node, &ep->grants) {
		any |= is_of_gpu(
			tei_list_entry(node, struct shm_grant, of_endpoint));
	}
	tei_mutex_unlock(&rail->mu);
	return any;
}

void tei_shm_grants_free(struct shm_endpoint *ep)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);

	tei_mutex_lock(&rail->mu);
	if (ep->orphan && !tei_shm_has_let_go(ep))
		tei_shm_orphan_keep(rail, ep);
	tei_free(ep->orphan);
	ep->orphan = NULL;
	while (!tei_list_empty(&ep->grants))
		grant_free(tei_list_entry(ep->grants.next, struct shm_grant,
					  of_endpoint));
	tei_mutex_unlock(&rail->mu);
}

static void revoke_all(struct shm_rail *rail, struct shm_region *region)
	TEI_REQUIRES(rail->mu)
{
	(void)rail;
	tei_list_for_each (node, &region->grants) {
		struct shm_grant *grant =
			tei_list_entry(node, struct shm_grant, of_region);

		if (!grant->ep)
			continue;
		tei_shm_revoke(grant->ep->pages, grant->slot);
		grant->seen = tei_shm_see(grant->ep->pages);
	}
}

/* Tells whether it is another engine's here, which opens nothing. */
static bool is_of_this_process(const struct shm_grant *grant)
{
	return grant->ep->pid == shm_rail(grant->ep->base->rail)->host.pid;
}

/*
 * Tells whether nobody can be using it. Memory of a GPU must be closed, too:
 * its owner may free it then.
 */
static bool is_over(const struct shm_grant *grant, bool look)
{
	if (grant->orphan)
		return tei_shm_orphan_is_over(grant->orphan);
	if (is_of_gpu(grant) && is_of_this_process(grant))
		return tei_shm_is_gpu_past(grant->ep->pages, grant->seen);
	if (is_of_gpu(grant))
		return look && tei_shm_has_let_go(grant->ep);
	return tei_shm_is_past(grant->ep->pages, grant->seen) ||
	       (look && tei_shm_has_left(grant->ep));
}

/* Frees the grants that nobody can be using; returns whether none is left. */
static bool free_past(struct shm_rail *rail, struct shm_region *region,
		      bool look) TEI_REQUIRES(rail->mu)
{
	(void)rail;
	tei_list_for_each_safe (node, tmp, &region->grants) {
		struct shm_grant *grant =
			tei_list_entry(node, struct shm_grant, of_region);

		if (is_over(grant, look))
			grant_free(grant);
	}
	return tei_list_empty(&region->grants);
}

/*
 * Telling is only for the memory's sake. Where the socket is full the initiator
 * still has another FORGET to read, and looks at all slots then.
 */
static void tell_all(struct shm_rail *rail, const struct shm_region *region)
	TEI_REQUIRES(rail->mu)
{
	struct shm_message m = {.op = SHM_FORGET, .id = region->key.id};

	(void)rail;
	tei_list_for_each (node, &region->grants) {
		const struct shm_grant *grant =
			tei_list_entry(node, struct shm_grant, of_region);

		if (grant->ep && grant->ep->socket.fd >= 0)
			(void)tei_shm_send(grant->ep->socket.fd, &m, -1);
	}
}

/*
 * Quiet when nobody is in the middle of a chunk of it: microseconds, unless
 * that process was stopped right there. Then there is no other way than to wait
 * until it goes on or dies. Memory of a GPU is quiet when its user has said
 * that it has closed it.
 */
int tei_shm_region_hide(struct tei_rail *base, uint64_t id)
{
	struct shm_rail *rail = shm_rail(base);
	struct shm_region *region;
	bool quiet;

	tei_mutex_lock(&rail->mu);
	region = find_region(rail, id);
	assert(region);
	if (!region->n_looks) {
		revoke_all(rail, region);
		tell_all(rail, region);
	}
	quiet = free_past(rail, region, region->n_looks >= LOOKS_MIN);
	region->n_looks++;
	tei_mutex_unlock(&rail->mu);
	return quiet ? 0 : -EBUSY;
}

void tei_shm_region_remove(struct tei_rail *base, uint64_t id)
{
	struct shm_rail *rail = shm_rail(base);
	struct shm_region *region;

	tei_mutex_lock(&rail->mu);
	region = find_region(rail, id);
	assert(region);
	tei_list_for_each_safe (node, tmp, &region->grants) {
		struct shm_grant *grant =
			tei_list_entry(node, struct shm_grant, of_region);

		assert(grant->orphan); /* the engine ends */
		tei_list_del(node);
		grant->region = NULL;
	}
	tei_hash_remove(&rail->regions, &region->node);
	tei_mutex_unlock(&rail->mu);
	if (region->fd >= 0)
		close(region->fd);
	tei_free(region);
}

/* ---- hello ---- */

static struct shm_endpoint *claim(struct shm_rail *rail, const uint8_t *token)
{
	tei_list_for_each (node, &rail->waiting) {
		struct shm_endpoint *ep =
			tei_list_entry(node, struct shm_endpoint, waiting);

		if (!CRYPTO_memcmp(ep->token, token, SHM_TOKEN_LEN))
			return ep;
	}
	return NULL;
}

/* The socket changes its owner; who it is was checked at accept. */
static int adopt(struct shm_endpoint *ep, int socket)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &ep->socket};
	uint32_t uid;
	int rc = tei_shm_peer(socket, &uid, &ep->pid);

	if (rc)
		return rc;
	if (epoll_ctl(rail->epoll_fd, EPOLL_CTL_MOD, socket, &ev))
		return -errno;
	ep->socket.fd = socket;
	rc = tei_shm_peer_process(socket, ep->pid, ep->start);
	if (rc < 0)
		return rc;
	ep->process.fd = rc;
	return tei_shm_watch(rail, &ep->process);
}

static int welcome(struct shm_endpoint *ep)
{
	struct shm_message m = {.op = SHM_WELCOME};
	int fd = tei_shm_pages_make(&ep->pages), rc;

	if (fd < 0)
		return fd;
	memcpy(ep->pages->token, ep->token, SHM_TOKEN_LEN);
	memcpy(m.token, ep->peer_token, SHM_TOKEN_LEN);
	m.addr = (uintptr_t)ep->pages->token;
	rc = tei_shm_send(ep->socket.fd, &m, fd);
	close(fd);
	return rc;
}

void tei_shm_hello(struct shm_rail *rail, struct shm_accepted *accepted,
		   const struct shm_message *m)
{
	struct shm_endpoint *ep = NULL;
	int rc;

	if (m->op == SHM_HELLO)
		ep = claim(rail, m->token);
	if (!ep) {
		tei_shm_bad(rail, "no such token");
		tei_shm_source_close(rail, &accepted->source);
		return;
	}
	tei_list_del(&ep->waiting);
	rc = adopt(ep, accepted->source.fd);
	if (ep->socket.fd < 0)
		tei_shm_source_close(rail, &accepted->source);
	accepted->source.fd = -1;
	if (!rc)
		rc = welcome(ep);
	if (rc)
		tei_shm_break(ep, rc);
	else
		tei_endpoint_up(ep->base);
}

/* ---- granting ---- */

/* Returns the first free slot; SHM_SLOTS: none is. */
static uint32_t free_slot(const struct shm_endpoint *ep)
{
	uint32_t i, slot;

	for (i = 0; i < sizeof(ep->taken) / sizeof(ep->taken[0]); i++) {
		if (!~ep->taken[i])
			continue;
		slot = i * 64 + (uint32_t)__builtin_ctzll(~ep->taken[i]);
		return slot < SHM_SLOTS ? slot : SHM_SLOTS;
	}
	return SHM_SLOTS;
}

static struct shm_grant *grant_of(const struct shm_endpoint *ep,
				  const struct shm_region *region)
{
	tei_list_for_each (node, &ep->grants) {
		struct shm_grant *grant =
			tei_list_entry(node, struct shm_grant, of_endpoint);

		if (grant->region == region)
			return grant;
	}
	return NULL;
}

static int make_grant(struct shm_rail *rail, struct shm_endpoint *ep,
		      struct shm_region *region, struct shm_grant **out)
	TEI_REQUIRES(rail->mu)
{
	uint32_t slot = free_slot(ep);
	struct shm_grant *grant;

	(void)rail;
	if (slot == SHM_SLOTS)
		return -EOPNOTSUPP;
	if (region->key.kind == SHM_GPU && tei_shm_orphan_prepare(ep))
		return -ENOMEM;
	grant = tei_calloc(1, sizeof(*grant));
	if (!grant)
		return -ENOMEM;
	*grant = (struct shm_grant){.region = region,
				    .ep = ep,
				    .slot = slot,
				    .generation = ++ep->last_generation};
	tei_list_add_tail(&region->grants, &grant->of_region);
	tei_list_add_tail(&ep->grants, &grant->of_endpoint);
	ep->taken[slot / 64] |= (uint64_t)1 << slot % 64;
	tei_shm_grant(ep->pages, slot, grant->generation);
	*out = grant;
	return 0;
}

/*
 * Answer to an ASK, from when the region is pinned until its descriptors are
 * sent.
 */
struct answer {
	struct shm_message m;
	struct shm_fds fds;
	bool exported; /* the descriptors are the message's, not a region's */
	uint64_t pin;
};

/* An initiator that had no room to map a grant asks again and gets the same. */
static int record(struct shm_rail *rail, struct shm_endpoint *ep, uint64_t id,
		  struct answer *answer) TEI_REQUIRES(rail->mu)
{
	struct shm_region *region = find_region(rail, id);
	struct shm_message *m = &answer->m;
	struct shm_grant *grant;
	int rc = 0;

	assert(region); /* it is pinned */
	grant = grant_of(ep, region);
	if (!grant)
		rc = make_grant(rail, ep, region, &grant);
	if (rc)
		return rc;
	m->slot = grant->slot;
	m->generation = grant->generation;
	m->kind = answer->exported ? (uint8_t)SHM_CHUNKS : region->key.kind;
	if (region->fd >= 0)
		answer->fds = (struct shm_fds){.at = {region->fd}, .n = 1};
	if (region->key.kind == SHM_GPU) {
		m->addr = region->shared.base;
		m->length = region->shared.length;
	}
	if (m->kind == SHM_GPU)
		memcpy(m->name, region->shared.name, SHM_NAME_LEN);
	return 0;
}

static void close_exported(struct answer *answer)
{
	if (answer->exported)
		tei_shm_fds_close(&answer->fds);
}

/* Exports some chunks of a region that is pinned, from @offset on. */
static int export_chunks(struct shm_endpoint *ep, uint64_t id,
			 const struct tei_gpu_shared *shared, uint64_t offset,
			 struct answer *answer)
{
	struct shm_fds *fds = &answer->fds;
	int rc = offset < shared->length ? 0 : -EFAULT;

	answer->exported = true;
	while (!rc && fds->n < SHM_CHUNKS_BURST && offset < shared->length) {
		uint64_t *length = &answer->m.lengths[fds->n];

		rc = tei_region_share_chunk(ep->base->rail->core, id,
					    shared->base + offset, length,
					    &fds->at[fds->n]);
		if (rc)
			break;
		fds->n++;
		offset += *length;
	}
	if (rc)
		close_exported(answer);
	return rc;
}

/* Fills @answer with what the region, which is pinned, is opened by. */
static int prepare(struct shm_endpoint *ep, const struct shm_message *ask,
		   uint64_t id, struct answer *answer)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);
	const struct shm_region *region;
	struct tei_gpu_shared shared;
	uint8_t kind;

	tei_mutex_lock(&rail->mu);
	region = find_region(rail, id);
	assert(region);
	kind = region->key.kind;
	shared = region->shared;
	tei_mutex_unlock(&rail->mu);
	if (kind != SHM_GPU)
		return 0;
	if (!(ask->access & SHM_TAKES_GPU))
		return -EOPNOTSUPP;
	if (!shared.chunked || ep->pid == rail->host.pid)
		return 0;
	return export_chunks(ep, id, &shared, ask->addr, answer);
}

static int grant(struct shm_endpoint *ep, const struct shm_message *ask,
		 struct answer *answer)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);
	struct shm_key key;
	void *local;
	int rc;

	if (!tei_shm_key_decode(ask->key, SHM_KEY_LEN, &key))
		return -EFAULT;
	if (!key.access)
		return -EACCES;
	rc = tei_region_pin(ep->base, ask->key, SHM_KEY_LEN, key.addr,
			    key.length, key.access, &local, &answer->pin);
	if (rc < 0)
		return rc;
	rc = prepare(ep, ask, key.id, answer);
	if (rc)
		goto unpin;
	tei_mutex_lock(&rail->mu);
	rc = record(rail, ep, key.id, answer);
	tei_mutex_unlock(&rail->mu);
	if (!rc)
		return 0;
	close_exported(answer);
unpin:
	tei_region_unpin(ep->base, answer->pin);
	return rc;
}

static int answer_ask(struct shm_endpoint *ep, const struct shm_message *ask)
{
	struct answer answer = {.m = {.op = SHM_GRANT, .id = ask->id}};
	int rc, refused = grant(ep, ask, &answer);

	if (refused) {
		ep->base->rail->refused_slices++;
		answer.m = (struct shm_message){.op = SHM_GRANT, .id = ask->id};
	}
	answer.m.status = (uint8_t)tei_status_from_errno(refused);
	rc = tei_shm_send_fds(ep->socket.fd, &answer.m, &answer.fds);
	if (!refused) {
		close_exported(&answer);
		tei_region_unpin(ep->base, answer.pin);
	}
	return rc == -EAGAIN ? -EBADMSG : rc; /* asks, but does not read */
}

/* The initiator has closed a GPU's memory. */
static void take_return(struct shm_endpoint *ep, const struct shm_message *m)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);
	const struct shm_region *region;
	struct shm_grant *grant = NULL;

	tei_mutex_lock(&rail->mu);
	region = find_region(rail, m->id);
	if (region && region->key.kind == SHM_GPU)
		grant = grant_of(ep, region);
	if (grant && grant->generation == m->generation) {
		tei_shm_revoke(ep->pages, grant->slot);
		grant_free(grant);
	}
	tei_mutex_unlock(&rail->mu);
}

int tei_shm_owner_message(struct shm_endpoint *ep, const struct shm_message *m)
{
	if (m->op == SHM_RETURN) {
		take_return(ep, m);
		return 0;
	}
	if (m->op != SHM_ASK)
		return -EBADMSG;
	return ep->fenced ? 0 : answer_ask(ep, m);
}
