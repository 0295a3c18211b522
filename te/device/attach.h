/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h - memory of GPUs that other processes of the host have shared
 *
 * A driver opens such memory once in a context, so this process keeps what it
 * has open, for all its engines. The owner frees it after everybody has
 * detached.
 *
 * Threads: any; lock 19 is held while the driver opens or closes.
 */
#ifndef TE_DEVICE_ATTACH_H
#define TE_DEVICE_ATTACH_H

#include <stdint.h>

#include "te/device/stage.h"

struct tei_attached;

/*
 * Opens what @name names, in the context of @stage, unless it is open there.
 * *addr: of its first byte. Returns 0 and *out, to be detached with a stage of
 * that context; or @why says why and: -EOPNOTSUPP, -EIO, as the runtime's
 * attach(), -ENOMEM. Blocks: for the driver.
 */
int tei_attach(struct tei_stage *stage, const uint8_t name[TEI_SHARED_LEN],
	       struct tei_attached **out, uint64_t *addr,
	       char why[TEI_RUNTIME_WHY_LEN]);
/* No copy touches it any more, of this user. */
void tei_detach(struct tei_stage *stage, struct tei_attached *attached);

#endif
