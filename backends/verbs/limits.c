/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c - arithmetic of limits; no I/O */
#include "backends/verbs/limits.h"

#define MTU_MIN 256u

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* @wish, at most @max, which a device gives as an int; below 0 counts as 0. */
static uint32_t clamp(uint32_t wish, int max)
{
	return max < 0 ? 0 : least(wish, (uint32_t)max);
}

static uint32_t power_below(uint32_t n)
{
	uint32_t power = 1;

	while (power <= n / 2)
		power *= 2;
	return power;
}

uint32_t tei_verbs_mtu_bytes(enum ibv_mtu mtu)
{
	if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)
		return 0;
	return MTU_MIN << (mtu - IBV_MTU_256);
}

enum ibv_mtu tei_verbs_mtu_of(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && tei_verbs_mtu_bytes(mtu) > bytes)
		mtu--;
	return mtu;
}

static const char *port_fault(const struct ibv_port_attr *port)
{
	if (port->state != IBV_PORT_ACTIVE)
		return "the port is not active";
	if (!tei_verbs_mtu_bytes(port->active_mtu))
		return "the port names no MTU";
	if (!port->max_msg_sz)
		return "the port carries no messages";
	return NULL;
}

const char *tei_verbs_device_fault(const struct ibv_device_attr *device)
{
	if (device->max_qp < 1 || device->max_qp_wr < 1 || device->max_cqe < 1)
		return "the device has no queue pairs";
	if (device->max_sge < 1 || device->max_mr < 1)
		return "the device takes no memory";
	return NULL;
}

/* Some drivers leave the limit of reads at 0, meaning the common one. */
static uint32_t sge_of_reads(const struct ibv_device_attr *device, uint32_t sge)
{
	return device->max_sge_rd > 0 ? clamp(sge, device->max_sge_rd) : sge;
}

bool tei_verbs_offer(const struct verbs_wish *wish,
		     const struct ibv_device_attr *device,
		     const struct ibv_port_attr *port,
		     struct verbs_offer *offer, struct verbs_room *room,
		     const char **why)
{
	uint32_t mtu = tei_verbs_mtu_bytes(port->active_mtu);
	uint32_t depth = least(wish->depth, VERBS_DEPTH_MAX);

	*why = tei_verbs_device_fault(device);
	if (!*why)
		*why = port_fault(port);
	if (*why)
		return false;
	/* Flushed, all of a lane's work comes back at once. */
	depth = clamp(clamp(depth, device->max_qp_wr), device->max_cqe);
	*offer = (struct verbs_offer){
		.lanes = clamp(least(wish->lanes, VERBS_LANES_MAX),
			       device->max_qp),
		.depth = power_below(depth),
		.mtu = least(tei_verbs_mtu_bytes(tei_verbs_mtu_of(wish->mtu)),
			     mtu),
		.reads_out = clamp(least(wish->reads, VERBS_READS_MAX),
				   device->max_qp_init_rd_atom),
		.reads_in = clamp(least(wish->reads, VERBS_READS_MAX),
				  device->max_qp_rd_atom),
	};
	*room = (struct verbs_room){
		.inline_max = wish->inline_max,
		.sge = clamp(least(wish->sge, VERBS_SGE_MAX), device->max_sge),
		.message = port->max_msg_sz,
	};
	room->sge_read = sge_of_reads(device, room->sge);
	return true;
}

static bool is_power(uint32_t n)
{
	return n && !(n & (n - 1));
}

const char *tei_verbs_offer_fault(const struct verbs_offer *offer)
{
	if (offer->lanes < 1 || offer->lanes > VERBS_LANES_MAX)
		return "lanes out of range";
	if (!is_power(offer->depth) || offer->depth > VERBS_DEPTH_MAX)
		return "depth out of range";
	if (!is_power(offer->mtu) || offer->mtu < MTU_MIN ||
	    offer->mtu > VERBS_MTU_MAX)
		return "MTU is none";
	if (offer->reads_out > VERBS_READS_MAX ||
	    offer->reads_in > VERBS_READS_MAX)
		return "reads out of range";
	return NULL;
}

void tei_verbs_agree(const struct verbs_offer *ours,
		     const struct verbs_offer *theirs,
		     struct verbs_offer *agreed)
{
	*agreed = (struct verbs_offer){
		.lanes = least(ours->lanes, theirs->lanes),
		.depth = least(ours->depth, theirs->depth),
		.mtu = least(ours->mtu, theirs->mtu),
		.reads_out = least(ours->reads_out, theirs->reads_in),
		.reads_in = least(ours->reads_in, theirs->reads_out),
	};
}
