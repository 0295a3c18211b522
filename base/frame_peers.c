/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_peers.c - who has the connections of a port, and who makes way
 *
 *   server --> source: a user of this host, or an address
 *          --> holder: a name its peers gave --> conn
 *
 * Only the source is known for certain; any number of names may be claimed. A
 * user of this host may have each of its addresses, so only the user counts.
 * So the source with the most connections makes way first, then the name with
 * the most in it, and of equals the one that was idle for longest. Equal are
 * numbers with the same binary logarithm, and all up to 3, since a client of
 * the master has two: thus who has most is found without a search, within a
 * factor of two.
 *
 * Lists are in the order of use: with each frame its connection, holder and
 * source go to the ends of theirs. What may not go when it is looked at is in
 * use, so it goes to the end as well. One search takes at most N_STEPS looks.
 */
#include <assert.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

#include "base/frame_private.h"
#include "base/log.h"
#include "base/mem.h"

#define N_STEPS        512
#define NAMELESS_SHIFT 6
/* Without descriptors only who has that many connections makes way. */
#define SHORT_RANK 3 /* 2^4 */

/* ---- ranks ---- */

static void ranks_init(struct tei_frame_ranks *ranks)
{
	for (unsigned int i = 0; i < TEI_FRAME_RANKS; i++)
		tei_list_init(&ranks->list[i]);
}

static unsigned int rank_of(unsigned int n)
{
	unsigned int log = 31 - (unsigned int)__builtin_clz(n | 2);

	return log <= TEI_FRAME_RANKS ? log - 1 : TEI_FRAME_RANKS - 1;
}

/*
 * Moves what is at @link, a source or a holder that has @n connections now and
 * had @old; each weighs 1 / 2^@shift.
 */
static void rank_move(struct tei_frame_ranks *ranks, struct tei_list *link,
		      unsigned int old, unsigned int n, unsigned int shift)
{
	unsigned int rank = rank_of(n >> shift);

	if (old && n && rank_of(old >> shift) == rank)
		return;
	tei_list_del(link);
	if (n)
		tei_list_add_tail(&ranks->list[rank], link);
}

static void put_last(struct tei_list *list, struct tei_list *link)
{
	if (list->prev == link)
		return;
	tei_list_del(link);
	tei_list_add_tail(list, link);
}

/*
 * A name is given a moment after a connection came, and those of honest peers
 * are among them; so the nameless are many only when they are hundreds.
 */
static unsigned int shift_of(const struct tei_frame_holder *holder)
{
	return holder == &holder->source->nameless ? NAMELESS_SHIFT : 0;
}

/* ---- sources and holders ---- */

int tei_frame_peers_init(struct tei_frame_peers *peers)
{
	int rc = tei_hash_init(&peers->sources);

	if (rc)
		return rc;
	rc = tei_hash_init(&peers->holders);
	if (rc) {
		tei_hash_fini(&peers->sources);
		return rc;
	}
	ranks_init(&peers->ranks);
	for (int i = 0; i < TEI_FRAME_MEMORIES; i++)
		tei_list_init(&peers->users[i]);
	/* A seed that peers cannot choose; without one they are only slower. */
	if (getrandom(&peers->seed, sizeof(peers->seed), GRND_NONBLOCK) < 0)
		peers->seed = (uintptr_t)peers;
	return 0;
}

void tei_frame_peers_fini(struct tei_frame_peers *peers)
{
	assert(peers->sources.n_nodes == 0);
	tei_hash_fini(&peers->holders);
	tei_hash_fini(&peers->sources);
}

static void holder_init(struct tei_frame_holder *holder,
			struct tei_frame_source *source)
{
	tei_list_init(&holder->link);
	tei_list_init(&holder->conns);
	holder->source = source;
}

/*
 * A user, or an address, of IPv6 the network part: its owner has all the rest.
 * The second half of a key is a user's.
 */
static void key_of(const struct tei_address *peer, uint32_t uid,
		   uint8_t key[TEI_FRAME_SOURCE_LEN])
{
	size_t half = TEI_FRAME_SOURCE_LEN / 2;

	memset(key, 0, TEI_FRAME_SOURCE_LEN);
	if (uid == TEI_PEER_NO_UID) {
		(void)tei_address_bytes(peer, key);
		memset(key + half, 0, half);
	} else {
		memcpy(key + half, &uid, sizeof(uid));
		key[TEI_FRAME_SOURCE_LEN - 1] = 1;
	}
}

