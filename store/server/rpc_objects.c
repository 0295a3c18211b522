/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_objects.c - what clients ask of objects */
#include "store/server/rpc_private.h"

#include "store/proto/store.pb-c.h"

static int take_how(struct tei_arena *arena, const Store__Replicate *m,
		    struct tes_event *out, const char **why)
{
	struct tes_core_replicate *how;

	if (m->n_preferred > TES_CORE_PREFERRED_MAX ||
	    !tes_rpc_are_names(m->preferred, m->n_preferred))
		return tes_rpc_malformed(
			why, "put start: no usable preferred segment");
	how = tei_arena_calloc(arena, 1, sizeof(*how));
	if (!how)
		return tes_rpc_malformed(why, "batch too large");
	how->replica_num = m->replica_num;
	how->soft_pin = m->soft_pin;
	how->soft_pin_ttl_ms = m->soft_pin_ttl_ms;
	how->data_type = m->data_type;
	how->hard_pin = m->hard_pin != 0;
	how->same_node = m->same_node != 0;
	how->preferred = (const char *const *)m->preferred;
	how->n_preferred = m->n_preferred;
	out->u.put_start.how = how;
	return 0;
}

static int take_groups(const Store__PutStart *m, struct tes_event *out,
		       const char **why)
{
	if (m->n_group && m->n_group != m->n_key_lens)
		return tes_rpc_malformed(why,
					 "put start: columns differ in length");
	if (!tes_rpc_are_names(m->groups, m->n_groups))
		return tes_rpc_malformed(why, "put start: no usable group");
	for (size_t i = 0; i < m->n_group; i++)
		if (m->group[i] > m->n_groups)
			return tes_rpc_malformed(why,
						 "put start: no such group");
	out->u.put_start.groups = (const char *const *)m->groups;
	out->u.put_start.n_groups = m->n_groups;
	out->u.put_start.group = m->n_group ? m->group : NULL;
	return 0;
}

int tes_rpc_decode_put_start(struct tei_arena *arena, const void *body,
			     size_t len, struct tes_event *out,
			     const char **why)
{
	const Store__PutStart *m =
		tes_rpc_unpack(arena, &store__put_start__descriptor, body, len);
	int rc = 0;

	if (!m)
		return tes_rpc_malformed(why, "put start does not decode");
	if (m->n_sizes != m->n_key_lens)
		return tes_rpc_malformed(why,
					 "put start: columns differ in length");
	if (m->how)
		rc = take_how(arena, m->how, out, why);
	if (!rc)
		rc = take_groups(m, out, why);
	if (rc)
		return rc;
	out->u.put_start.sizes = m->sizes;
	out->u.put_start.upsert = m->upsert != 0;
	return tes_rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens,
				 out, why);
}

/* Whether the columns of extents fit those of keys. */
static bool entries_fit(const Store__PutEnd *m)
{
	size_t n = m->n_extents ? 0 : m->n_key_lens;

	if (m->n_extents && m->n_extents != m->n_key_lens)
		return false;
	for (size_t i = 0; i < m->n_extents; i++)
		n += m->extents[i];
	return !m->n_crc || m->n_crc == n;
}

static int take_no_crc(struct tei_arena *arena, const Store__PutEnd *m,
		       struct tes_event *out, const char **why)
{
	bool *no_crc;

	if (!m->n_no_crc)
		return 0;
	if (m->n_no_crc != m->n_key_lens)
		return tes_rpc_malformed(why,
					 "put end: columns differ in length");
	no_crc = tei_arena_calloc(arena, m->n_no_crc, sizeof(*no_crc));
	if (!no_crc)
		return tes_rpc_malformed(why, "batch too large");
	for (size_t i = 0; i < m->n_no_crc; i++)
		no_crc[i] = m->no_crc[i] != 0;
	out->u.put_end.no_crc = no_crc;
	return 0;
}

