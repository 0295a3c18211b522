/* SPDX-License-Identifier: Apache-2.0 */
/* release.c - tell the master that reads are over; nobody waits for it */
#include <string.h>

#include "base/mem.h"
#include "store/client/client.h"
#include "store/proto/store.pb-c.h"

struct tei_release {
	struct tei_call post;
	struct te_store *store;
	Store__Release msg;
};

struct tei_release *tei_release_create(struct te_store *store, size_t n,
				       size_t key_bytes)
{
	struct tei_release *r;
	size_t size = sizeof(*r) + n * (sizeof(uint32_t) + sizeof(uint64_t)) +
		      key_bytes;

	r = tei_malloc(size);
	if (!r)
		return NULL;
	store__release__init(&r->msg);
	r->store = store;
	r->msg.generation = (uint64_t *)(void *)(r + 1);
	r->msg.key_lens = (uint32_t *)(void *)(r->msg.generation + n);
	r->msg.keys.data = (uint8_t *)(r->msg.key_lens + n);
	return r;
}

void tei_release_add(struct tei_release *r, const struct te_store_key *key,
		     uint64_t generation)
{
	size_t at = r->msg.n_key_lens;

	memcpy(r->msg.keys.data + r->msg.keys.len, key->bytes, key->len);
	r->msg.keys.len += key->len;
	r->msg.key_lens[at] = (uint32_t)key->len;
	r->msg.generation[at] = generation;
	r->msg.n_key_lens = r->msg.n_generation = at + 1;
}

static void on_loop(struct tei_call *post)
{
	struct tei_release *r = TEI_CONTAINER(post, struct tei_release, post);
	struct tei_master_link *link = &r->store->link;

	/* Lost with the connection, the leases end by themselves. */
	if (link->state == TEI_MASTER_LINK_UP && link->main)
		(void)tei_frame_send(link->main,
				     STORE__STORE_TYPE__STORE_RELEASE, 0, 0,
				     &r->msg.base);
	tei_free(r);
}

void tei_release_send(struct tei_release *r)
{
	r->post.fn = on_loop;
	if (!tei_loop_post(r->store->loop, &r->post))
		tei_free(r);
}
