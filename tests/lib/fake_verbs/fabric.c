/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c - begin and end of the fake fabric, its trouble, its counts */
#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/fake_verbs/private.h"

struct fake_fabric fake;

const struct verbs_provider fake_verbs = {
	.module.abi = VERBS_PROVIDER_ABI,
	.get_device_list = fake_get_device_list,
	.free_device_list = fake_free_device_list,
	.open_device = fake_open_device,
	.close_device = fake_close_device,
	.query_device = fake_query_device,
	.query_port = fake_query_port,
	.query_gid_table = fake_query_gid_table,
	.alloc_pd = fake_alloc_pd,
	.dealloc_pd = fake_dealloc_pd,
	.reg_mr = fake_reg_mr,
	.reg_dmabuf_mr = fake_reg_dmabuf_mr,
	.dereg_mr = fake_dereg_mr,
	.create_comp_channel = fake_create_comp_channel,
	.destroy_comp_channel = fake_destroy_comp_channel,
	.create_cq = fake_create_cq,
	.destroy_cq = fake_destroy_cq,
	.req_notify_cq = fake_req_notify_cq,
	.get_cq_event = fake_get_cq_event,
	.ack_cq_events = fake_ack_cq_events,
	.poll_cq = fake_poll_cq,
	.create_qp = fake_create_qp,
	.modify_qp = fake_modify_qp,
	.destroy_qp = fake_destroy_qp,
	.post_send = fake_post_send,
	.get_async_event = fake_get_async_event,
	.ack_async_event = fake_ack_async_event,
};

static const struct ibv_device_attr usual_device = {
	.max_mr_size = UINT64_MAX,
	.max_qp = FAKE_PAIRS_MAX,
	.max_qp_wr = 16384,
	.max_sge = FAKE_SGE_MAX,
	.max_sge_rd = FAKE_SGE_MAX,
	.max_cq = 1024,
	.max_cqe = 32767,
	.max_mr = FAKE_KEYS_MAX,
	.max_pd = 1024,
	.max_qp_rd_atom = 16,
	.max_qp_init_rd_atom = 16,
	.phys_port_cnt = 1,
};

static const struct ibv_port_attr usual_port = {
	.state = IBV_PORT_ACTIVE,
	.max_mtu = IBV_MTU_4096,
	.active_mtu = IBV_MTU_1024,
	.gid_tbl_len = FAKE_GIDS_MAX,
	.max_msg_sz = 1u << 31,
	.pkey_tbl_len = 1,
	.link_layer = IBV_LINK_LAYER_ETHERNET,
};

static void init_device(unsigned int i)
{
	struct fake_device *device = &fake.devices[i];
	char text[32];

	device->base.node_type = IBV_NODE_CA;
	device->base.transport_type = IBV_TRANSPORT_IB;
	(void)snprintf(device->base.name, sizeof(device->base.name), "fake%u",
		       i);
	device->attr = usual_device;
	for (uint8_t port = 1; port <= FAKE_PORTS_MAX; port++) {
		device->ports[port - 1] = usual_port;
		(void)snprintf(text, sizeof(text), "fe80::%u:%u", port, i + 1);
		fake_verbs_set_gid(i, port, 0, text, IBV_GID_TYPE_ROCE_V1);
		(void)snprintf(text, sizeof(text), "10.9.%u.%u", port, i + 1);
		fake_verbs_set_gid(i, port, 1, text, IBV_GID_TYPE_ROCE_V2);
	}
}

void fake_verbs_start(unsigned int n)
{
	assert(n <= FAKE_DEVICES_MAX);
	fake = (struct fake_fabric){.n_devices = n,
				    .next_key = 1,
				    .next_pair = 2,
				    .take = UINT32_MAX};
	tei_mutex_init(&fake.mu);
	tei_cond_init(&fake.released);
	tei_cond_init(&fake.acked);
	tei_list_init(&fake.contexts);
	for (unsigned int i = 0; i < n; i++)
		init_device(i);
}

