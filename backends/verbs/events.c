/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - what a device tells by itself */
#include "backends/verbs/verbs.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

/* At a target the peer's NIC asked for what it may not, or the device failed. */
static void bundle_event(struct verbs_rail *rail, const struct ibv_qp *qp,
			 enum ibv_event_type type)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	struct verbs_lane *lane = qp->qp_context;
	struct verbs_bundle *bundle = lane->bundle;

	if (type == IBV_EVENT_QP_ACCESS_ERR)
		rail->base->refused_slices++;
	if (tei_log_allowed(&limit))
		LOG_WARN(
			"rail %s: queue pair %u: %s", rail->port.name,
			qp->qp_num,
			type == IBV_EVENT_QP_ACCESS_ERR
				? "a peer used a key, range or access it has not"
			: type == IBV_EVENT_QP_REQ_ERR
				? "a peer's request is malformed"
				: "failed in the device");
	tei_verbs_bundle_break(bundle,
			       type == IBV_EVENT_QP_FATAL ? -EIO : -EPROTO);
}

static void set_link(struct verbs_rail *rail, bool up)
{
	if (rail->link_up == up)
		return;
	rail->link_up = up;
	LOG_INFO("rail %s: link %s", rail->port.name, up ? "up" : "down");
	tei_rail_changed(rail->base, up);
}

/* Endpoints of an address that is gone are of no use: all are made anew. */
static void port_event(struct verbs_rail *rail)
{
	union ibv_gid gid = rail->port.gid.gid;
	uint16_t lid = rail->port.attr.lid;

	if (tei_verbs_port_look(&rail->port)) {
		set_link(rail, false);
		return;
	}
	if (memcmp(&gid, &rail->port.gid.gid, sizeof(gid)) != 0 ||
	    lid != rail->port.attr.lid)
		set_link(rail, false);
	if (!rail->link_up)
		tei_verbs_rail_identify(rail);
	set_link(rail, true);
}

/* 0, or -EIO: nothing works any more. */
static int handle(struct verbs_rail *rail, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		LOG_ERROR("rail %s: fatal error of the device",
			  rail->port.name);
		atomic_store_explicit(&rail->gone, true, memory_order_relaxed);
		return -EIO;
	case IBV_EVENT_CQ_ERR:
		LOG_ERROR("rail %s: its completion queue failed",
			  rail->port.name);
		return -EIO;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		bundle_event(rail, event->element.qp, event->event_type);
		return 0;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
		if (event->element.port_num == rail->port.number)
			port_event(rail);
		return 0;
	default:
		return 0; /* of features that are not used, or only news */
	}
}

int tei_verbs_events(struct verbs_rail *rail)
{
	const struct verbs_provider *api = rail->port.api;
	struct ibv_async_event event;
	int n = 0, rc = 0;

	while (!rc && !api->get_async_event(rail->port.context, &event)) {
		rc = handle(rail, &event);
		api->ack_async_event(&event);
		n++;
	}
	return rc ? rc : n;
}