static struct tei_frame_source *
find_source(const struct tei_frame_peers *peers, uint64_t hash,
	    const uint8_t key[TEI_FRAME_SOURCE_LEN])
{
	struct tei_hash_node *node = tei_hash_first(&peers->sources, hash);

	for (; node; node = tei_hash_next(&peers->sources, node)) {
		struct tei_frame_source *source =
			TEI_CONTAINER(node, struct tei_frame_source, node);

		if (!memcmp(source->key, key, TEI_FRAME_SOURCE_LEN))
			return source;
	}
	return NULL;
}

static struct tei_frame_source *get_source(struct tei_frame_peers *peers,
					   const struct tei_address *peer,
					   uint32_t uid)
{
	uint8_t key[TEI_FRAME_SOURCE_LEN];
	struct tei_frame_source *source;
	uint64_t hash;

	key_of(peer, uid, key);
	hash = XXH3_64bits_withSeed(key, sizeof(key), peers->seed);
	source = find_source(peers, hash, key);
	if (source)
		return source;
	source = tei_calloc(1, sizeof(*source));
	if (!source)
		return NULL;
	memcpy(source->key, key, sizeof(key));
	tei_list_init(&source->link);
	ranks_init(&source->holders);
	holder_init(&source->nameless, source);
	tei_hash_insert(&peers->sources, &source->node, hash);
	return source;
}

void tei_frame_peers_note(struct tei_frame_peers *peers,
			  struct tei_frame_conn *conn)
{
	struct tei_frame_holder *holder = conn->holder;
	struct tei_frame_source *source;
	unsigned int rank;

	if (!holder)
		return;
	source = holder->source;
	rank = rank_of(holder->n >> shift_of(holder));
	put_last(&holder->conns, &conn->of_holder);
	put_last(&source->holders.list[rank], &holder->link);
	put_last(&peers->ranks.list[rank_of(source->n)], &source->link);
}

static void join(struct tei_frame_peers *peers, struct tei_frame_holder *holder,
		 struct tei_frame_conn *conn)
{
	struct tei_frame_source *source = holder->source;

	conn->holder = holder;
	tei_list_add_tail(&holder->conns, &conn->of_holder);
	rank_move(&source->holders, &holder->link, holder->n, holder->n + 1,
		  shift_of(holder));
	holder->n++;
	rank_move(&peers->ranks, &source->link, source->n, source->n + 1, 0);
	source->n++;
	peers->n++;
	for (int i = 0; i < TEI_FRAME_MEMORIES; i++) {
		holder->bytes[i] += conn->usage[i].bytes;
		source->bytes[i] += conn->usage[i].bytes;
	}
	tei_frame_peers_note(peers, conn);
}

static void leave_holder(struct tei_frame_peers *peers,
			 struct tei_frame_conn *conn)
{
	struct tei_frame_holder *holder = conn->holder;
	struct tei_frame_source *source = holder->source;

	conn->holder = NULL;
	tei_list_del(&conn->of_holder);
	rank_move(&source->holders, &holder->link, holder->n, holder->n - 1,
		  shift_of(holder));
	holder->n--;
	rank_move(&peers->ranks, &source->link, source->n, source->n - 1, 0);
	source->n--;
	peers->n--;
	for (int i = 0; i < TEI_FRAME_MEMORIES; i++) {
		holder->bytes[i] -= conn->usage[i].bytes;
		source->bytes[i] -= conn->usage[i].bytes;
	}
	if (!holder->n && holder != &source->nameless) {
		tei_hash_remove(&peers->holders, &holder->node);
		tei_free(holder);
	}
}

static void source_release(struct tei_frame_peers *peers,
			   struct tei_frame_source *source)
{
	if (source->n)
		return;
	tei_hash_remove(&peers->sources, &source->node);
	tei_free(source);
}

int tei_frame_peers_enter(struct tei_frame_peers *peers,
			  struct tei_frame_conn *conn, uint32_t uid)
{
	struct tei_frame_source *source = get_source(peers, &conn->peer, uid);

	if (!source)
		return -ENOMEM;
	join(peers, &source->nameless, conn);
	return 0;
}

void tei_frame_peers_leave(struct tei_frame_peers *peers,
			   struct tei_frame_conn *conn)
{
	struct tei_frame_source *source;