void fake_verbs_stop(void)
{
	assert(tei_list_empty(&fake.contexts));
	assert(!fake.counts.keys && !fake.counts.pairs && !fake.n_unacked);
	tei_cond_fini(&fake.released);
	tei_cond_fini(&fake.acked);
	tei_mutex_fini(&fake.mu);
}

struct ibv_device_attr *fake_verbs_device(unsigned int device)
{
	return &fake.devices[device].attr;
}

struct ibv_port_attr *fake_verbs_port(unsigned int device, uint8_t port)
{
	return &fake.devices[device].ports[port - 1];
}

void fake_verbs_set_gid(unsigned int device, uint8_t port, uint32_t index,
			const char *text, enum ibv_gid_type type)
{
	struct fake_device *d = &fake.devices[device];
	struct ibv_gid_entry *e = &d->gids[port - 1][index];

	d->used[port - 1][index] = text != NULL;
	if (!text)
		return;
	*e = (struct ibv_gid_entry){
		.gid_index = index,
		.port_num = port,
		.gid_type = type,
	};
	if (inet_pton(AF_INET6, text, e->gid.raw) == 1)
		return;
	e->gid.raw[10] = e->gid.raw[11] = 0xff;
	if (inet_pton(AF_INET, text, e->gid.raw + 12) != 1)
		assert(!"an address");
}

void fake_verbs_make_erdma(unsigned int device, bool compat_mode)
{
	static const uint8_t mac[] = {0x00, 0x16, 0x3e, 1, 2, 3};
	struct fake_device *d = &fake.devices[device];
	char address[32];

	(void)snprintf(d->base.name, sizeof(d->base.name), "erdma_%u", device);
	d->base.node_type = compat_mode ? IBV_NODE_CA : IBV_NODE_RNIC;
	d->base.transport_type =
		compat_mode ? IBV_TRANSPORT_IB : IBV_TRANSPORT_IWARP;
	d->attr.vendor_id = 0x1ded;
	d->attr.max_sge = d->attr.max_sge_rd = 1;
	d->attr.max_mr_size = 64ull << 30;
	d->no_inline = true;
	fake_verbs_set_gid(device, 1, 0, "::", IBV_GID_TYPE_IB);
	memcpy(d->gids[0][0].gid.raw, mac, sizeof(mac));
	fake_verbs_set_gid(device, 1, 1, NULL, IBV_GID_TYPE_IB);
	(void)snprintf(address, sizeof(address), "10.9.1.%u", device + 1);
	fake_verbs_set_gid(device, 1, 5, address, IBV_GID_TYPE_ROCE_V2);
}

/* ---- trouble ---- */

void fake_verbs_fail(unsigned int nth, int err)
{
	tei_mutex_lock(&fake.mu);
	fake.fail_nth = nth;
	fake.fail_err = err;
	fake.struck = false;
	tei_mutex_unlock(&fake.mu);
}

bool fake_verbs_struck(void)
{
	bool struck;

	tei_mutex_lock(&fake.mu);
	struck = fake.struck;
	tei_mutex_unlock(&fake.mu);
	return struck;
}

bool fake_fails(void)
{
	bool fails;

	tei_mutex_lock(&fake.mu);
	fails = fake.fail_nth && !--fake.fail_nth;
	fake.struck |= fails;
	if (fails)
		errno = fake.fail_err;
	tei_mutex_unlock(&fake.mu);
	return fails;
}

