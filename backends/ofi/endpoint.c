/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.c - the ops of an endpoint, both halves
 *
 * The target names its rail's listener and a random token over the control
 * connection. The initiator connects to the listener and says the token, by
 * which the target knows the endpoint that it comes for.
 *
 * Without connections (FI_EP_RDM) both halves name the address of an endpoint
 * that is for the other half alone.
 */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "backends/ofi/ofi.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"

/* ---- windows ---- */

static struct ofi_window *make_window(struct ofi_endpoint *ep)
{
	uint32_t depth = ofi_rail_of(ep)->nic.depth;
	struct ofi_window *window = tei_calloc(
		1, sizeof(*window) + depth * sizeof(window->works[0]));

	if (!window)
		return NULL;
	tei_list_init(&window->lost);
	window->ep = ep;
	while (depth--) {
		window->works[depth].window = window;
		window->works[depth].next = window->free;
		window->free = &window->works[depth];
	}
	return window;
}

void tei_ofi_window_free(struct ofi_window *window)
{
	tei_list_del(&window->lost);
	tei_free(window);
}

void tei_ofi_windows_free(struct ofi_rail *rail)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&rail->lost))) {
		struct ofi_window *window =
			tei_list_entry(node, struct ofi_window, lost);

		rail->room += window->room;
		tei_ofi_window_free(window);
	}
}

/* ---- opened ---- */

static int log_failure(const struct ofi_rail *rail, const char *what, int rc)
{
	static struct tei_log_limit limit = {.per_minute = 60};

	if (tei_log_allowed(&limit))
		LOG_WARN("rail %s: %s: %s", rail->nic.name, what,
			 rail->nic.api->strerror(-rc));
	return tei_ofi_error(rc);
}

/* Options of efa's endpoints since 1.18, as libfabric numbers them: bool. */
enum {
	EFA_EMULATED_READ = -(0xefa << 16) + 1,
	EFA_EMULATED_WRITE,
};

static bool may_be_emulated(const struct ofi_endpoint *ep, int option)
{
	bool emulated = true;
	size_t len = sizeof(emulated);

	return ofi_rail_of(ep)->nic.api->getopt(ep->fid, option, &emulated,
						&len) ||
	       emulated;
}

/* Tells whether reads or writes by this half are emulated, or may be. */
static bool emulates(const struct ofi_endpoint *ep)
{
	return ofi_rail_of(ep)->nic.kind->emulates &&
	       (may_be_emulated(ep, EFA_EMULATED_READ) ||
		may_be_emulated(ep, EFA_EMULATED_WRITE));
}

/*
 * Notes that bytes of peers pass through this process, so that what they have
 * begun goes on when a key ends.
 */
static void set_outliving(struct ofi_endpoint *ep)
{
	if (ep->outlives_keys)
		return;
	ep->outlives_keys = true;
	tei_ofi_inbound_opened(&ofi_rail_of(ep)->regions);
}

static int bind_and_enable(const struct ofi_endpoint *ep)
{
	struct ofi_rail *rail = ofi_rail_of(ep);
	const struct ofi_provider *api = rail->nic.api;
	int rc = api->ep_bind(ep->fid, &rail->eq->fid, 0);

	if (!rc && ep->av)
		rc = api->ep_bind(ep->fid, &ep->av->fid, 0);
	if (!rc)
		rc = api->ep_bind(ep->fid, &rail->cq->fid,
				  FI_TRANSMIT | FI_RECV);
	return rc ? rc : api->enable(ep->fid);
}

/* Closes the vector of an endpoint that is closed. */
static void close_addresses(struct ofi_endpoint *ep)
{
	struct ofi_rail *rail = ofi_rail_of(ep);
	int rc = ep->av ? rail->nic.api->close(&ep->av->fid) : 0;

	ep->av = NULL;
	if (rc)
		(void)log_failure(rail, "close an endpoint's addresses", rc);
}

/* Ends what was the provider's endpoint's, which is closed. */
static void fid_closed(struct ofi_endpoint *ep)
{
	ep->fid = NULL;
	close_addresses(ep);
	if (ep->outlives_keys)
		tei_ofi_inbound_closed(&ofi_rail_of(ep)->regions);
	ep->outlives_keys = false;
}

