/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol.c - how long messages of each type may be
 *
 * A batch is at most 4096 keys of 1 KiB, and some 30 bytes a key of columns;
 * a look-up's reply may name a segment for every key.
 */
#include "store/proto/protocol.h"

#include "store/proto/store.pb-c.h"

#define BATCH_CAP (8u << 20)
#define HELLO_CAP (4u << 10)
#define SMALL_CAP (1u << 10)

const struct tei_frame_protocol tei_store_protocol = {
	.name = "master",
	.cap =
		{
			[STORE__STORE_TYPE__STORE_REFUSED] = SMALL_CAP,
			[STORE__STORE_TYPE__STORE_HELLO] = HELLO_CAP,
			[STORE__STORE_TYPE__STORE_HEARTBEAT] = SMALL_CAP,
			[STORE__STORE_TYPE__STORE_MOUNT] = HELLO_CAP,
			[STORE__STORE_TYPE__STORE_UNMOUNT] = HELLO_CAP,
			[STORE__STORE_TYPE__STORE_PUT_START] = BATCH_CAP,
			[STORE__STORE_TYPE__STORE_PUT_END] = BATCH_CAP,
			[STORE__STORE_TYPE__STORE_LOOKUP] = BATCH_CAP,
			[STORE__STORE_TYPE__STORE_RELEASE] = BATCH_CAP,
			[STORE__STORE_TYPE__STORE_EXIST] = BATCH_CAP,
			[STORE__STORE_TYPE__STORE_SIZE] = BATCH_CAP,
			[STORE__STORE_TYPE__STORE_REMOVE] = BATCH_CAP,
			[STORE__STORE_TYPE__STORE_POOL] = SMALL_CAP,
			[STORE__STORE_TYPE__STORE_FENCE] = SMALL_CAP,
			[STORE__STORE_TYPE__STORE_FENCED] = SMALL_CAP,
			[STORE__STORE_TYPE__STORE_REMOVE_ALL] = HELLO_CAP,
			[STORE__STORE_TYPE__STORE_REPLICA_CLEAR] = BATCH_CAP,
			[STORE__STORE_TYPE__STORE_COMMITTED] = BATCH_CAP,
			[STORE__STORE_TYPE__STORE_BURY] = BATCH_CAP,
			[STORE__STORE_TYPE__STORE_BURIED] = SMALL_CAP,
			[STORE__STORE_TYPE__STORE_OFFER] = BATCH_CAP,
			[STORE__STORE_TYPE__STORE_TAIL] = BATCH_CAP,
		},
};
