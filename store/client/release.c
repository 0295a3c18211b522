/* SPDX-License-Identifier: Apache-2.0 */
#include "store/client/release.h"

#include <errno.h>
#include <stdbool.h>

int tes_release_init(struct tes_release *release, struct tei_arena *arena,
		     size_t n, size_t bytes)
{
	Store__Release *m = &release->msg;

	store__release__init(m);
	m->generation = tei_arena_alloc(arena, n * sizeof(m->generation[0]));
	m->gen_epoch = tei_arena_alloc(arena, n * sizeof(m->gen_epoch[0]));
	if (!m->generation || !m->gen_epoch)
		return -ENOMEM;
	return tes_key_column_init(&release->column, arena, n, bytes);
}

void tes_release_add(struct tes_release *release,
		     const struct te_store_key *key, uint64_t generation,
		     uint64_t gen_epoch)
{
	Store__Release *m = &release->msg;

	m->generation[m->n_generation++] = generation;
	m->gen_epoch[m->n_gen_epoch++] = gen_epoch;
	tes_key_column_add(&release->column, key->bytes, key->len);
}

/*
 * All objects that were made in one life of the master have the same epoch: one
 * number then stands for all keys.
 */
static void fold_epochs(Store__Release *m)
{
	size_t i = 1;

	while (i < m->n_gen_epoch && m->gen_epoch[i] == m->gen_epoch[0])
		i++;
	if (i == m->n_gen_epoch)
		m->n_gen_epoch = 1;
}

/* Completes the message. False: there is nothing to tell. */
static bool complete_message(struct tes_release *release)
{
	Store__Release *m = &release->msg;

	if (!release->column.n)
		return false;
	fold_epochs(m);
	m->keys = release->column.bytes;
	m->key_lens = release->column.lens;
	m->n_key_lens = release->column.n;
	return true;
}

void tes_release_tell(struct tes_release *release, struct te_store *store,
		      struct tei_arena *arena)
{
	if (complete_message(release))
		tes_channel_tell(&store->channel,
				 STORE__STORE_TYPE__STORE_RELEASE,
				 &release->msg.base, arena);
}

#define LATER_MOST (1u << 20) /* bytes of an object whose lease may last */

void tes_release_tell_later(struct tes_release *release, struct te_store *store,
			    struct tei_arena *arena, uint64_t bytes)
{
	if (release->column.n != 1 || bytes > LATER_MOST)
		tes_release_tell(release, store, arena);
	else if (complete_message(release))
		tes_channel_tell_later(&store->channel,
				       STORE__STORE_TYPE__STORE_RELEASE,
				       &release->msg.base, arena);
}