/* Closes what make_fid() has made, which nobody has used. */
static void unmake_fid(struct ofi_endpoint *ep)
{
	if (!ep->fid)
		return;
	tei_ofi_forget_inbound(&ofi_rail_of(ep)->regions.grants, &ep->inbound);
	(void)ofi_rail_of(ep)->nic.api->close(&ep->fid->fid);
	fid_closed(ep);
}

/* Makes the provider's endpoint. On error there is none; *made: there was. */
static int make_fid(struct ofi_endpoint *ep, struct fi_info *info, bool *made)
{
	struct ofi_rail *rail = ofi_rail_of(ep);
	const struct ofi_provider *api = rail->nic.api;
	struct fi_av_attr addresses = {.type = FI_AV_TABLE, .count = 1};
	const char *what = "open an endpoint";
	int rc;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rc = api->endpoint(rail->nic.domain, info, &ep->fid, ep);
	if (rc) {
		ep->fid = NULL;
		return log_failure(rail, what, rc);
	}
	*made = true;
	if (ep->base->target && (rail->nic.kind->software || emulates(ep)))
		set_outliving(ep);
	what = "open an endpoint's addresses";
	if (rail->nic.kind->rdm)
		rc = api->av_open(rail->nic.domain, &addresses, &ep->av, NULL);
	if (rc) {
		ep->av = NULL;
		goto unmake;
	}
	what = "enable an endpoint";
	rc = bind_and_enable(ep);
	if (rc)
		goto unmake;
	return 0;

unmake:
	unmake_fid(ep);
	return log_failure(rail, what, rc);
}

static int reserve_completions(struct ofi_endpoint *ep)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct ofi_rail *rail = ofi_rail_of(ep);
	uint32_t room = rail->nic.depth;

	if (ep->base->target)
		return 0;
	if (room > rail->room) {
		if (tei_log_allowed(&limit))
			LOG_WARN("rail %s: no room for the completions of "
				 "another endpoint: raise ofi.completions",
				 rail->nic.name);
		return -ENOBUFS;
	}
	rail->room -= room;
	ep->room = room;
	return 0;
}

/* Has the peer reach all regions by the endpoint, with keys of its own. */
static int admit_peer(struct ofi_endpoint *ep)
{
	struct ofi_rail *rail = ofi_rail_of(ep);
	int rc;

	if (!ep->base->target ||
	    !(rail->nic.info->domain_attr->mr_mode & FI_MR_ENDPOINT))
		return 0;
	ep->inbound.fid = ep->fid;
	rc = tei_ofi_admit(&rail->regions.grants, &ep->inbound);
	if (rc)
		return log_failure(rail, "make keys for a peer", rc);
	memcpy(ep->token, ep->inbound.token, OFI_TOKEN_LEN);
	return 0;
}

/*
 * Writes what the other half needs to know. Without connections that is the
 * address of a provider's endpoint, which is made.
 */
static int name_self(struct ofi_endpoint *ep, struct ofi_address *mine)
{
	struct ofi_rail *rail = ofi_rail_of(ep);
	bool made;
	int rc;

	*mine = (struct ofi_address){.len = 0};
	if (rail->nic.kind->rdm) {
		mine->len = OFI_ADDRESS_MAX;
		rc = make_fid(ep, rail->nic.info, &made);
		if (rc)
			return rc;
		rc = rail->nic.api->getname(&ep->fid->fid, mine->bytes,
					    &mine->len);
		if (!rc && mine->len > OFI_ADDRESS_MAX)
			rc = -FI_ETOOSMALL;
		if (rc)
			return log_failure(rail, "name an endpoint", rc);
		rail->address.len = mine->len; /* of each that is to come */
		mine->emulates = !ep->base->target && emulates(ep);
		rc = admit_peer(ep);
		memcpy(mine->token, ep->token, OFI_TOKEN_LEN);
		return rc;
	}
	if (!ep->base->target)
		return 0;
	*mine = rail->address;
	if (getrandom(mine->token, OFI_TOKEN_LEN, 0) != OFI_TOKEN_LEN)
		return -EIO;
	memcpy(ep->token, mine->token, OFI_TOKEN_LEN);
	return 0;
}

