/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic.h - domains of libfabric's providers: found, opened
 *
 * A domain is what a provider calls one NIC, or one interface; each is a rail.
 */
#ifndef OFI_NIC_H
#define OFI_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/ofi/config.h"
#include "backends/ofi/kinds.h"
#include "backends/ofi/provider.h"
#include "backends/ofi/wire.h"
#include "base/thread.h"
#include "te/backend.h"

#define OFI_PIECES_MAX 8 /* local pieces of an operation */

struct ofi_nic {
	const struct ofi_provider *api;
	const struct ofi_config *config; /* not owned */
	const struct ofi_kind *kind;
	char name[48];
	struct fi_info *info; /* of the domain; NULL: it is not open */
	bool gpus;            /* takes dma-bufs of GPUs (FI_HMEM) */
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct ofi_self self;
	/* Limits of an endpoint that the provider grants. */
	uint32_t depth;      /* operations in flight */
	uint32_t pieces;     /* local pieces of an operation */
	uint64_t message;    /* bytes of an operation */
	bool waits;          /* as the kind's, of this domain */
	struct tei_mutex mu; /* lock 26; see tei_ofi_nic_lock() */
};

/* A choice of domains, for people. Zeroed before the first use. */
struct ofi_choice {
	/*
	 * "eth0, eth1 (tcp, 128 operations in flight)"; with @left in one line
	 * of the log, it has room for the NICs of a host that has 32.
	 */
	char used[640];
	char left[340]; /* "not in ofi.devices: eth1, eth2; loopback: lo" */
	/* Kind and depth of the last names in @used; NULL: they were told. */
	const struct ofi_kind *kind;
	uint32_t depth;
	const char *reason; /* the last one in @left */
};

/*
 * Returns 1 where the settings name a provider that is used, 0 where they do
 * not; -EINVAL: one has a name that nothing is known of, logged. Providers that
 * are not used are added to @choice. @look: also those whose devices have no
 * driver on this host.
 */
int tei_ofi_wants(const struct ofi_config *config, bool look,
		  struct ofi_choice *choice);

/*
 * probe() of te/backend.h. -EINVAL: ofi.devices names what is not there. Asks
 * the library. Blocks.
 */
int tei_ofi_nics_find(const struct ofi_provider *api,
		      const struct ofi_config *config, tei_device_fn *found,
		      void *arg, struct ofi_choice *choice);

/*
 * Opens the domain @name. -ENODEV: it is gone, or the provider
 * cannot open it and ofi.devices does not name it, so that the engine does
 * without it. Errors are logged. Blocks.
 */
int tei_ofi_nic_open(struct ofi_nic *nic, const struct ofi_provider *api,
		     const struct ofi_config *config, const char *name);
/* Closes what is open of it. */
void tei_ofi_nic_close(struct ofi_nic *nic);

/*
 * Locks where the provider is software, else does nothing. Such a provider
 * looks keys up while it makes progress, without a lock of its own against
 * their being made and ended by other threads. So whoever does either has this
 * lock.
 */
void tei_ofi_nic_lock(struct ofi_nic *nic);
void tei_ofi_nic_unlock(struct ofi_nic *nic);

/*
 * Logs that the provider has refused, with @rc < 0 of the library, to open what
 * the rail needs, and returns what opening the rail says.
 */
int tei_ofi_nic_failed(const struct ofi_nic *nic, const char *what, int rc);

/* Turns a result of the library, <= 0, into 0 or a negative errno. Pure. */
int tei_ofi_error(ssize_t rc);

#endif
