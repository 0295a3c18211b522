/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - the backends of programs that test with simulated rails */
#include "te/backend.h"

extern const struct tei_backend_ops tei_backend_loop;
extern const struct tei_backend_ops tei_backend_ofi;
extern const struct tei_backend_ops tei_backend_shm;
extern const struct tei_backend_ops tei_backend_sim;
extern const struct tei_backend_ops tei_backend_tcp;
extern const struct tei_backend_ops tei_backend_verbs;

/* clang-format off */
const struct tei_backend_ops *const tei_backends[] = {
	&tei_backend_loop,
	&tei_backend_sim,
	&tei_backend_shm,
	&tei_backend_verbs,
	&tei_backend_ofi,
	&tei_backend_tcp,
	NULL,
};
/* clang-format on */