int tei_ofi_endpoint_open(struct tei_endpoint *base, void *addr, size_t *len)
{
	struct ofi_endpoint *ep = ofi_endpoint(base);
	struct ofi_rail *rail = ofi_rail(base->rail);
	struct ofi_address mine;
	int rc;

	*ep = (struct ofi_endpoint){
		.base = base, .state = OFI_MADE, .to = FI_ADDR_UNSPEC};
	tei_list_init(&ep->of_rail);
	tei_list_init(&ep->link);
	tei_list_init(&ep->queue);
	tei_list_init(&ep->held);
	tei_ofi_inbound_init(&ep->inbound);
	rc = name_self(ep, &mine);
	if (!rc)
		rc = tei_ofi_address_encode(&mine, addr, len);
	if (!rc)
		rc = reserve_completions(ep);
	if (rc)
		goto unmake_fid;
	tei_list_add_tail(&rail->endpoints, &ep->of_rail);
	return 0;

unmake_fid:
	unmake_fid(ep);
	assert(rc < 0);
	return rc;
}

/* ---- connected ---- */

static int check_address(const struct ofi_rail *rail,
			 const struct ofi_address *theirs)
{
	const struct sockaddr *sa = (const void *)theirs->bytes;
	size_t len = theirs->len;

	switch (rail->nic.info->addr_format) {
	case FI_SOCKADDR_IN:
		return len == sizeof(struct sockaddr_in) &&
				       sa->sa_family == AF_INET
			       ? 0
			       : -EPROTO;
	case FI_SOCKADDR_IN6:
		return len == sizeof(struct sockaddr_in6) &&
				       sa->sa_family == AF_INET6
			       ? 0
			       : -EPROTO;
	default:
		return len && len == rail->address.len ? 0 : -EPROTO;
	}
}

static struct fi_info *info_to(const struct ofi_rail *rail,
			       const struct ofi_address *theirs)
{
	struct fi_info *info = rail->nic.api->dupinfo(rail->nic.info);

	if (!info)
		return NULL;
	tei_free(info->dest_addr);
	info->dest_addr = tei_malloc(theirs->len);
	if (!info->dest_addr) {
		rail->nic.api->freeinfo(info);
		return NULL;
	}
	memcpy(info->dest_addr, theirs->bytes, theirs->len);
	info->dest_addrlen = theirs->len;
	return info;
}

static int connect_to(struct ofi_endpoint *ep, const struct ofi_address *theirs)
{
	struct ofi_rail *rail = ofi_rail_of(ep);
	struct fi_info *info = info_to(rail, theirs);
	bool made;
	int rc;

	ep->window = info ? make_window(ep) : NULL;
	rc = ep->window ? make_fid(ep, info, &made) : -ENOMEM;
	if (info)
		rail->nic.api->freeinfo(info);
	if (rc)
		return rc;
	rc = rail->nic.api->connect(ep->fid, theirs->bytes, theirs->token,
				    OFI_TOKEN_LEN);
	if (rc)
		return log_failure(rail, "connect", rc);
	ep->state = OFI_CONNECTING;
	return -EINPROGRESS;
}

/* Without connections it is enough to know the other half. */
static int insert_peer(struct ofi_endpoint *ep,
		       const struct ofi_address *theirs)
{
	struct ofi_nic *nic = &ofi_rail_of(ep)->nic;
	int rc;

	ep->window = ep->base->target ? NULL : make_window(ep);
	if (!ep->window && !ep->base->target)
		return -ENOMEM;
	/* Both halves must have it for a device to read and write by itself. */
	if (ep->base->target && theirs->emulates)
		set_outliving(ep);
	rc = nic->api->av_insert(ep->av, theirs->bytes, 1, &ep->to, 0, NULL);
	if (rc != 1 || ep->to == FI_ADDR_NOTAVAIL) {
		ep->to = FI_ADDR_UNSPEC;
		return log_failure(ofi_rail_of(ep), "take a peer's address",
				   rc < 0 ? rc : -FI_EINVAL);
	}
	if (!ep->base->target)
		memcpy(ep->token, theirs->token, OFI_TOKEN_LEN);
	ep->state = OFI_UP;
	return 0;
}

int tei_ofi_endpoint_connect(struct tei_endpoint *base, const void *addr,
			     size_t len)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct ofi_endpoint *ep = ofi_endpoint(base);
	struct ofi_rail *rail = ofi_rail(base->rail);
	struct ofi_address theirs;
	const char *fault = tei_ofi_address_decode(addr, len, &theirs);
	bool rdm = rail->nic.kind->rdm;

	if (!fault && (rdm || !base->target) && check_address(rail, &theirs))
		fault = "of another kind";
	if (fault) {
		base->rail->bad_frames++;
		if (tei_log_allowed(&limit))
			LOG_WARN("rail %s: a peer's address is refused: %s",
				 rail->nic.name, fault);
		return -EPROTO;
	}
	if (rdm)
		return insert_peer(ep, &theirs);
	if (!base->target)
		return connect_to(ep, &theirs);
	ep->state = OFI_CONNECTING;
	return -EINPROGRESS; /* until the initiator comes */
}

