/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - the backends that are linked in, in order of preference */
#include "te/backend.h"

const struct tei_backend_ops *const tei_backends[] = {
	NULL,
};
