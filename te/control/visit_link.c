/* SPDX-License-Identifier: Apache-2.0 */
/* visit_link.c - connect and drop, asked by a visitor for its guest's links */
#include <errno.h>
#include <string.h>

#include "base/frame.h"
#include "base/mem.h"
#include "te/common/control.pb-c.h"
#include "te/common/engine.h"
#include "te/control/control.h"
#include "te/control/visitor.h"
#include "te/transfer/link.h"
#include "te/worker/worker.h"

/* ---- connect ---- */

static struct tei_rail_box *find_rail(struct te_engine *engine,
				      const Te__Connect *m)
{
	struct tei_rail_box *box;

	if (m->rail >= engine->worker->n_rails)
		return NULL;
	box = engine->worker->rails[m->rail];
	if (strcmp(box->rail.ops->name, m->backend) ||
	    (box->rail.ops->caps & TEI_CAP_SELF))
		return NULL;
	return box;
}

static struct tei_link *
make_link(struct tei_visitor *v, struct tei_rail_box *box, const Te__Connect *m)
{
	struct tei_link *link = tei_link_make(v->engine, box);

	if (!link)
		return NULL;
	link->number = m->endpoint;
	link->ep.target = true;
	link->ep.epoch = m->epoch;
	atomic_init(&link->groups, v->groups);
	link->in.guest = v->guest;
	link->in.epoch_now = &v->guest->epoch;
	link->in.visitor = v;
	link->in.open.fn = tei_target_open;
	link->in.drop.fn = tei_target_drop;
	link->in.done.fn = tei_guest_link_done;
	link->in.gone.fn = tei_guest_link_gone;
	link->in.late.fn = tei_guest_link_late;
	link->in.address_len = m->address.len;
	if (m->address.len)
		memcpy(link->in.address, m->address.data, m->address.len);
	return link;
}

static int check_connect(struct tei_visitor *v, const Te__Connect *m,
			 struct tei_rail_box **box)
{
	*box = find_rail(v->engine, m);
	if (!*box)
		return -EOPNOTSUPP;
	if (m->address.len > TEI_BLOB_MAX ||
	    tei_guest_link(v->guest, m->endpoint))
		return -EBADMSG;
	if (m->epoch != atomic_load(&v->guest->epoch)) /* it is just ending? */
		return m->epoch == v->guest->told ? -EAGAIN : -ESTALE;
	if (v->guest->n_links >= TEI_GUEST_LINKS_MAX)
		return -EAGAIN;
	return 0;
}

static void connect_refused(struct tei_visitor *v, const struct tei_frame *f,
			    int err)
{
	Te__Connected m = TE__CONNECTED__INIT;

	m.status = tei_status_from_errno(err);
	m.epoch = v->guest->told;
	tei_visitor_reply(v, f, &m.base);
}

void tei_visitor_connect(struct tei_visitor *v, const struct tei_frame *f)
{
	struct tei_rail_box *box;
	struct tei_link *link;
	Te__Connect *m;
	int rc;

	m = te__connect__unpack(&v->engine->control->arena.pb, f->len, f->body);
	if (!m) {
		tei_frame_bad(v->conn, "unreadable connect");
		return;
	}
	rc = check_connect(v, m, &box);
	link = rc ? NULL : make_link(v, box, m);
	if (!link) {
		connect_refused(v, f, rc ? rc : -ENOMEM);
		return;
	}
	link->in.connect_id = f->id;
	tei_list_add_tail(&v->guest->links, &link->link);
	v->guest->n_links++;
	tei_worker_post(v->engine->worker, &link->in.open);
}

void tei_control_connected(struct tei_link *link)
{
	struct tei_visitor *v = link->in.visitor;
	struct tei_frame to = {.type = TE__CONTROL_TYPE__CONTROL_CONNECT,
			       .id = link->in.connect_id};
	Te__Connected m = TE__CONNECTED__INIT;

	if (!v)
		return;
	m.status = tei_status_from_errno(link->in.err);
	m.epoch = v->guest->told;
	if (!link->in.err) {
		m.address.data = link->in.address;
		m.address.len = link->in.address_len;
	}
	tei_visitor_reply(v, &to, &m.base);
}

/* ---- drop ---- */

void tei_control_dropped(struct tei_visitor *v, uint64_t id)
{
	struct tei_frame to = {.type = TE__CONTROL_TYPE__CONTROL_DROP,
			       .id = id};
	Te__Dropped m = TE__DROPPED__INIT;

	tei_visitor_reply(v, &to, &m.base);
}

void tei_visitor_drop(struct tei_visitor *v, const struct tei_frame *f)
{
	struct tei_dropper *dropper;
	struct tei_link *link;
	Te__Drop *m;

	m = te__drop__unpack(&v->engine->control->arena.pb, f->len, f->body);
	if (!m) {
		tei_frame_bad(v->conn, "unreadable drop");
		return;
	}
	link = tei_guest_link(v->guest, m->endpoint);
	if (!link) { /* gone already, or never made: quiet */
		tei_control_dropped(v, f->id);
		return;
	}
	dropper = tei_calloc(1, sizeof(*dropper));
	if (!dropper) {
		tei_frame_refuse_for_now(v->conn, "out of memory");
		return;
	}
	dropper->visitor = v;
	dropper->id = f->id;
	tei_list_add_tail(&link->in.droppers, &dropper->link);
	tei_guest_drop_link(link);
}
