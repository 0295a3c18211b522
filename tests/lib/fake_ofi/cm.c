/* SPDX-License-Identifier: Apache-2.0 */
/* cm.c - listeners and connections of the fake libfabric (FI_EP_MSG) */
#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/fake_ofi/private.h"

static struct fake_ofi_pep *pep_of(struct fid_pep *pep)
{
	return (struct fake_ofi_pep *)(void *)pep;
}

static struct fake_ofi_ep *ep_of(struct fid_ep *ep)
{
	return (struct fake_ofi_ep *)(void *)ep;
}

int fake_ofi_give_address(void *out, size_t *len, const void *addr, size_t n)
{
	size_t room = *len;

	*len = n;
	memcpy(out, addr, room < n ? room : n);
	return room < n ? -FI_ETOOSMALL : 0;
}

/* ---- listeners ---- */

int fake_ofi_passive_ep(struct fid_fabric *base, struct fi_info *info,
			struct fid_pep **out, void *context)
{
	struct fake_ofi_pep *pep;
	int rc = fake_ofi_check(FAKE_OFI_PASSIVE_EP);

	if (rc)
		return rc;
	if (ofi_net.rules->type != FI_EP_MSG)
		return -FI_ENOSYS;
	if (!info->src_addr || info->src_addrlen != sizeof(pep->at))
		return -FI_EINVAL;
	pep = tei_calloc(1, sizeof(*pep));
	if (!pep)
		return -FI_ENOMEM;
	pep->base.fid =
		(struct fid){.fclass = FI_CLASS_PEP, .context = context};
	pep->fabric = (void *)base;
	pep->device = fake_ofi_device_of(info);
	memcpy(&pep->at, info->src_addr, sizeof(pep->at));
	tei_mutex_lock(&ofi_net.mu);
	tei_list_add_tail(&ofi_net.peps, &pep->link);
	pep->fabric->n_children++;
	ofi_net.counts.listeners++;
	tei_mutex_unlock(&ofi_net.mu);
	*out = &pep->base;
	return 0;
}

