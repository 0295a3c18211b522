/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.c - the initiator's talk: welcome, asking for regions, views
 *
 * A region's view is made when the first slice names its key, and asked for at
 * once; slices wait at the view until the owner has answered. A refusal ends
 * them and the view; a region that the owner lets us use but that cannot be
 * mapped or reached here is barred for a while: the core takes another backend
 * for it.
 *
 * A FORGET says that something was revoked: what that is the slots say, also
 * for those whose FORGET found the socket full.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <te/te.h>

#include "backends/shm/shm.h"
#include "base/chance.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"

/*
 * Memory of another process is mapped only if it cannot shrink: the kernel
 * keeps the seals of a memfd, so that a size that was checked stays right.
 * Forked children do not inherit such mappings.
 */

#define FIXED (F_SEAL_SHRINK | F_SEAL_GROW)

int tei_shm_pages_make(struct shm_pages **out)
{
	void *at;
	int fd, rc;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = memfd_create("te-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	rc = -ENOMEM;
	if (ftruncate(fd, SHM_PAGES_LEN) ||
	    fcntl(fd, F_ADD_SEALS, FIXED | F_SEAL_SEAL))
		goto close_fd;
	at = mmap(NULL, SHM_PAGES_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		  0);
	if (at == MAP_FAILED)
		goto close_fd;
	(void)madvise(at, SHM_PAGES_LEN, MADV_DONTFORK);
	*out = at;
	return fd;

close_fd:
	close(fd);
	return rc;
}

/* Checks that @fd is sealed memory of @least bytes or more; *st: its state. */
static int check_mapping(int fd, uint64_t least, struct stat *st)
{
	int seals;

	if (fstat(fd, st) || !S_ISREG(st->st_mode))
		return -EPROTO;
	seals = fcntl(fd, F_GET_SEALS); /* fails on files of a disk */
	if (seals < 0 || (seals & FIXED) != FIXED)
		return -EPROTO;
	if (st->st_size <= 0 || (uint64_t)st->st_size < least ||
	    (uint64_t)st->st_size > 2 * (uint64_t)TE_LENGTH_MAX)
		return -EPROTO;
	return 0;
}

static int map(int fd, size_t size, int prot, void **out)
{
	void *at;

	if (tei_fault_check(TEI_FAULT_ALLOC))
		return -ENOMEM;
	at = mmap(NULL, size, prot, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return errno == EACCES || errno == EPERM ? -EPROTO : -ENOMEM;
	(void)madvise(at, size, MADV_DONTFORK);
	(void)madvise(at, size, MADV_DONTDUMP);
	*out = at;
	return 0;
}

int tei_shm_pages_map(int fd, struct shm_pages **out)
{
	struct stat st;
	void *at;
	int rc = check_mapping(fd, SHM_PAGES_LEN, &st);

	if (!rc && st.st_size != SHM_PAGES_LEN)
		rc = -EPROTO;
	if (!rc)
		rc = map(fd, SHM_PAGES_LEN, PROT_READ | PROT_WRITE, &at);
	if (!rc)
		*out = at;
	return rc;
}

void tei_shm_pages_unmap(struct shm_pages *pages)
{
	munmap(pages, SHM_PAGES_LEN);
}

/*
 * Maps the arena of the view's key. -EPROTO: the descriptor is no memory of
 * that size that cannot shrink. -ENOMEM.
 */
static int map_arena(int fd, struct shm_view *view)
{
	int prot = PROT_READ, rc;
	struct stat st;
	void *at;

	rc = check_mapping(fd, view->key.length, &st);
	if (view->key.access & TE_ACCESS_REMOTE_WRITE)
		prot |= PROT_WRITE;
	if (!rc)
		rc = map(fd, (size_t)st.st_size, prot, &at);
	if (rc)
		return rc;
	(void)madvise(at, (size_t)st.st_size, MADV_HUGEPAGE);
	view->base = at;
	view->mapped = (size_t)st.st_size;
	view->huge = (size_t)st.st_blksize >= TEI_HUGE_LEN;
	return 0;
}

/* Tells whether the file is this user's: of others mincore() may not tell. */
static bool is_own(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_uid == geteuid();
}

#define BARRED_MS 1000

/* ---- views ---- */

static void view_free(struct shm_endpoint *ep, struct shm_view *view)
{
	tei_mapping_remove(ep->base->rail->core, &view->mapping);
	if (view->base)
		munmap(view->base, view->mapped);
	if (view->window)
		tei_shm_gpu_close(ep, view);
	if (ep->last == view)
		ep->last = NULL;
	tei_list_del(&view->link);
	tei_free(view);
}

/* Hides the view: nothing finds it any more, but slices may still name it. */
static void view_hide(struct shm_endpoint *ep, struct shm_view *view)
{
	if (view->state == SHM_VIEW_ASKED)
		ep->n_asked--;
	view->state = SHM_VIEW_GONE;
	tei_hash_remove(&ep->views, &view->node);
	tei_list_del(&view->link);
	ep->n_views--;
	if (ep->last == view)
		ep->last = NULL;
}

void tei_shm_view_put(struct shm_endpoint *ep, struct shm_view *view)
{
	if (!--view->n_slices && view->state == SHM_VIEW_GONE)
		view_free(ep, view);
}

void tei_shm_view_forget(struct shm_endpoint *ep, struct shm_view *view)
{
	if (view->state == SHM_VIEW_GONE)
		return;
	view->n_slices++;
	view_hide(ep, view);
	tei_shm_view_settled(ep, view);
	tei_shm_view_put(ep, view);
}

void tei_shm_views_free(struct shm_endpoint *ep)
{
	struct tei_list *lists[] = {&ep->all_views, &ep->to_ask};

	for (int i = 0; i < 2; i++) {
		while (!tei_list_empty(lists[i])) {
			struct shm_view *view = tei_list_entry(
				lists[i]->next, struct shm_view, link);

			view_hide(ep, view);
			view_free(ep, view);
		}
	}
}

static bool is_idle(const struct shm_view *view)
{
	return view->state == SHM_VIEW_BARRED && !view->n_slices;
}

static void view_drop(struct shm_endpoint *ep, struct shm_view *view)
{
	view_hide(ep, view);
	view_free(ep, view);
}

/* The one that was barred first gives way. */
static void make_room(struct shm_endpoint *ep)
{
	tei_list_for_each (node, &ep->all_views) {
		struct shm_view *view =
			tei_list_entry(node, struct shm_view, link);

		if (!is_idle(view))
			continue;
		view_drop(ep, view);
		return;
	}
}

/* Sweeps in two steps: what ends a slice may come back for another view. */
void tei_shm_views_sweep(struct shm_endpoint *ep)
{
	struct tei_list revoked;

	ep->to_sweep = false;
	tei_list_init(&revoked);
	tei_list_for_each_safe (node, tmp, &ep->all_views) {
		const struct shm_view *view =
			tei_list_entry(node, struct shm_view, link);

		if (view->state != SHM_VIEW_READY ||
		    tei_shm_is_granted(ep->pages, view->slot, view->generation))
			continue;
		tei_list_del(node);
		tei_list_add_tail(&revoked, node);
	}
	while (!tei_list_empty(&revoked))
		tei_shm_view_forget(ep, tei_list_entry(revoked.next,
						       struct shm_view, link));
}

static struct shm_view *find_view(struct shm_endpoint *ep, uint64_t id)
{
	struct tei_hash_node *node =
		tei_hash_first(&ep->views, tei_chance_mix(id));

	for (; node; node = tei_hash_next(&ep->views, node)) {
		struct shm_view *view =
			TEI_CONTAINER(node, struct shm_view, node);

		if (view->key.id == id)
			return view;
	}
	return NULL;
}

/* ---- asking ---- */

/* Asks for a view, or for the chunks of it that are to come. */
static int ask(struct shm_endpoint *ep, struct shm_view *view)
{
	struct shm_message m = {.op = SHM_ASK,
				.id = view->key.id,
				.addr = view->chunks_mapped,
				.access = SHM_TAKES_GPU};
	int rc;

	memcpy(m.key, view->key_bytes, SHM_KEY_LEN);
	view->state = SHM_VIEW_ASKED;
	ep->n_asked++;
	rc = tei_shm_send(ep->socket.fd, &m, -1);
	return rc == -EAGAIN ? -ECONNRESET : rc; /* it would wait for ever */
}

/* Asks for some views, never more at once than the target's socket holds. */
static int ask_some(struct shm_endpoint *ep)
{
	struct tei_list *node;
	int rc;

	while (ep->up && ep->n_asked < SHM_ASKS_MAX &&
	       (node = tei_list_pop(&ep->to_ask))) {
		struct shm_view *view =
			tei_list_entry(node, struct shm_view, link);

		tei_list_add_tail(&ep->all_views, node);
		rc = ask(ep, view);
		if (rc)
			return rc;
	}
	return 0;
}

static struct shm_view *view_make(struct shm_endpoint *ep,
				  const struct tei_slice *slice, int *err)
{
	const struct shm_rail *rail = shm_rail(ep->base->rail);
	struct shm_view *view;
	struct shm_key key;
	int rc;

	*err = -EFAULT;
	if (!tei_shm_key_decode(slice->key, slice->key_len, &key))
		return NULL;
	*err = -EOPNOTSUPP;
	if (ep->n_views >= SHM_VIEWS_MAX)
		make_room(ep);
	if (ep->n_views >= SHM_VIEWS_MAX ||
	    (key.kind == SHM_FOREIGN && !ep->foreign) ||
	    (key.kind == SHM_GPU && !shm_config(rail)->gpu))
		return NULL;
	*err = -ENOMEM;
	view = tei_calloc(1, sizeof(*view));
	if (!view)
		return NULL;
	view->key = key;
	memcpy(view->key_bytes, slice->key, SHM_KEY_LEN);
	tei_list_init(&view->waiting);
	tei_list_init(&view->window_link);
	tei_list_add_tail(&ep->to_ask, &view->link);
	tei_hash_insert(&ep->views, &view->node, tei_chance_mix(key.id));
	ep->n_views++;
	rc = ask_some(ep);
	if (rc)
		tei_shm_break(ep, rc);
	return view;
}

/* Checks against the key; the owner checks again when it is asked. */
static int check_slice(const struct shm_view *view,
		       const struct tei_slice *slice)
{
	uint16_t access = slice->op == TEI_WRITE ? TE_ACCESS_REMOTE_WRITE
						 : TE_ACCESS_REMOTE_READ;

	if (slice->remote < view->key.addr ||
	    slice->length > view->key.length ||
	    slice->remote - view->key.addr > view->key.length - slice->length)
		return -EFAULT;
	return view->key.access & access ? 0 : -EACCES;
}

static bool may_ask_again(const struct shm_view *view)
{
	return is_idle(view) && tei_now_ms() - view->barred_ms >= BARRED_MS;
}

struct shm_view *tei_shm_view_get(struct shm_endpoint *ep,
				  const struct tei_slice *slice, int *err)
{
	struct shm_view *view = ep->last;
	uint64_t id;

	*err = -EFAULT;
	if (slice->key_len != SHM_KEY_LEN)
		return NULL;
	if (!view || view->state == SHM_VIEW_BARRED ||
	    memcmp(view->key_bytes, slice->key, SHM_KEY_LEN)) {
		struct shm_key key;

		if (!tei_shm_key_decode(slice->key, SHM_KEY_LEN, &key))
			return NULL;
		id = key.id;
		view = find_view(ep, id);
		if (view && memcmp(view->key_bytes, slice->key, SHM_KEY_LEN))
			return NULL; /* one id, two keys: one is made up */
		if (view && may_ask_again(view)) {
			view_drop(ep, view);
			view = NULL;
		}
		if (!view)
			view = view_make(ep, slice, err);
		if (!view)
			return NULL;
		ep->last = view;
	}
	*err = view->state == SHM_VIEW_BARRED ? -EOPNOTSUPP
					      : check_slice(view, slice);
	if (*err)
		return NULL;
	view->n_slices++;
	return view;
}

/* ---- messages ---- */

/* The descriptor that came, which stays of @fds; -1: none. */
static int one_of(const struct shm_fds *fds)
{
	return fds->n ? fds->at[0] : -1;
}

static int take_welcome(struct shm_endpoint *ep, const struct shm_message *m,
			const struct shm_fds *fds)
{
	const struct shm_rail *rail = shm_rail(ep->base->rail);
	int rc;

	if (ep->up || memcmp(m->token, ep->token, SHM_TOKEN_LEN))
		return -EBADMSG;
	if (!fds->n)
		return -EMFILE;
	rc = tei_shm_pages_map(one_of(fds), &ep->pages);
	if (rc)
		return rc;
	ep->foreign =
		shm_config(rail)->foreign && tei_shm_foreign_probe(ep, m->addr);
	ep->up = true;
	tei_endpoint_up(ep->base);
	return 0;
}

static void refuse_view(struct shm_endpoint *ep, struct shm_view *view, int err)
{
	view->n_slices++;
	view_hide(ep, view);
	view->refused = err;
	tei_shm_view_settled(ep, view);
	tei_shm_view_put(ep, view);
}

/*
 * Refuses a view for want of memory or descriptors. The slice is tried again,
 * and after some such failures goes by another backend.
 */
static void could_not_map(struct shm_endpoint *ep, struct shm_view *view)
{
	refuse_view(ep, view,
		    ++ep->n_short < SHM_SHORT_MAX ? -ENOMEM : -EOPNOTSUPP);
}

/* Tells whether a GRANT is of the view's kind, and continues what it has. */
static bool fits(const struct shm_view *view, const struct shm_message *m)
{
	uint8_t kind = m->kind == SHM_CHUNKS ? (uint8_t)SHM_GPU : m->kind;

	return m->slot < SHM_SLOTS && m->generation && kind == view->key.kind &&
	       (!view->window ||
		(m->slot == view->slot && m->generation == view->generation));
}

static int open_view(struct shm_endpoint *ep, struct shm_view *view,
		     const struct shm_message *m, const struct shm_fds *fds)
{
	int rc = 0;

	if (!fits(view, m))
		return -EBADMSG;
	view->slot = m->slot;
	view->generation = m->generation;
	if (m->kind == SHM_ARENA)
		rc = fds->n ? map_arena(one_of(fds), view) : -EMFILE;
	if (view->key.kind == SHM_GPU)
		rc = tei_shm_gpu_open(ep, view, m, fds);
	if (rc == -EPROTO || rc == -EBADMSG)
		return rc;
	if (rc == -EINPROGRESS)
		return ask(ep, view);
	if (rc == -EAGAIN) {
		refuse_view(ep, view, rc);
		return 0;
	}
	if (rc == -EOPNOTSUPP) {
		tei_shm_view_bar(view);
		tei_shm_view_settled(ep, view);
		return 0;
	}
	if (rc) {
		could_not_map(ep, view);
		return 0;
	}
	ep->n_short = 0;
	if (view->base && is_own(one_of(fds)))
		tei_mapping_add(ep->base->rail->core, &view->mapping,
				view->base, view->mapped);
	view->state = SHM_VIEW_READY;
	tei_shm_view_settled(ep, view);
	return 0;
}

static int take_grant(struct shm_endpoint *ep, const struct shm_message *m,
		      const struct shm_fds *fds)
{
	struct shm_view *view = find_view(ep, m->id);
	int err, rc = 0;

	if (!view || view->state != SHM_VIEW_ASKED)
		return -EBADMSG;
	ep->n_asked--;
	view->state = SHM_VIEW_NEW;
	err = tei_status_to_errno(m->status);
	if (err && view->window) /* some chunks of it are here */
		tei_shm_gpu_close(ep, view);
	if (err == -EOPNOTSUPP) {
		tei_shm_view_bar(view);
		tei_shm_view_settled(ep, view);
	} else if (err) {
		refuse_view(ep, view, err);
	} else {
		rc = open_view(ep, view, m, fds);
	}
	return rc ? rc : ask_some(ep);
}

static int dispatch(struct shm_endpoint *ep, const struct shm_message *m,
		    const struct shm_fds *fds)
{
	switch (m->op) {
	case SHM_WELCOME:
		return take_welcome(ep, m, fds);
	case SHM_GRANT:
		return ep->up ? take_grant(ep, m, fds) : -EBADMSG;
	case SHM_FORGET:
		ep->to_sweep = ep->up;
		return 0;
	default:
		return -EBADMSG;
	}
}

int tei_shm_attach_message(struct shm_endpoint *ep, const struct shm_message *m,
			   struct shm_fds *fds)
{
	int rc = dispatch(ep, m, fds);

	tei_shm_fds_close(fds);
	return rc;
}
