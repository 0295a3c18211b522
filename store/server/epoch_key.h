/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoch_key.h - the secret by which a master knows epochs of masters before it
 *
 * The secret is in a file of the user who runs the master, so that it outlives
 * each of them.
 */
#ifndef STORE_SERVER_EPOCH_KEY_H
#define STORE_SERVER_EPOCH_KEY_H

#include <stdint.h>

#include "store/proto/protocol.h"

/*
 * Read the secret from @path, or make it there; "": in the state directory of
 * this user. Masters that do so at once agree. Where that cannot be, a line
 * says what to do, and the secret lasts as long as this master. Negative errno:
 * the kernel has no random bytes.
 */
int tes_epoch_key_load(const char *path, uint8_t key[TES_STORE_EPOCH_KEY_LEN]);

#endif