void fake_verbs_spoil(unsigned int nth, enum ibv_wc_status status)
{
	tei_mutex_lock(&fake.mu);
	fake.spoil_nth = nth;
	fake.spoil_status = status;
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_spoil_next(unsigned int n, enum ibv_wc_status status)
{
	tei_mutex_lock(&fake.mu);
	fake.spoil_next = n;
	fake.spoil_status = status;
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_spoil_some(uint64_t seed, unsigned int per_million)
{
	tei_mutex_lock(&fake.mu);
	fake.chance = seed;
	fake.spoil_per_million = per_million;
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_take(unsigned int n)
{
	tei_mutex_lock(&fake.mu);
	fake.take = n;
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_carry(bool on)
{
	tei_mutex_lock(&fake.mu);
	fake.carries_nothing = !on;
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_no_inline(bool on)
{
	tei_mutex_lock(&fake.mu);
	fake.no_inline = on;
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_refuse_memory(unsigned int device, int err)
{
	tei_mutex_lock(&fake.mu);
	fake.devices[device].refuses_memory = err;
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_hold_memory(unsigned int device, bool on)
{
	tei_mutex_lock(&fake.mu);
	fake.devices[device].holds_memory = on;
	tei_cond_broadcast(&fake.released);
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_refuse_dmabufs(int err)
{
	tei_mutex_lock(&fake.mu);
	fake.refuse_dmabufs = err;
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_translate(void *(*translate)(uint64_t addr))
{
	tei_mutex_lock(&fake.mu);
	fake.translate = translate;
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_hang(unsigned int device, bool on)
{
	tei_mutex_lock(&fake.mu);
	fake.devices[device].hangs = on;
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_hang_pairs(unsigned int device)
{
	tei_mutex_lock(&fake.mu);
	for (uint32_t i = 0; i < FAKE_PAIRS_MAX; i++) {
		struct fake_qp *qp = fake.pairs[i];

		if (qp &&
		    fake_device_of(qp->base.context) == &fake.devices[device])
			qp->hangs = true;
	}
	tei_mutex_unlock(&fake.mu);
}

static void hold_pairs(bool on)
{
	for (uint32_t i = 0; i < FAKE_PAIRS_MAX; i++) {
		if (fake.pairs[i])
			fake.pairs[i]->held = on;
	}
}

void fake_verbs_hold_destroys(bool on)
{
	tei_mutex_lock(&fake.mu);
	fake.hold_destroys = on;
	if (!on)
		hold_pairs(false);
	tei_cond_broadcast(&fake.released);
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_hold_pairs(void)
{
	tei_mutex_lock(&fake.mu);
	hold_pairs(true);
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_refuse_destroys(int err)
{
	tei_mutex_lock(&fake.mu);
	fake.refuse_destroys = err;
	tei_mutex_unlock(&fake.mu);
}

static void tell_locked(unsigned int device, enum ibv_event_type type,
			uint8_t port)
{
	const struct ibv_async_event event = {.event_type = type,
					      .element.port_num = port};

	tei_list_for_each (node, &fake.contexts) {
		struct fake_context *c =
			tei_list_entry(node, struct fake_context, link);

		if (c->base.device == &fake.devices[device].base)
			fake_raise(&c->base, &event);
	}
}

void fake_verbs_tell(unsigned int device, enum ibv_event_type type,
		     uint8_t port)
{
	tei_mutex_lock(&fake.mu);
	tell_locked(device, type, port);
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_set_mtu(unsigned int device, uint8_t port, enum ibv_mtu mtu)
{
	tei_mutex_lock(&fake.mu);
	fake.devices[device].ports[port - 1].active_mtu = mtu;
	tei_mutex_unlock(&fake.mu);
}

void fake_verbs_link(unsigned int device, uint8_t port, bool up)
{
	tei_mutex_lock(&fake.mu);
	fake.devices[device].ports[port - 1].state =
		up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	tell_locked(device, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR,
		    port);
	tei_mutex_unlock(&fake.mu);
}

struct fake_verbs_counts fake_verbs_counts(void)
{
	struct fake_verbs_counts counts;

	tei_mutex_lock(&fake.mu);
	counts = fake.counts;
	tei_mutex_unlock(&fake.mu);
	return counts;
}