	if (!conn->holder)
		return;
	source = conn->holder->source;
	for (int i = 0; i < TEI_FRAME_MEMORIES; i++)
		tei_frame_peers_use(peers, conn, (enum tei_frame_memory)i, 0);
	leave_holder(peers, conn);
	source_release(peers, source);
}

static struct tei_frame_holder *
get_holder(struct tei_frame_peers *peers, struct tei_frame_source *source,
	   const uint8_t name[TEI_FRAME_NAME_LEN])
{
	uint64_t hash = XXH3_64bits_withSeed(name, TEI_FRAME_NAME_LEN,
					     peers->seed ^ (uintptr_t)source);
	struct tei_hash_node *node = tei_hash_first(&peers->holders, hash);
	struct tei_frame_holder *holder;

	for (; node; node = tei_hash_next(&peers->holders, node)) {
		holder = TEI_CONTAINER(node, struct tei_frame_holder, node);
		if (holder->source == source &&
		    !memcmp(holder->name, name, TEI_FRAME_NAME_LEN))
			return holder;
	}
	holder = tei_calloc(1, sizeof(*holder));
	if (!holder)
		return NULL;
	holder_init(holder, source);
	memcpy(holder->name, name, TEI_FRAME_NAME_LEN);
	tei_hash_insert(&peers->holders, &holder->node, hash);
	return holder;
}

void tei_frame_peers_name(struct tei_frame_peers *peers,
			  struct tei_frame_conn *conn,
			  const uint8_t name[TEI_FRAME_NAME_LEN])
{
	struct tei_frame_holder *holder;

	if (!conn->holder)
		return;
	holder = get_holder(peers, conn->holder->source, name);
	if (!holder || holder == conn->holder)
		return; /* without memory it stays one of the nameless */
	leave_holder(peers, conn);
	join(peers, holder, conn);
}

/* ---- who makes way ---- */

struct search {
	struct tei_frame_peers *peers;
	const struct tei_frame_conn *but; /* never this one */
	bool whatever;                    /* also what is needed */
	unsigned int steps;
	/* Needed ones of the source that is looked at, and the idlest. */
	unsigned int n_needed;
	struct tei_frame_conn *spare;
};

static bool may_go(const struct search *s, const struct tei_frame_conn *conn)
{
	if (conn == s->but)
		return false;
	if (s->whatever || conn->state != TEI_FRAME_UP || conn->closed)
		return true;
	return !conn->ops->needed || !conn->ops->needed(conn->arg);
}

static struct tei_frame_conn *of_holder(struct search *s,
					struct tei_frame_holder *holder)
{
	for (unsigned int i = holder->n; i && s->steps; i--, s->steps--) {
		struct tei_frame_conn *conn = tei_list_entry(
			holder->conns.next, struct tei_frame_conn, of_holder);

		if (may_go(s, conn))
			return conn;
		if (conn != s->but && !s->n_needed++)
			s->spare = conn;
		put_last(&holder->conns, &conn->of_holder);
	}
	return NULL;
}

static struct tei_frame_conn *of_holders(struct search *s,
					 struct tei_list *list)
{
	const struct tei_list *first = list->next;

	while (!tei_list_empty(list) && s->steps) {
		struct tei_frame_holder *holder = tei_list_entry(
			list->next, struct tei_frame_holder, link);
		struct tei_frame_conn *conn = of_holder(s, holder);

		if (conn)
			return conn;
		put_last(list, &holder->link);
		if (list->next == first)
			break;
	}
	return NULL;
}

/*
 * To be needed is cheap, so it protects a source's connections only up to a
 * number: of more than that the idlest goes.
 */
static struct tei_frame_conn *of_source(struct search *s,
					struct tei_frame_source *source)
{
	s->n_needed = 0;
	for (unsigned int i = TEI_FRAME_RANKS; i--;) {
		struct tei_frame_conn *conn =
			of_holders(s, &source->holders.list[i]);

		if (conn)
			return conn;
	}
	return s->n_needed > TEI_FRAME_NEEDED_EACH ? s->spare : NULL;
}

static struct tei_frame_conn *of_sources(struct search *s,
					 struct tei_list *list)
{
	const struct tei_list *first = list->next;

	while (!tei_list_empty(list) && s->steps) {
		struct tei_frame_source *source = tei_list_entry(
			list->next, struct tei_frame_source, link);
		struct tei_frame_conn *conn = of_source(s, source);

		if (conn)
			return conn;
		put_last(list, &source->link);
		if (list->next == first)
			break;
	}
	return NULL;
}