int tes_rpc_decode_put_end(struct tei_arena *arena, const void *body,
			   size_t len, struct tes_event *out, const char **why)
{
	const Store__PutEnd *m =
		tes_rpc_unpack(arena, &store__put_end__descriptor, body, len);
	int rc;

	if (!m)
		return tes_rpc_malformed(why, "put end does not decode");
	if (m->n_generation != m->n_key_lens || m->n_written != m->n_key_lens ||
	    (m->n_quiet && m->n_quiet != m->n_key_lens) || !entries_fit(m))
		return tes_rpc_malformed(why,
					 "put end: columns differ in length");
	rc = tes_rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens, out,
			       why);
	if (!rc)
		rc = take_no_crc(arena, m, out, why);
	if (rc)
		return rc;
	out->u.put_end.generations = m->generation;
	out->u.put_end.extents = m->n_extents ? m->extents : NULL;
	out->u.put_end.crcs = m->n_crc ? m->crc : NULL;
	out->u.put_end.written = m->written;
	out->u.put_end.quiet = m->n_quiet ? m->quiet : NULL;
	out->u.put_end.epoch = m->epoch;
	return 0;
}

int tes_rpc_decode_lookup(struct tei_arena *arena, const void *body, size_t len,
			  struct tes_event *out, const char **why)
{
	const Store__Lookup *m =
		tes_rpc_unpack(arena, &store__lookup__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "look-up does not decode");
	return tes_rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens,
				 out, why);
}

int tes_rpc_decode_release(struct tei_arena *arena, const void *body,
			   size_t len, struct tes_event *out, const char **why)
{
	const Store__Release *m =
		tes_rpc_unpack(arena, &store__release__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "release does not decode");
	if (m->n_generation != m->n_key_lens)
		return tes_rpc_malformed(why,
					 "release: columns differ in length");
	out->u.release.generations = m->generation;
	return tes_rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens,
				 out, why);
}

int tes_rpc_decode_keys(struct tei_arena *arena, const void *body, size_t len,
			struct tes_event *out, const char **why)
{
	const Store__Keys *m =
		tes_rpc_unpack(arena, &store__keys__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "keys do not decode");
	out->u.remove.force = m->force;
	return tes_rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens,
				 out, why);
}

int tes_rpc_decode_replica_clear(struct tei_arena *arena, const void *body,
				 size_t len, struct tes_event *out,
				 const char **why)
{
	const Store__ReplicaClear *m = tes_rpc_unpack(
		arena, &store__replica_clear__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "replica clear does not decode");
	if (*m->segment && !tes_rpc_is_name(m->segment))
		return tes_rpc_malformed(
			why, "replica clear: no usable segment name");
	out->u.replica_clear.segment = m->segment;
	return tes_rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens,
				 out, why);
}

int tes_rpc_decode_task_create(struct tei_arena *arena, const void *body,
			       size_t len, struct tes_event *out,
			       const char **why)
{
	const Store__TaskCreate *m = tes_rpc_unpack(
		arena, &store__task_create__descriptor, body, len);
	struct tes_core_key *key;

	if (!m)
		return tes_rpc_malformed(why, "task create does not decode");
	if (m->key.len < 1 || m->key.len > TES_CORE_KEY_MAX)
		return tes_rpc_malformed(why, "a key has 1 to 1024 bytes");
	if (m->n_targets > TES_CORE_TARGETS_MAX ||
	    !tes_rpc_are_names(m->targets, m->n_targets) ||
	    (*m->source && !tes_rpc_is_name(m->source)))
		return tes_rpc_malformed(why,
					 "task create: no usable segment name");
	key = tei_arena_alloc(arena, sizeof(*key));
	if (!key)
		return tes_rpc_malformed(why, "batch too large");
	*key = (struct tes_core_key){m->key.data, m->key.len};
	out->keys = key;
	out->n = 1;
	out->u.task_create.move = m->type == STORE__TASK_TYPE__TASK_MOVE;
	out->u.task_create.targets = (const char *const *)m->targets;
	out->u.task_create.n_targets = m->n_targets;
	out->u.task_create.source = *m->source ? m->source : NULL;
	return 0;
}

int tes_rpc_decode_task_query(struct tei_arena *arena, const void *body,
			      size_t len, struct tes_event *out,
			      const char **why)
{
	const Store__TaskQuery *m = tes_rpc_unpack(
		arena, &store__task_query__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "task query does not decode");
	out->u.task_query.id = tes_rpc_id(&m->id);
	return 0;
}