/* The target that waits for this token, or NULL. */
static struct ofi_endpoint *find_by_token(const struct ofi_rail *rail,
					  const void *data, size_t len)
{
	if (len < OFI_TOKEN_LEN) /* providers may pad what was said */
		return NULL;
	tei_list_for_each (node, &rail->endpoints) {
		struct ofi_endpoint *ep =
			tei_list_entry(node, struct ofi_endpoint, of_rail);

		if (ep->base->target && ep->state == OFI_CONNECTING &&
		    !ep->fid && !CRYPTO_memcmp(ep->token, data, OFI_TOKEN_LEN))
			return ep;
	}
	return NULL;
}

static void reject(const struct ofi_rail *rail, const struct fi_info *info)
{
	(void)rail->nic.api->reject(rail->listener, info->handle, NULL, 0);
}

/*
 * On error the initiator was rejected, or finds that it is disconnected.
 *
 * Once an endpoint was made of it, a request is the endpoint's, and only the
 * provider tcp still has something of it to free.
 */
static int accept_from(struct ofi_endpoint *ep, struct fi_info *info)
{
	struct ofi_rail *rail = ofi_rail_of(ep);
	bool made = false;
	int rc = make_fid(ep, info, &made);

	if (!rc) {
		rc = rail->nic.api->accept(ep->fid, NULL, 0);
		if (!rc)
			return 0;
		unmake_fid(ep);
		rc = log_failure(rail, "accept an endpoint", rc);
	}
	if (!made || rail->nic.kind->software)
		reject(rail, info);
	return rc;
}

void tei_ofi_came(struct ofi_rail *rail, struct fi_info *info, const void *data,
		  size_t len)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct ofi_endpoint *ep = find_by_token(rail, data, len);

	if (!ep) {
		rail->base->bad_frames++;
		if (tei_log_allowed(&limit))
			LOG_WARN("rail %s: a connection with an unknown token "
				 "is refused",
				 rail->nic.name);
	}
	if (!ep)
		reject(rail, info);
	else if (accept_from(ep, info))
		tei_ofi_break(ep, -ENOTCONN);
	rail->nic.api->freeinfo(info);
}

/* Events name endpoints by address: one that is closed is in no list. */
static struct ofi_endpoint *find_endpoint(const struct ofi_rail *rail,
					  const struct fid *fid)
{
	tei_list_for_each (node, &rail->endpoints) {
		struct ofi_endpoint *ep =
			tei_list_entry(node, struct ofi_endpoint, of_rail);

		if (ep->fid && &ep->fid->fid == fid)
			return ep;
	}
	return NULL;
}

/* Takes what has come back of a connection that is over. */
static void await_posted(const struct ofi_endpoint *ep)
{
	while (ep->window && ep->window->n_posted &&
	       tei_ofi_poll(ofi_rail_of(ep), OFI_POLL_MAX) > 0)
		;
}

void tei_ofi_connected(struct ofi_rail *rail, const struct fid *fid)
{
	struct ofi_endpoint *ep = find_endpoint(rail, fid);

	if (!ep || ep->state != OFI_CONNECTING)
		return;
	ep->state = OFI_UP;
	tei_endpoint_up(ep->base);
}

void tei_ofi_ended(struct ofi_rail *rail, const struct fid *fid, int err)
{
	struct ofi_endpoint *ep = find_endpoint(rail, fid);

	if (!ep)
		return;
	/* Completions tell the cause: they are handled before it is down. */
	await_posted(ep);
	if (err)
		tei_ofi_break(ep, err);
	else
		tei_ofi_lose(ep);
}

void tei_ofi_endpoint_way(const struct tei_endpoint *base, char *out,
			  size_t room)
{
	const struct ofi_nic *nic = &ofi_rail(base->rail)->nic;

	(void)snprintf(out, room, "provider %s, fabric %s, %u operations",
		       nic->kind->name, nic->self.fabric, nic->depth);
}

/* ---- ended ---- */

