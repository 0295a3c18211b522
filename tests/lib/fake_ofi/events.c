/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - event queues of the fake libfabric; descriptors of queues */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/lib/fake_ofi/private.h"

/* ---- descriptors ---- */

int fake_ofi_wait_open(struct fake_ofi_wait *wait, enum fi_wait_obj how)
{
	wait->fd = -1;
	if (how != FI_WAIT_FD)
		return 0;
	wait->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wait->fd < 0)
		return -FI_EMFILE;
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.counts.fds++;
	tei_mutex_unlock(&ofi_net.mu);
	return 0;
}

void fake_ofi_wait_close(struct fake_ofi_wait *wait)
{
	if (wait->fd < 0)
		return;
	close(wait->fd);
	ofi_net.counts.fds--;
}

void fake_ofi_wake(struct fake_ofi_wait *wait)
{
	if (!wait->armed)
		return;
	wait->armed = false;
	if (wait->fd >= 0 && eventfd_write(wait->fd, 1))
		assert(!"an event");
}

static struct fake_ofi_wait *wait_of(struct fid *fid)
{
	if (fid->fclass == FI_CLASS_EQ)
		return &((struct fake_ofi_eq *)(void *)fid)->wait;
	assert(fid->fclass == FI_CLASS_CQ);
	return &((struct fake_ofi_cq *)(void *)fid)->wait;
}

int fake_ofi_getwait(struct fid *fid, int *fd)
{
	int rc = fake_ofi_check(FAKE_OFI_GETWAIT);

	if (rc)
		return rc;
	if (wait_of(fid)->fd < 0)
		return -FI_ENOSYS;
	*fd = wait_of(fid)->fd;
	return 0;
}

static bool is_empty(struct fid *fid)
{
	const struct fake_ofi_cq *cq = (void *)fid;

	if (fid->fclass == FI_CLASS_EQ)
		return tei_list_empty(
			&((struct fake_ofi_eq *)(void *)fid)->events);
	return !cq->n && !cq->overrun && !cq->dead;
}

/* Arms a queue: while nobody reads it, its endpoints go on by themselves. */
static bool arm(struct fid *fid) TEI_REQUIRES(ofi_net.mu)
{
	struct fake_ofi_wait *wait = wait_of(fid);
	eventfd_t times;

	if (wait->fd >= 0)
		(void)eventfd_read(wait->fd, &times);
	if (fid->fclass == FI_CLASS_CQ)
		fake_ofi_run((struct fake_ofi_cq *)(void *)fid, SIZE_MAX);
	wait->armed = is_empty(fid);
	return wait->armed;
}

int fake_ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	bool armed = true;

	(void)fabric;
	tei_mutex_lock(&ofi_net.mu);
	for (int i = 0; i < count; i++)
		armed &= arm(fids[i]);
	tei_mutex_unlock(&ofi_net.mu);
	return armed ? 0 : -FI_EAGAIN;
}

/* ---- event queues ---- */

int fake_ofi_eq_open(struct fid_fabric *base, struct fi_eq_attr *attr,
		     struct fid_eq **out, void *context)
{
	struct fake_ofi_eq *eq;
	int rc = fake_ofi_check(FAKE_OFI_EQ_OPEN);

	if (rc)
		return rc;
	eq = tei_calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	rc = fake_ofi_wait_open(&eq->wait, attr->wait_obj);
	if (rc) {
		tei_free(eq);
		return rc;
	}
	eq->base.fid = (struct fid){.fclass = FI_CLASS_EQ, .context = context};
	eq->fabric = (void *)base;
	tei_list_init(&eq->events);
	tei_mutex_lock(&ofi_net.mu);
	eq->fabric->n_children++;
	ofi_net.counts.queues++;
	tei_mutex_unlock(&ofi_net.mu);
	*out = &eq->base;
	return 0;
}

void fake_ofi_event_free(struct fake_ofi_event *event)
{
	tei_list_del(&event->link);
	if (event->request)
		fake_ofi_request_free(event->request, FI_ECONNREFUSED);
	if (event->info) {
		fake_ofi_drop(event->info);
		ofi_net.counts.infos--;
	}
	free(event);
}

struct fake_ofi_event *fake_ofi_tell(struct fake_ofi_eq *eq, uint32_t what,
				     struct fid *fid, int err)
{
	struct fake_ofi_event *event;

	if (!eq)
		return NULL;
	event = calloc(1, sizeof(*event));
	assert(event);
	tei_list_init(&event->link);
	event->event = what;
	event->fid = fid;
	event->err = event->code = err;
	tei_list_add_tail(&eq->events, &event->link);
	fake_ofi_wake(&eq->wait);
	return event;
}

void fake_ofi_forget(struct fake_ofi_eq *eq, const struct fid *fid)
{
	if (!eq)
		return;
	tei_list_for_each_safe (node, tmp, &eq->events) {
		struct fake_ofi_event *event =
			tei_list_entry(node, struct fake_ofi_event, link);

		if (event->fid == fid)
			fake_ofi_event_free(event);
	}
}

static struct fake_ofi_event *first_of(const struct fake_ofi_eq *eq)
{
	return tei_list_empty(&eq->events)
		       ? NULL
		       : tei_list_entry(eq->events.next, struct fake_ofi_event,
					link);
}

static ssize_t give_event(struct fake_ofi_event *e, uint32_t *what,
			  struct fi_eq_cm_entry *entry, size_t len)
{
	size_t n = len - sizeof(*entry);

	if (len < sizeof(*entry))
		return -FI_ETOOSMALL;
	if (n > e->len)
		n = e->len;
	*what = e->event;
	entry->fid = e->fid;
	entry->info = e->info;
	memcpy(entry->data, e->data, n);
	e->info = NULL; /* the reader's, as is the request */
	e->request = NULL;
	fake_ofi_event_free(e);
	return (ssize_t)(sizeof(*entry) + n);
}

ssize_t fake_ofi_eq_read(struct fid_eq *base, uint32_t *what, void *buf,
			 size_t len, uint64_t flags)
{
	struct fake_ofi_eq *eq = (void *)base;
	struct fake_ofi_event *e;
	ssize_t rc;

	assert(!flags);
	tei_mutex_lock(&ofi_net.mu);
	eq->dead |= fake_ofi_fails(FAKE_OFI_EQ_READ) != 0;
	e = first_of(eq);
	if (eq->dead)
		rc = -FI_EIO;
	else if (!e)
		rc = -FI_EAGAIN;
	else if (e->err)
		rc = -FI_EAVAIL;
	else
		rc = give_event(e, what, buf, len);
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

ssize_t fake_ofi_eq_readerr(struct fid_eq *base, struct fi_eq_err_entry *buf,
			    uint64_t flags)
{
	struct fake_ofi_event *e;
	ssize_t rc = -FI_EAGAIN;

	(void)flags;
	tei_mutex_lock(&ofi_net.mu);
	e = first_of((void *)base);
	if (e && e->err) {
		*buf = (struct fi_eq_err_entry){
			.fid = e->fid,
			.context = e->fid ? e->fid->context : NULL,
			.err = e->err,
			.prov_errno = e->code};
		fake_ofi_event_free(e);
		rc = sizeof(*buf);
	}
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

int fake_ofi_eq_close(struct fid *fid)
{
	struct fake_ofi_eq *eq = (void *)fid;

	if (eq->n_children)
		return -FI_EBUSY;
	while (first_of(eq))
		fake_ofi_event_free(first_of(eq));
	fake_ofi_wait_close(&eq->wait);
	eq->fabric->n_children--;
	ofi_net.counts.queues--;
	return 0;
}
