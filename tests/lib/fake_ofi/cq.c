/* SPDX-License-Identifier: Apache-2.0 */
/* cq.c - completion queues of the fake libfabric */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/fake_ofi/private.h"

#define SIZE_USUAL 1024

static struct fake_ofi_cq *cq_of(struct fid_cq *cq)
{
	return (struct fake_ofi_cq *)(void *)cq;
}

/* A queue gets more room than was asked for, and says so. */
static size_t room_for(struct fi_cq_attr *attr)
{
	size_t room = 1;

	while (room < (attr->size ? attr->size : SIZE_USUAL))
		room *= 2;
	attr->size = room;
	return room;
}

int fake_ofi_cq_open(struct fid_domain *base, struct fi_cq_attr *attr,
		     struct fid_cq **out, void *context)
{
	struct fake_ofi_cq *cq;
	int rc = fake_ofi_check(FAKE_OFI_CQ_OPEN);

	if (rc)
		return rc;
	if (attr->format != FI_CQ_FORMAT_MSG)
		return -FI_ENOSYS;
	if (attr->wait_obj == FI_WAIT_FD && ofi_net.rules->polled)
		return -FI_ENOSYS;
	if (attr->size > ((struct fake_ofi_domain *)(void *)base)
				 ->device->limits.completions)
		return -FI_EINVAL;
	cq = tei_calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->room = room_for(attr);
	cq->ring = tei_calloc(cq->room, sizeof(*cq->ring));
	rc = cq->ring ? fake_ofi_wait_open(&cq->wait, attr->wait_obj)
		      : -FI_ENOMEM;
	if (rc) {
		tei_free(cq->ring);
		tei_free(cq);
		return rc;
	}
	cq->base.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context};
	cq->domain = (void *)base;
	tei_list_init(&cq->eps);
	tei_mutex_lock(&ofi_net.mu);
	cq->domain->n_children++;
	ofi_net.counts.queues++;
	tei_mutex_unlock(&ofi_net.mu);
	*out = &cq->base;
	return 0;
}

int fake_ofi_cq_close(struct fid *fid)
{
	struct fake_ofi_cq *cq = (void *)fid;

	if (!tei_list_empty(&cq->eps))
		return -FI_EBUSY;
	fake_ofi_wait_close(&cq->wait);
	tei_free(cq->ring);
	cq->domain->n_children--;
	ofi_net.counts.queues--;
	return 0;
}

void fake_ofi_cq_add(struct fake_ofi_cq *cq, const struct fake_ofi_done *done)
{
	if (cq->n == cq->room)
		cq->overrun = true;
	else
		cq->ring[(cq->head + cq->n++) & (cq->room - 1)] = *done;
	fake_ofi_wake(&cq->wait);
}

/* ---- reading ---- */

static struct fake_ofi_done *first_of(const struct fake_ofi_cq *cq)
{
	return cq->n ? &cq->ring[cq->head] : NULL;
}

/* Its endpoint has room for another operation, if it is there. */
static void take_first(struct fake_ofi_cq *cq)
{
	struct fake_ofi_ep *ep = (void *)(uintptr_t)first_of(cq)->ep;

	if (ep)
		ep->n_held--;
	cq->head = (cq->head + 1) & (cq->room - 1);
	cq->n--;
}

static ssize_t read_good(struct fake_ofi_cq *cq,
			 struct fi_cq_msg_entry *entries, size_t count)
{
	struct fake_ofi_done *done;
	size_t n = 0;

	while (n < count && (done = first_of(cq)) && !done->err) {
		entries[n++] = (struct fi_cq_msg_entry){done->context,
							done->flags, done->len};
		take_first(cq);
	}
	if (n)
		return (ssize_t)n;
	return first_of(cq) ? -FI_EAVAIL : -FI_EAGAIN;
}

ssize_t fake_ofi_cq_read(struct fid_cq *base, void *buf, size_t count)
{
	struct fake_ofi_cq *cq = cq_of(base);
	int fails;
	ssize_t rc;

	tei_mutex_lock(&ofi_net.mu);
	fails = fake_ofi_fails(FAKE_OFI_CQ_READ);
	cq->dead |= fails != 0;
	cq->n_reads++;
	if (!cq->dead)
		fake_ofi_run(cq, count);
	if (cq->dead)
		rc = fails ? fails : -FI_EIO;
	else if (cq->overrun)
		rc = -FI_EOVERRUN;
	else
		rc = read_good(cq, buf, count);
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

/*
 * Data of an error: into the reader's room, as much as that has, or where there
 * is none, in memory of the queue that the next read may change.
 */
static void give_data(struct fake_ofi_cq *cq, const struct fake_ofi_done *done,
		      struct fi_cq_err_entry *buf) TEI_REQUIRES(ofi_net.mu)
{
	size_t room = buf->err_data_size;
	int n = snprintf(cq->text, sizeof(cq->text), "code %d of %s",
			 done->code, ofi_net.rules->provider);
	size_t len = (size_t)n + 1;

	if (fake_ofi_happens(ofi_net.chances.cut))
		len /= 4;
	if (room) {
		len = len < room ? len : room;
		memcpy(buf->err_data, cq->text, len);
	} else {
		buf->err_data = len ? cq->text : NULL;
	}
	buf->err_data_size = len;
}

ssize_t fake_ofi_cq_readerr(struct fid_cq *base, struct fi_cq_err_entry *buf,
			    uint64_t flags)
{
	struct fake_ofi_cq *cq = cq_of(base);
	struct fake_ofi_done *done;
	ssize_t rc = -FI_EAGAIN;

	(void)flags;
	tei_mutex_lock(&ofi_net.mu);
	done = first_of(cq);
	if (done && done->err) {
		buf->op_context = done->context;
		buf->flags = done->flags;
		buf->len = 0;
		buf->buf = NULL;
		buf->data = buf->tag = 0;
		buf->olen = 0;
		buf->err = done->err;
		buf->prov_errno = done->code;
		give_data(cq, done, buf);
		take_first(cq);
		rc = 1;
	}
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

/* Some providers have no words. */
const char *fake_ofi_cq_strerror(struct fid_cq *base, int prov_errno,
				 const void *err_data, char *buf, size_t len)
{
	(void)base;
	(void)err_data;
	if (prov_errno % 2)
		return NULL;
	if (buf && len)
		(void)snprintf(buf, len, "code %d", prov_errno);
	return buf;
}
