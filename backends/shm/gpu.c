/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.c - slices between memory of GPUs, by copies that a GPU makes
 *
 * The region that a peer was granted is open in this process, and the core has
 * the driver copy (te/backend.h). Copies of many slices are begun as one burst,
 * which is one marked chunk: the mark is odd from before it is checked whether
 * they may be made until all have ended. An endpoint has one burst at a time:
 * a fence or a revocation waits for no more than that.
 *
 *   queue --begin()--> burst --landed()--> progress(): done, or queue again
 */
#include <errno.h>
#include <string.h>

#include <te/te.h>

#include "backends/shm/shm.h"

_Static_assert(SHM_NAME_LEN == TEI_GPU_NAME_LEN, "a GRANT has the name");

#define BURST_LEN (32ull << 20) /* bytes: some ms at most */

bool tei_shm_is_across(const void *key, size_t len)
{
	const uint8_t *bytes = key;
	struct shm_key k;

	/* Asked for each request: most keys are not looked at closely. */
	return len == SHM_KEY_LEN &&
	       (bytes[SHM_KEY_FLAGS] || bytes[SHM_KEY_KIND] == SHM_GPU) &&
	       tei_shm_key_decode(key, len, &k) && k.kind == SHM_GPU;
}

/* ---- views ---- */

/* Local memory of a slice that waits for the view; NULL: none does any more. */
static const void *local_of(const struct shm_view *view)
{
	uint64_t room;

	if (tei_list_empty(&view->waiting))
		return NULL;
	return tei_shm_slice_at(
		tei_list_entry(view->waiting.next, struct tei_slice, link),
		&room);
}

static int send_return(struct shm_endpoint *ep, const struct shm_view *view)
{
	const struct shm_message m = {.op = SHM_RETURN,
				      .id = view->key.id,
				      .generation = view->generation};

	return tei_shm_send(ep->socket.fd, &m, -1);
}

/*
 * Tells the owner that the region is closed here. If it does not hear that, it
 * hears the end of the endpoint.
 */
static void give_back(struct shm_endpoint *ep, const struct shm_view *view)
{
	int rc = ep->broken ? 0 : send_return(ep, view);

	if (rc)
		tei_shm_break(ep, rc == -EAGAIN ? -ECONNRESET : rc);
}

/* Adds the chunks of one message, whose descriptors may be too few. */
static int add_chunks(struct shm_view *view, const struct shm_message *m,
		      const struct shm_fds *fds)
{
	unsigned int n = 0;
	int rc = 0;

	while (n < SHM_CHUNKS_BURST && m->lengths[n])
		n++;
	if (!n || fds->n > n || n > TEI_GPU_CHUNKS_MAX - view->n_chunks)
		return -EBADMSG;
	if (fds->n < n)
		return -EMFILE;
	for (unsigned int i = 0; i < n && !rc; i++) {
		if (m->lengths[i] > view->chunks_len - view->chunks_mapped)
			return -EBADMSG;
		rc = tei_gpu_window_add(view->window, m->lengths[i],
					fds->at[i]);
		if (!rc)
			view->chunks_mapped += m->lengths[i];
	}
	view->n_chunks += n;
	if (rc)
		return rc == -ENXIO ? -EAGAIN : rc;
	return view->chunks_mapped < view->chunks_len ? -EINPROGRESS : 0;
}

/* Opens the window of a GRANT, the first one of chunks, and lists it. */
static int open_window(struct shm_endpoint *ep, struct shm_view *view,
		       const struct shm_message *m)
{
	const struct shm_rail *rail = shm_rail(ep->base->rail);
	bool is_own = ep->pid == rail->host.pid;
	const void *local = local_of(view);
	int rc;

	if (!local)
		return -EOPNOTSUPP;
	if (m->kind == SHM_GPU) {
		rc = tei_gpu_window_open(rail->base->core, local,
					 is_own ? NULL : m->name, m->addr,
					 &view->window);
	} else {
		view->chunks_at = m->addr;
		view->chunks_len = m->length;
		rc = tei_gpu_window_reserve(rail->base->core, local, m->length,
					    &view->window);
	}
	if (!rc)
		tei_list_add_tail(&ep->windows, &view->window_link);
	return rc;
}

/* Tells whether the GRANT has all of the region. */
static bool has_region(const struct shm_message *m, const struct shm_key *key)
{
	return m->addr <= key->addr && key->addr - m->addr <= m->length &&
	       key->length <= m->length - (key->addr - m->addr) &&
	       m->length <= 2 * (uint64_t)TE_LENGTH_MAX;
}