/* Searches the sources that have 2^(@least + 1) connections at least. */
static struct tei_frame_conn *find_idlest(struct search *s, unsigned int least)
{
	struct tei_frame_conn *conn = NULL;

	for (unsigned int i = TEI_FRAME_RANKS; !conn && i-- > least;)
		conn = of_sources(s, &s->peers->ranks.list[i]);
	return conn;
}

struct tei_frame_conn *
tei_frame_peers_idlest(struct tei_frame_peers *peers,
		       const struct tei_frame_conn *comer)
{
	unsigned int least = SHORT_RANK;
	struct search s = {.peers = peers, .but = comer, .steps = N_STEPS};
	struct tei_frame_conn *conn;

	/* A source with less than the newcomer's does not make way for it. */
	if (comer)
		least = rank_of(comer->holder->source->n);
	conn = find_idlest(&s, least);
	peers->n_in_vain = conn ? 0 : peers->n_in_vain + N_STEPS - s.steps;
	/* Waits until all were looked at, some by searches before this one. */
	if (conn || !comer || (!s.steps && peers->n_in_vain < 2 * peers->n))
		return conn;
	s.whatever = true;
	s.steps = N_STEPS;
	return find_idlest(&s, least);
}

struct tei_frame_conn *tei_frame_peers_older(struct tei_frame_peers *peers,
					     const struct tei_frame_conn *conn)
{
	const struct search s = {.peers = peers, .but = conn};
	struct tei_frame_conn *old = NULL;

	tei_list_for_each (node, &conn->holder->conns) {
		struct tei_frame_conn *other =
			tei_list_entry(node, struct tei_frame_conn, of_holder);

		if (other == conn)
			continue;
		if (may_go(&s, other))
			return other;
		if (!old)
			old = other;
	}
	return old;
}

/* ---- memory that peers cost ---- */

void tei_frame_peers_use(struct tei_frame_peers *peers,
			 struct tei_frame_conn *conn,
			 enum tei_frame_memory memory, size_t bytes)
{
	struct tei_frame_usage *usage = &conn->usage[memory];
	size_t more = bytes - usage->bytes; /* or less: it wraps around */

	peers->bytes[memory] += more;
	conn->holder->bytes[memory] += more;
	conn->holder->source->bytes[memory] += more;
	if (!bytes)
		tei_list_del(&usage->link);
	else if (!usage->bytes)
		tei_list_add_tail(&peers->users[memory], &usage->link);
	usage->bytes = bytes;
}

/*
 * Tells whether @a goes rather than @b. The largest of a holder goes, so that
 * few do, and of equals the oldest, which is looked at first: an honest body
 * comes whole in a moment. A whole one that its user takes later goes only
 * where no other is left.
 */
static bool goes_before(const struct tei_frame_conn *a,
			const struct tei_frame_conn *b,
			enum tei_frame_memory memory)
{
	const struct tei_frame_holder *of_a = a->holder, *of_b = b->holder;

	if (memory == TEI_FRAME_INPUT && a->deferred != b->deferred)
		return b->deferred;
	if (of_a->source->bytes[memory] != of_b->source->bytes[memory])
		return of_a->source->bytes[memory] >
		       of_b->source->bytes[memory];
	if (of_a->bytes[memory] != of_b->bytes[memory])
		return of_a->bytes[memory] > of_b->bytes[memory];
	return a->usage[memory].bytes > b->usage[memory].bytes;
}

struct tei_frame_conn *tei_frame_peers_heaviest(struct tei_frame_peers *peers,
						const struct tei_frame_conn *of,
						enum tei_frame_memory memory)
{
	static const size_t max[] = {TEI_FRAME_INPUT_MAX, TEI_FRAME_OUTPUT_MAX};
	static const size_t each[] = {TEI_FRAME_INPUT_EACH,
				      TEI_FRAME_OUTPUT_EACH};
	struct tei_frame_conn *most = NULL;

	if (peers->bytes[memory] <= max[memory] &&
	    of->holder->source->bytes[memory] <= each[memory])
		return NULL;
	tei_list_for_each (node, &peers->users[memory]) {
		struct tei_frame_conn *conn = tei_list_entry(
			node, struct tei_frame_conn, usage[memory].link);

		if (!most || goes_before(conn, most, memory))
			most = conn;
	}
	return most;
}
