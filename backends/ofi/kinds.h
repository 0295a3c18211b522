/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kinds.h - what is known of libfabric's providers beyond what they tell
 *
 * A provider that is not in the table is refused. Threads: any.
 */
#ifndef OFI_KINDS_H
#define OFI_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Facts about a provider that it does not tell by itself. */
struct ofi_kind {
	const char *name;
	/* Name in libfabric from version 1.18 on; NULL: the same. */
	const char *renamed;
	/* NULL: it is used. Else why it is not, for people. */
	const char *why;
	/*
	 * Bytes pass through this process, and a key that has ended is not
	 * looked at again: what peers have begun goes on until their endpoints
	 * are closed.
	 */
	bool software;
	/* Endpoints are FI_EP_RDM, not connections. */
	bool rdm;
	/*
	 * Fabric that a device is used by where it has several, none of which
	 * reaches another. NULL: the one that is told first.
	 */
	const char *fabric;
	/* Keys that peers use hold for one endpoint (FI_MR_ENDPOINT). */
	bool bound;
	/*
	 * Variable of the environment that users must have set to 1, and why it
	 * is not used without, for people. NULL: none.
	 */
	const char *variable, *without;
	/*
	 * Variable of the environment that users must have set to 0 for memory
	 * of GPUs to be registered, and why. NULL: it is not.
	 */
	const char *gpus_without, *gpus_why;
	/*
	 * Emulates reads and writes by the processor where the device has none:
	 * an option of each endpoint tells. It is then as one of software.
	 */
	bool emulates;
	/*
	 * Closing an endpoint waits for all that it has posted, and lets nobody
	 * else use the domain meanwhile.
	 */
	bool waits;
	/*
	 * Most local pieces of a read or write, 0: as many as it says. The
	 * devices of efa refuse two, whatever it says.
	 */
	uint32_t pieces;
	/*
	 * Most buffers to receive messages of an endpoint, of which we send
	 * none, 0: as many as it says. efa has 8192 of 8.9 KB each, and uses
	 * some for itself.
	 */
	uint32_t receives;
	/*
	 * Asked for, too. FI_REMOTE_COMM without FI_LOCAL_COMM: efa reaches
	 * this host by its device, not by its own shared memory, which touches
	 * memory after an endpoint is closed.
	 */
	uint64_t caps;
	/* Folder of the kernel's driver for its devices; NULL: it has none. */
	const char *driver;
	/*
	 * The error FI_E* that a number of the provider's own stands for, 0:
	 * the one that comes with it. Pure. NULL: always that.
	 */
	int (*error_of)(int code);
};

/* Finds the provider called name[len]; NULL: nothing is known of it. */
const struct ofi_kind *tei_ofi_kind_find(const char *name, size_t len);

/* Returns its name in libfabric of that version, an FI_VERSION(). Static. */
const char *tei_ofi_kind_called(const struct ofi_kind *kind, uint32_t version);

#endif