int tei_shm_gpu_open(struct shm_endpoint *ep, struct shm_view *view,
		     const struct shm_message *m, const struct shm_fds *fds)
{
	int rc;

	if (!has_region(m, &view->key) ||
	    (view->window &&
	     (m->kind != SHM_CHUNKS || m->addr != view->chunks_at ||
	      m->length != view->chunks_len)))
		return -EBADMSG;
	view->window_at = view->key.addr - m->addr;
	rc = view->window ? 0 : open_window(ep, view, m);
	if (rc) {
		give_back(ep, view);
		return rc;
	}
	if (m->kind == SHM_CHUNKS)
		rc = add_chunks(view, m, fds);
	if (rc && rc != -EINPROGRESS)
		tei_shm_gpu_close(ep, view);
	return rc;
}

void tei_shm_gpu_close(struct shm_endpoint *ep, struct shm_view *view)
{
	tei_list_del(&view->window_link);
	tei_gpu_window_close(view->window);
	view->window = NULL;
	give_back(ep, view);
}

bool tei_shm_gpu_end(struct shm_endpoint *ep)
{
	if (ep->bursting)
		return false;
	while (!tei_list_empty(&ep->windows))
		tei_shm_gpu_close(ep,
				  tei_list_entry(ep->windows.next,
						 struct shm_view, window_link));
	return true;
}

/* ---- slices ---- */

/* Has progress() look at the endpoint. */
static void call(struct shm_endpoint *ep)
{
	struct shm_rail *rail = shm_rail(ep->base->rail);

	if (tei_list_empty(&ep->gpu_link))
		tei_list_add_tail(&rail->gpus, &ep->gpu_link);
	rail->base->busy = true;
}

/* Finds whom an urgent slice goes behind: those that were urgent before. */
static struct tei_list *last_urgent(struct shm_endpoint *ep)
{
	struct tei_list *at = &ep->gpu_queue;

	while (at->next != &ep->gpu_queue &&
	       tei_list_entry(at->next, struct tei_slice, link)->priority ==
		       TE_PRIORITY_URGENT)
		at = at->next;
	return at;
}

void tei_shm_gpu_enqueue(struct shm_endpoint *ep, struct tei_slice *slice)
{
	if (slice->priority == TE_PRIORITY_URGENT)
		tei_list_insert(last_urgent(ep), &slice->link);
	else
		tei_list_add_tail(&ep->gpu_queue, &slice->link);
	if (!ep->bursting && !ep->broken)
		call(ep);
}

/*
 * Adds copies of the slice to the burst, at most *@left bytes. *@full: the
 * burst takes no more. Returns whether it has some.
 */
static bool add_copies(struct shm_endpoint *ep, struct tei_slice *slice,
		       uint64_t *left, bool *full)
{
	struct shm_slice *s = shm_slice(slice);
	bool any = false;

	while (!*full && !s->err && s->at < slice->length) {
		uint64_t offset = s->view->window_at + s->at +
				  (slice->remote - s->view->key.addr);
		uint64_t n;
		uint8_t *local = tei_shm_slice_at(slice, &n);

		if (n > *left)
			n = *left;
		s->err = tei_gpu_burst_add(ep->burst, s->view->window, offset,
					   local, &n, slice->op == TEI_WRITE);
		if (s->err)
			break;
		tei_shm_slice_pass(slice, n);
		any |= n != 0;
		*left -= n;
		*full = !n || !*left;
	}
	return any;
}

static bool is_granted(const struct shm_endpoint *ep,
		       const struct shm_view *view)
{
	return view->state == SHM_VIEW_READY &&
	       tei_shm_is_granted(ep->pages, view->slot, view->generation);
}

/* Moves slices to the burst; those that cannot be copied to @ended. */
static void gather(struct shm_endpoint *ep, struct tei_list *ended)
{
	uint64_t left = BURST_LEN;
	bool full = false;

	while (!full && !tei_list_empty(&ep->gpu_queue)) {
		struct tei_slice *slice = tei_list_entry(
			ep->gpu_queue.next, struct tei_slice, link);
		struct shm_slice *s = shm_slice(slice);

		if (!is_granted(ep, s->view)) {
			tei_shm_to_ended(ended, slice,
					 tei_shm_verdict(s->view));
		} else if (add_copies(ep, slice, &left, &full)) {
			s->bursting = true;
			tei_list_del(&slice->link);
			tei_list_add_tail(&ep->gpu_burst, &slice->link);
		} else if (s->err == -ENXIO) { /* and is opened anew */
			tei_shm_to_ended(ended, slice, -EAGAIN);
			tei_shm_view_forget(ep, s->view);
		} else if (s->err) {
			tei_shm_to_ended(ended, slice, s->err);
		}
	}
}

