/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.h - what one side wants, what its device allows, what two sides agree
 *
 * settings --clamped by the device--> offer --the smaller of two--> limits
 *
 * Both sides know both offers and reckon the same, so the agreement needs no
 * message of its own.
 */
#ifndef VERBS_LIMITS_H
#define VERBS_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "backends/verbs/config.h"

/* Limits that the settings ask for. */
struct verbs_wish {
	uint32_t lanes, depth, mtu /* bytes */, reads, inline_max, sge;
};

/* Limits that one side offers the other, on the wire. */
struct verbs_offer {
	uint32_t lanes; /* 1 .. VERBS_LANES_MAX */
	uint32_t depth; /* a power of two, 1 .. VERBS_DEPTH_MAX */
	uint32_t mtu;   /* bytes: 256, 512, 1024, 2048 or 4096 */
	/* Reads (and atomics) in flight on a lane, 0 .. VERBS_READS_MAX. */
	uint32_t reads_out; /* that it begins */
	uint32_t reads_in;  /* that it serves */
};

/* Limits of the local device, in which no peer has a part. */
struct verbs_room {
	uint32_t inline_max; /* bytes; 0: none. The driver may grant less */
	uint32_t sge;        /* local pieces of a work request */
	uint32_t sge_read;   /* the same, where it is a read */
	uint64_t message;    /* bytes of a work request */
};

/*
 * @wish within what device and port say. False: nothing can be done with them,
 * and *@why says so in words.
 */
bool tei_verbs_offer(const struct verbs_wish *wish,
		     const struct ibv_device_attr *device,
		     const struct ibv_port_attr *port,
		     struct verbs_offer *offer, struct verbs_room *room,
		     const char **why);
/* Checks an offer from outside. Returns NULL, or what is wrong with it. */
const char *tei_verbs_offer_fault(const struct verbs_offer *offer);
/*
 * Agrees on two valid offers, as the side of @ours: reads_out is at most what
 * the other serves, and the other way round.
 */
void tei_verbs_agree(const struct verbs_offer *ours,
		     const struct verbs_offer *theirs,
		     struct verbs_offer *agreed);

/* 256 .. 4096, or 0. */
uint32_t tei_verbs_mtu_bytes(enum ibv_mtu mtu);
/* The largest that is not above @bytes; below 256: 256. */
enum ibv_mtu tei_verbs_mtu_of(uint32_t bytes);

#endif
