/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_verbs.h - a provider of verbs in memory, which fails as it is told
 *
 * Devices, ports, queue pairs and keys of one process that reach each other. The
 * bytes are carried, the checks are those of the kernel and of a NIC: states and
 * masks of queue pairs, keys, ranges and access of both ends, packet numbers and
 * sizes, limits. What a NIC would do by itself happens inside poll_cq(), or at once
 * while a queue is armed; so a test is the same each time.
 *
 * Threads: any; one lock guards all of it.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/verbs/provider.h"

#define FAKE_DEVICES_MAX 8
#define FAKE_PORTS_MAX   2
#define FAKE_GIDS_MAX    8

extern const struct verbs_provider fake_verbs;

/*
 * A new fabric of @n devices "fake0" .., each with an active Ethernet port and
 * two GIDs: 0: link-local of RoCE version 1, 1: 10.9.PORT.DEVICE + 1 of version 2.
 */
void fake_verbs_start(unsigned int n);
/* Asserts that nothing is left of it: contexts, domains, keys, queues, pairs. */
void fake_verbs_stop(void);

/* What the device and its port 1 or 2 say of themselves; to be changed. */
struct ibv_device_attr *fake_verbs_device(unsigned int device);
struct ibv_port_attr *fake_verbs_port(unsigned int device, uint8_t port);
/* @text: "10.9.0.1" or IPv6; NULL: the entry is not in use. */
void fake_verbs_set_gid(unsigned int device, uint8_t port, uint32_t index,
			const char *text, enum ibv_gid_type type);

/*
 * Makes it an eRDMA device, "erdma_N": one local piece of a work request, no
 * inline data, keys of 64 GiB, and of GIDs one that is no address, at index 0,
 * and 10.9.1.N + 1 at index 5. Unless @compat_mode it reports iWARP.
 */
void fake_verbs_make_erdma(unsigned int device, bool compat_mode);

/* ---- trouble ---- */

/* The @nth call from now on that can fail does, with @err; 0: none does. */
void fake_verbs_fail(unsigned int nth, int err);
/* Whether that has happened. */
bool fake_verbs_struck(void);

/* The @nth work request carried out from now on ends with @status. */
void fake_verbs_spoil(unsigned int nth, enum ibv_wc_status status);
/* The next @n carried out do. */
void fake_verbs_spoil_next(unsigned int n, enum ibv_wc_status status);
/* Of a million work requests about so many end with some error. */
void fake_verbs_spoil_some(uint64_t seed, unsigned int per_million);
/* post_send() takes @n more work requests in all, then refuses one. */
void fake_verbs_take(unsigned int n);
/* Queue pairs that ask for inline data are refused. */
void fake_verbs_no_inline(bool on);
/* The device takes no memory any more, with @err; 0: it does. */
void fake_verbs_refuse_memory(unsigned int device, int err);
/* reg_mr() of the device does not return until it is unset. */
void fake_verbs_hold_memory(unsigned int device, bool on);
/* Dma-bufs are refused, with @err; 0: they are not. */
void fake_verbs_refuse_dmabufs(int err);
/*
 * Where a device finds the bytes of an address that is registered as such, as a
 * GPU's is; @translate may return NULL: there. NULL: all are there.
 */
void fake_verbs_translate(void *(*translate)(uint64_t addr));
/* Whether bytes are carried (default) or only checks are made, for benchmarks. */
void fake_verbs_carry(bool on);
/* Nothing is carried out and nothing comes back until it is unset. */
void fake_verbs_hang(unsigned int device, bool on);
/* The same, only for queue pairs that there are now; for good. */
void fake_verbs_hang_pairs(unsigned int device);
/* destroy_qp() does not return until it is unset. */
void fake_verbs_hold_destroys(bool on);
/* The same, only for queue pairs that there are now. */
void fake_verbs_hold_pairs(void);
/* destroy_qp() fails with @err and leaves all as it is, until @err is 0. */
void fake_verbs_refuse_destroys(int err);
/* The port's state, with its event. What is under way then is not acknowledged. */
void fake_verbs_link(unsigned int device, uint8_t port, bool up);
/* The port's MTU, without an event. What is larger is lost from now on. */
void fake_verbs_set_mtu(unsigned int device, uint8_t port, enum ibv_mtu mtu);
/* The device finds it broken: it is in error, and an event says so. */
void fake_verbs_break_pair(struct ibv_qp *qp);
/* @port: for events of ports. To every context of the device. */
void fake_verbs_tell(unsigned int device, enum ibv_event_type type,
		     uint8_t port);

/* ---- what happened ---- */

/* As modify_qp() has set it. */
struct ibv_qp_attr fake_verbs_pair(struct ibv_qp *qp);

struct fake_verbs_counts {
	uint64_t doorbells; /* post_send() calls that took something */
	uint64_t requests;  /* carried out with success */
	uint64_t spoiled;   /* ended with an error that is no flush */
	uint64_t flushed;
	uint64_t signalled; /* completions of success */
	uint64_t inlined;
	uint32_t most_reads;      /* of one queue pair, posted and not done */
	uint64_t relaxed;         /* keys made that let writes be reordered */
	unsigned int pairs, keys; /* there are now */
	unsigned int held;        /* destroy_qp() calls that do not return */
	uint64_t refused;         /* that failed */
	unsigned int registering; /* reg_mr() calls that do not return */
};
struct fake_verbs_counts fake_verbs_counts(void);

#endif
