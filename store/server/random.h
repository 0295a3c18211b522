/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.h - secrets and seeds from the kernel; the core itself draws nothing
 */
#ifndef STORE_SERVER_RANDOM_H
#define STORE_SERVER_RANDOM_H

#include <stddef.h>

/* Fill @out[len]. 0, or the negative errno of getrandom(). */
int tes_server_random(void *out, size_t len);

#endif
