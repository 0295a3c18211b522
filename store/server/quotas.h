/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quotas.h - the file that says which tenants there are, and how much each may
 * have
 *
 *   version: 1
 *   tenants:
 *     - name: team-a
 *       quota: 64GB
 *
 * YAML; what does not belong there is an error that names its line. It is read
 * when the master starts, and written anew as a whole when a quota is changed.
 */
#ifndef STORE_SERVER_QUOTAS_H
#define STORE_SERVER_QUOTAS_H

#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "store/core/core.h"

struct tes_quota {
	char name[TES_CORE_TENANT_MAX + 1];
	uint64_t bytes;
};

struct tes_quotas {
	struct tes_quota *at; /* at[n] */
	size_t n, room;
};

/* A copy at the end. -ENOMEM; @name fits. */
int tes_quotas_add(struct tes_quotas *q, const char *name, uint64_t bytes);
void tes_quotas_free(struct tes_quotas *q);

/* 0 and *out is the caller's; -EINVAL, -ENOMEM, or what reading said. */
int tes_quotas_read(const char *path, struct tes_quotas *out,
		    char error[TEI_CONF_ERROR_LEN]);
/*
 * Writes all of it, so that it is there after a loss of power, or leaves the
 * file as it was: -errno. A link is followed. Blocks: for the disk.
 */
int tes_quotas_write(const char *path, const struct tes_quotas *q);

#endif
