/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.h - NICs that the user names, as each backend calls them
 *
 * The setting `devices` names them by any name that the machine has for them:
 * their RDMA device is for the backends of RDMA, their interface for the others
 * that reach other hosts. What te_config_set() says of a backend's own setting counts
 * before that.
 */
#ifndef TE_WORKER_DEVICES_H
#define TE_WORKER_DEVICES_H

#include <stdbool.h>

#include "te/backend.h"

#define TEI_DEVICES_MAX 1024 /* bytes of a list of names */

struct tei_devices {
	bool chosen; /* by the setting; else the rest means nothing */
	char rdma[TEI_DEVICES_MAX], interfaces[TEI_DEVICES_MAX];
};

/*
 * As the setting's value @list (NULL, "": none) says. Blocks: the machine is
 * looked at. -EINVAL: one is not there, or the list is too long; logged.
 * -ENOMEM.
 */
int tei_devices_find(const char *list, struct tei_devices *out);
/* Those for @ops, a list with commas; NULL: whatever there is. */
const char *tei_devices_for(const struct tei_devices *devices,
			    const struct tei_backend_ops *ops);
/* False: they are named, and none of them has it. */
bool tei_devices_have_rdma(const struct tei_devices *devices);
/* Whether @ops may be used: RDMA only where one of them has it. */
bool tei_devices_let(const struct tei_devices *devices,
		     const struct tei_backend_ops *ops);

#endif