int fake_ofi_pep_bind(struct fid_pep *base, struct fid *bfid, uint64_t flags)
{
	struct fake_ofi_pep *pep = pep_of(base);
	int rc;

	tei_mutex_lock(&ofi_net.mu);
	rc = fake_ofi_fails(FAKE_OFI_BIND);
	if (!rc && (bfid->fclass != FI_CLASS_EQ || flags || pep->eq))
		rc = -FI_EINVAL;
	if (!rc) {
		pep->eq = (void *)bfid;
		pep->eq->n_children++;
	}
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

int fake_ofi_listen(struct fid_pep *base)
{
	struct fake_ofi_pep *pep = pep_of(base);
	int rc;

	tei_mutex_lock(&ofi_net.mu);
	rc = fake_ofi_fails(FAKE_OFI_LISTEN);
	if (!rc && !pep->eq)
		rc = -FI_ENOEQ;
	if (!rc) {
		pep->listens = true;
		pep->at.sin_port = htons(ofi_net.next_port++);
	}
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

int fake_ofi_pep_close(struct fid *fid)
{
	struct fake_ofi_pep *pep = (void *)fid;

	fake_ofi_forget(pep->eq, fid);
	if (pep->eq)
		pep->eq->n_children--;
	tei_list_del(&pep->link);
	pep->fabric->n_children--;
	ofi_net.counts.listeners--;
	return 0;
}

static struct fake_ofi_pep *find_listener(const struct sockaddr_in *at)
{
	tei_list_for_each (node, &ofi_net.peps) {
		struct fake_ofi_pep *pep =
			tei_list_entry(node, struct fake_ofi_pep, link);

		if (pep->listens && pep->at.sin_port == at->sin_port &&
		    pep->at.sin_addr.s_addr == at->sin_addr.s_addr)
			return pep;
	}
	return NULL;
}

/* ---- asking ---- */

static struct fi_info *describe_request(const struct fake_ofi_pep *pep,
					struct fake_ofi_request *request,
					const struct sockaddr_in *from)
{
	struct fi_info *info = fake_ofi_copy(pep->device->info);

	if (!info)
		return NULL;
	tei_free(info->dest_addr);
	info->dest_addr = tei_malloc(sizeof(*from));
	if (!info->dest_addr) {
		fake_ofi_drop(info);
		return NULL;
	}
	memcpy(info->dest_addr, from, sizeof(*from));
	info->dest_addrlen = sizeof(*from);
	info->handle = &request->base;
	ofi_net.counts.infos++;
	return info;
}

/* NULL: no memory. */
static struct fake_ofi_request *ask(struct fake_ofi_pep *pep,
				    const struct sockaddr_in *from,
				    const void *param, size_t len)
{
	struct fake_ofi_request *request = tei_calloc(1, sizeof(*request));
	struct fake_ofi_event *event;
	struct fi_info *info;

	if (!request)
		return NULL;
	info = describe_request(pep, request, from);
	if (!info) {
		tei_free(request);
		return NULL;
	}
	request->base.fclass = FI_CLASS_CONNREQ;
	request->at = pep->at;
	ofi_net.counts.requests++;
	event = fake_ofi_tell(pep->eq, FI_CONNREQ, &pep->base.fid, 0);
	event->info = info;
	event->request = request;
	memcpy(event->data, param, len);
	event->len = len < ofi_net.rules->padded ? ofi_net.rules->padded : len;
	return request;
}

void fake_ofi_request_free(struct fake_ofi_request *request, int err)
{
	struct fake_ofi_ep *from = request->from;

	if (from)
		from->asked = NULL;
	if (from && err) {
		from->state = FAKE_OFI_ENDED;
		fake_ofi_tell(from->eq, 0, &from->base.fid, err);
	}
	if (request->stranger && err)
		ofi_net.counts.strangers_refused++;
	else if (request->stranger)
		ofi_net.counts.strangers_accepted++;
	ofi_net.counts.requests--;
	tei_free(request);
}

static int connect_to(struct fake_ofi_ep *ep, const struct sockaddr_in *to,
		      const void *param, size_t len)
{
	struct fake_ofi_pep *pep = find_listener(to);

	if (ep->state != FAKE_OFI_ENABLED || ep->request || ep->asked)
		return -FI_EOPBADSTATE;
	if (len > FAKE_OFI_CM_DATA_MAX)
		return -FI_EINVAL;
	ep->other = *to;
	ep->self = *(struct sockaddr_in *)ep->domain->device->info->src_addr;
	ep->self.sin_port = htons(ofi_net.next_port++);
	if (!pep) {
		ep->state = FAKE_OFI_ENDED;
		fake_ofi_tell(ep->eq, 0, &ep->base.fid, FI_ECONNREFUSED);
		return 0;
	}
	if (pep->device->silent)
		return 0; /* nobody answers */
	ep->asked = ask(pep, &ep->self, param, len);
	if (!ep->asked)
		return -FI_ENOMEM;
	ep->asked->from = ep;
	return 0;
}

int fake_ofi_connect(struct fid_ep *base, const void *addr, const void *param,
		     size_t paramlen)
{
	int rc;

	if (ofi_net.rules->type != FI_EP_MSG)
		return -FI_ENOSYS;
	tei_mutex_lock(&ofi_net.mu);
	rc = fake_ofi_fails(FAKE_OFI_CONNECT);
	if (!rc)
		rc = connect_to(ep_of(base), addr, param, paramlen);
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

unsigned int fake_ofi_strangers(const void *param, size_t len)
{
	const struct sockaddr_in from = {.sin_family = AF_INET};
	unsigned int n = 0;

	assert(len <= FAKE_OFI_CM_DATA_MAX);
	tei_mutex_lock(&ofi_net.mu);
	tei_list_for_each (node, &ofi_net.peps) {
		struct fake_ofi_pep *pep =
			tei_list_entry(node, struct fake_ofi_pep, link);
		struct fake_ofi_request *request =
			pep->listens ? ask(pep, &from, param, len) : NULL;

		if (request)
			request->stranger = true;
		n += request != NULL;
	}
	tei_mutex_unlock(&ofi_net.mu);
	return n;
}

/* ---- answering ---- */

int fake_ofi_reject(struct fid_pep *pep, struct fid *handle, const void *param,
		    size_t paramlen)
{
	struct fake_ofi_request *request = (void *)handle;

	(void)pep;
	(void)param;
	(void)paramlen;
	tei_mutex_lock(&ofi_net.mu);
	assert(handle->fclass == FI_CLASS_CONNREQ);
	assert(!request->taken || ofi_net.rules->handle_stays);
	fake_ofi_request_free(request, FI_ECONNREFUSED);
	tei_mutex_unlock(&ofi_net.mu);
	return 0;
}

/* Who has asked may have gone meanwhile: then nothing of it is heard again. */
static void join(struct fake_ofi_ep *ep)
{
	struct fake_ofi_request *request = ep->request;
	struct fake_ofi_ep *other = request->from;

	ep->request = NULL;
	ep->self = request->at;
	if (!other && !request->stranger) {
		ep->state = FAKE_OFI_ENDED;
		fake_ofi_tell(ep->eq, 0, &ep->base.fid, FI_ECONNRESET);
	} else {
		ep->state = FAKE_OFI_CONNECTED;
		fake_ofi_tell(ep->eq, FI_CONNECTED, &ep->base.fid, 0);
	}
	if (other) {
		ep->other = other->self;
		ep->peer = other;
		other->peer = ep;
		other->state = FAKE_OFI_CONNECTED;
		fake_ofi_tell(other->eq, FI_CONNECTED, &other->base.fid, 0);
	}
	fake_ofi_request_free(request, 0);
}

int fake_ofi_accept(struct fid_ep *base, const void *param, size_t paramlen)
{
	struct fake_ofi_ep *ep = ep_of(base);
	int rc;

	(void)param;
	(void)paramlen;
	tei_mutex_lock(&ofi_net.mu);
	rc = fake_ofi_fails(FAKE_OFI_ACCEPT);
	if (!rc && (ep->state != FAKE_OFI_ENABLED || !ep->request))
		rc = -FI_EOPBADSTATE;
	if (!rc)
		join(ep);
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

/* ---- ending ---- */

static void end(struct fake_ofi_ep *ep, int err, int code)
{
	ep->state = FAKE_OFI_ENDED;
	ep->peer = NULL;
	fake_ofi_end_all(ep, err, code);
	fake_ofi_tell(ep->eq, FI_SHUTDOWN, &ep->base.fid, 0);
}

void fake_ofi_break(struct fake_ofi_ep *ep, int err)
{
	struct fake_ofi_ep *peer = ep->peer;

	end(ep, err, err);
	if (peer)
		end(peer, FI_ECANCELED, FI_ECANCELED);
}

int fake_ofi_shutdown(struct fid_ep *base, uint64_t flags)
{
	struct fake_ofi_ep *ep = ep_of(base);
	int rc = 0;

	(void)flags;
	tei_mutex_lock(&ofi_net.mu);
	if (ofi_net.rules->type != FI_EP_MSG)
		rc = -FI_ENOSYS;
	else if (ep->state != FAKE_OFI_CONNECTED)
		rc = -FI_ENOTCONN;
	else
		fake_ofi_leave(ep);
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

/* What an endpoint leaves that was made for a request and not accepted. */
static void leave_request(struct fake_ofi_request *request)
{
	struct fake_ofi_ep *from = request->from;

	if (!ofi_net.rules->handle_stays) {
		fake_ofi_request_free(request, FI_ECONNREFUSED);
		return;
	}
	request->from = NULL;
	if (!from)
		return;
	from->asked = NULL;
	from->state = FAKE_OFI_ENDED;
	fake_ofi_tell(from->eq, 0, &from->base.fid, FI_ECONNRESET);
}

/* Of a process that is stopped nobody is told anything. */
void fake_ofi_leave(struct fake_ofi_ep *ep)
{
	const struct fake_ofi_rules *rules = ofi_net.rules;
	struct fake_ofi_ep *peer = ep->peer;

	if (ep->request)
		leave_request(ep->request);
	ep->request = NULL;
	if (ep->asked)
		ep->asked->from = NULL;
	ep->asked = NULL;
	if (ep->state != FAKE_OFI_CONNECTED)
		return;
	end(ep, FI_ECANCELED, FI_ECANCELED);
	if (!peer)
		return;
	if (ep->domain->device->silent)
		peer->peer = NULL;
	else
		end(peer, rules->lost_err, rules->lost_code);
}