void tei_ofi_break(struct ofi_endpoint *ep, int err)
{
	if ((ep->state != OFI_CONNECTING && ep->state != OFI_UP) || ep->flushed)
		return;
	ep->state = OFI_BROKEN;
	ep->err = err;
	tei_list_del(&ep->link);
	tei_list_add_tail(&ofi_rail_of(ep)->broken, &ep->link);
	tei_ofi_kick(ofi_rail_of(ep));
}

/* From when on a device has given up what is posted to a host that has died. */
#define LEAVE_MS 10000

#define CONNECTING_ROUNDS 16 /* a connection takes a few to be made */

/*
 * Has the provider net (1.17) finish what it makes inside for peers that come:
 * it reads an endpoint that was closed meanwhile.
 */
static void finish_connecting(struct ofi_rail *rail)
{
	for (int i = 0; i < CONNECTING_ROUNDS && rail->nic.kind->software; i++)
		(void)tei_ofi_poll(rail, OFI_POLL_MAX);
}

/*
 * Tells whether its operations are with the provider alone, and come back no
 * more. From 2.0 on efa keeps what is posted until the peer has answered a
 * first time, which one that has gone never does. The device has what asks the
 * peer, and gives it up after a while, as it does operations.
 */
static bool is_unanswered(const struct ofi_endpoint *ep)
{
	return !ep->has_done && ep->stuck_since &&
	       tei_now_ns() - ep->stuck_since > LEAVE_MS * TEI_NS_PER_MS;
}

/*
 * False: closing it now would keep the driver waiting until the device has
 * given up the last operation, for seconds where a host has died.
 */
static bool is_drained(const struct ofi_endpoint *ep)
{
	const struct ofi_rail *rail = ofi_rail_of(ep);

	return !rail->nic.waits || rail->cq_dead || !ep->window ||
	       !ep->window->n_posted || is_unanswered(ep);
}

/*
 * Closes the connection: nothing of it touches memory afterwards. False: the
 * provider refuses, or would wait; to be tried again.
 */
static bool close_fid(struct ofi_endpoint *ep)
{
	struct ofi_rail *rail = ofi_rail_of(ep);
	const struct ofi_provider *api = rail->nic.api;
	int rc;

	if (!ep->fid)
		return true;
	if (!is_drained(ep))
		return false;
	/* Keys that are bound to it keep it open. */
	if (tei_ofi_exclude(&rail->regions.grants, &ep->inbound))
		return false;
	if (rail->nic.kind->rdm) {
		finish_connecting(rail);
	} else {
		tei_ofi_shut_socket(ep);
		/* Ends it also where a forked child holds the socket. */
		(void)api->shutdown(ep->fid, 0);
	}
	/* Providers use the endpoint for that, so it comes first. */
	if (ep->to != FI_ADDR_UNSPEC)
		(void)api->av_remove(ep->av, &ep->to, 1, 0);
	ep->to = FI_ADDR_UNSPEC;
	rc = api->close(&ep->fid->fid);
	if (!rc) {
		fid_closed(ep);
		return true;
	}
	(void)log_failure(rail, "close an endpoint", rc);
	return false;
}

static void end_refused(struct tei_endpoint *base, int err)
{
	struct ofi_rail *rail = ofi_rail(base->rail);

	tei_list_for_each_safe (node, tmp, &rail->refused) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		if (slice->ep != base)
			continue;
		tei_list_del(node);
		tei_ofi_slice_end(slice, err);
	}
}

/* Ends queued slices; those that are posted in part have to come back first. */
static void end_queued(struct ofi_endpoint *ep, int err)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&ep->queue))) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);
		struct ofi_slice *s = ofi_slice(slice);

		s->queued = false;
		s->waits = !s->err;
		if (!s->n_works)
			tei_ofi_slice_end(slice, s->err ? s->err : err);
	}
	ep->n_queue = 0;
}

static void end_held(struct ofi_endpoint *ep, int err)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&ep->held)))
		tei_ofi_slice_end(tei_list_entry(node, struct tei_slice, link),
				  err);
}

/* Ends what a closed endpoint had posted: as it came back, or else as lost. */
static void end_posted(struct ofi_endpoint *ep)
{
	struct ofi_rail *rail = ofi_rail_of(ep);

	await_posted(ep);
	tei_ofi_give_up(ep);
	rail->room += ep->room;
	ep->room = 0;
	ep->state = OFI_CLOSED;
}