static int end_all(struct tei_list *ended)
{
	struct tei_list *node;
	int n = 0;

	for (; (node = tei_list_pop(ended)); n++) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		tei_shm_slice_end(slice, shm_slice(slice)->err);
	}
	return n;
}

/* The GPU has copied: called between calls of this backend. */
static void landed(void *arg, int err)
{
	struct shm_endpoint *ep = arg;

	tei_shm_touch_end(&ep->pages->gpu_mark, &ep->gpu_mark);
	ep->landed = true;
	ep->burst_err = err;
	call(ep);
}

static void fail_all(struct shm_endpoint *ep, struct tei_list *ended)
{
	while (!tei_list_empty(&ep->gpu_queue)) {
		struct tei_slice *slice = tei_list_entry(
			ep->gpu_queue.next, struct tei_slice, link);

		tei_shm_to_ended(ended, slice, -ENOMEM);
	}
}

/* Begins a burst of what is in the queue. Returns how many slices ended. */
static int begin(struct shm_endpoint *ep)
{
	struct tei_list ended;
	int rc = 0;

	tei_list_init(&ended);
	if (!ep->burst)
		ep->burst =
			tei_gpu_burst_new(shm_rail(ep->base->rail)->base->core);
	if (!ep->burst) {
		fail_all(ep, &ended);
		return end_all(&ended);
	}
	tei_shm_touch_begin(&ep->pages->gpu_mark, &ep->gpu_mark);
	if (tei_shm_is_fenced(ep->pages))
		rc = -ESTALE;
	else if (tei_shm_has_ended(ep)) /* its memory would still be there */
		rc = -ECONNRESET;
	else
		gather(ep, &ended);
	ep->bursting = !tei_list_empty(&ep->gpu_burst);
	if (ep->bursting)
		tei_gpu_burst_begin(ep->burst, landed, ep);
	else
		tei_shm_touch_end(&ep->pages->gpu_mark, &ep->gpu_mark);
	if (rc)
		tei_shm_break(ep, rc);
	return end_all(&ended);
}

/* Puts back what has not been copied whole; all else of a burst to @ended. */
static void sort(struct shm_endpoint *ep, struct tei_list *ended)
{
	while (!tei_list_empty(&ep->gpu_burst)) {
		struct tei_slice *slice = tei_list_entry(
			ep->gpu_burst.prev, struct tei_slice, link);
		struct shm_slice *s = shm_slice(slice);

		s->bursting = false;
		tei_list_del(&slice->link);
		if (!s->err)
			s->err = ep->burst_err;
		if (s->err || s->at == slice->length)
			tei_list_add_head(ended, &slice->link);
		else
			tei_list_add_head(&ep->gpu_queue, &slice->link);
	}
}

/* Has the regions of slices that failed asked for, and opened, anew. */
static void forget_views(struct shm_endpoint *ep, struct tei_list *ended)
{
	tei_list_for_each (node, ended) {
		struct shm_view *view =
			shm_slice(tei_list_entry(node, struct tei_slice, link))
				->view;

		tei_shm_view_forget(ep, view);
	}
}

/* Ends a burst that has landed. */
static int finish(struct shm_endpoint *ep)
{
	struct tei_list ended;

	tei_list_init(&ended);
	ep->landed = ep->bursting = false;
	sort(ep, &ended);
	if (ep->burst_err)
		forget_views(ep, &ended);
	return end_all(&ended);
}

static int go_on(struct shm_endpoint *ep)
{
	int n = 0;

	if (ep->landed)
		n = finish(ep);
	if (!ep->broken && !ep->bursting && !tei_list_empty(&ep->gpu_queue))
		n += begin(ep);
	if (ep->flushing && !ep->bursting) {
		ep->flushing = false;
		(void)tei_shm_gpu_end(ep);
		tei_endpoint_flushed(ep->base);
	}
	return n;
}

int tei_shm_gpu_move(struct shm_rail *rail)
{
	struct tei_list now, *node;
	int n = 0;

	tei_list_init(&now);
	tei_list_splice_tail(&now, &rail->gpus);
	while ((node = tei_list_pop(&now)))
		n += 1 +
		     go_on(tei_list_entry(node, struct shm_endpoint, gpu_link));
	return n;
}

bool tei_shm_gpu_flush(struct shm_endpoint *ep)
{
	if (ep->landed)
		(void)finish(ep);
	ep->flushing = ep->bursting;
	return !ep->flushing;
}
