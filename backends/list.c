/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - the backends that are linked in, in order of preference */
#include "te/backend.h"

extern const struct tei_backend_ops tei_backend_loop;
extern const struct tei_backend_ops tei_backend_shm;
extern const struct tei_backend_ops tei_backend_verbs;
extern const struct tei_backend_ops tei_backend_ofi;
extern const struct tei_backend_ops tei_backend_tcp;

/* clang-format off */
const struct tei_backend_ops *const tei_backends[] = {
	&tei_backend_loop,
	&tei_backend_shm,
	&tei_backend_verbs,
	&tei_backend_ofi,
	&tei_backend_tcp,
	NULL,
};
/* clang-format on */