/* Has an endpoint closed as soon as that can be, and counted until then. */
static void set_stuck(struct ofi_endpoint *ep)
{
	struct ofi_rail *rail = ofi_rail_of(ep);

	ep->stuck_since = tei_now_ns();
	rail->base->stuck_endpoints++;
	tei_list_add_tail(&rail->stuck, &ep->link);
	tei_ofi_kick_later(rail);
}

int tei_ofi_flush(struct tei_endpoint *base, int err)
{
	struct ofi_endpoint *ep = ofi_endpoint(base);

	end_refused(base, err);
	ep->flushed = true;
	ep->err = err;
	end_queued(ep, err);
	end_held(ep, err);
	if (ep->dropped)
		return -EINPROGRESS; /* it is stuck already */
	tei_list_del(&ep->link);
	if (close_fid(ep)) {
		end_posted(ep);
		return 0;
	}
	ep->state = OFI_BROKEN;
	set_stuck(ep);
	return -EINPROGRESS;
}

int tei_ofi_drop(struct tei_endpoint *base)
{
	struct ofi_endpoint *ep = ofi_endpoint(base);

	tei_list_del(&ep->link);
	ep->state = OFI_CLOSED;
	if (close_fid(ep))
		return 0;
	ep->dropped = true;
	set_stuck(ep);
	return -EINPROGRESS;
}

/* Reports that a stuck endpoint is closed after all, or left as it is. */
static void unstick(struct ofi_endpoint *ep)
{
	struct ofi_rail *rail = ofi_rail_of(ep);

	rail->base->stuck_endpoints--;
	tei_list_del(&ep->link);
	end_posted(ep);
	if (ep->flushed)
		tei_endpoint_flushed(ep->base);
	else
		tei_endpoint_down(ep->base, -ESTALE);
	ep->dropped = false;
}

/*
 * Tells whether an engine that ends leaves it as it is. Devices give up what is
 * posted to a dead host after seconds.
 */
static bool is_left(const struct ofi_endpoint *ep)
{
	return ofi_rail_of(ep)->base->closing &&
	       (is_drained(ep) ||
		tei_now_ns() - ep->stuck_since > LEAVE_MS * TEI_NS_PER_MS);
}

#define PATIENT_MS 1000 /* from when on stuck endpoints are tried less often */
#define SELDOM_MS  100

/* Time until stuck endpoints are tried again, by the youngest of them. */
static uint64_t again_ms(const struct ofi_rail *rail)
{
	const struct ofi_endpoint *youngest =
		tei_list_entry(rail->stuck.prev, struct ofi_endpoint, link);
	uint64_t since = tei_now_ns() - youngest->stuck_since;

	return since > PATIENT_MS * TEI_NS_PER_MS ? SELDOM_MS : 1;
}

void tei_ofi_retry_stuck(struct ofi_rail *rail)
{
	tei_list_for_each_safe (node, tmp, &rail->stuck) {
		struct ofi_endpoint *ep =
			tei_list_entry(node, struct ofi_endpoint, link);

		if (close_fid(ep)) {
			unstick(ep);
		} else if (is_left(ep)) {
			LOG_ERROR("rail %s: an endpoint is left to the "
				  "provider, which may still touch memory",
				  rail->nic.name);
			tei_ofi_forget_inbound(&rail->regions.grants,
					       &ep->inbound);
			fid_closed(ep);
			unstick(ep);
		}
	}
	if (!tei_list_empty(&rail->stuck))
		tei_ofi_kick_after(rail, again_ms(rail));
}

bool tei_ofi_close_targets(struct ofi_rail *rail)
{
	bool closed = true;

	tei_list_for_each (node, &rail->endpoints) {
		struct ofi_endpoint *ep =
			tei_list_entry(node, struct ofi_endpoint, of_rail);

		if (!ep->outlives_keys)
			continue;
		if (ep->flushed || ep->dropped) {
			closed = false; /* stuck, and tried again as such */
			continue;
		}
		tei_ofi_break(ep, -ESTALE);
		closed &= close_fid(ep);
	}
	return closed;
}

void tei_ofi_endpoint_close(struct tei_endpoint *base)
{
	struct ofi_endpoint *ep = ofi_endpoint(base);

	assert(!ep->fid);
	assert(tei_list_empty(&ep->queue) && tei_list_empty(&ep->held));
	tei_list_del(&ep->link);
	tei_list_del(&ep->of_rail);
	if (ep->window)
		tei_ofi_window_free(ep->window);
	ep->window = NULL;
}
