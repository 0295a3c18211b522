/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unread.h - commits that an owner leaves unread for a moment
 *
 * The master tells an owner of each commit before the writer is answered
 * (docs/wire.md), and nobody waits for the owner to read it. To wake the owner
 * for each would cost more than the commit: so when they follow each other
 * closely they stay in the socket until 1,024 bytes have come, or for a
 * millisecond or two. What was sent is read before the connection is closed, so
 * no commit is lost by that. Pushes that somebody waits for come on the same
 * connection, behind them, and are long enough to be read at once
 * (TES_STORE_PADS).
 *
 * Threads: the loop's.
 */
#ifndef STORE_CLIENT_UNREAD_H
#define STORE_CLIENT_UNREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"

struct tei_frame_conn;

struct tes_unread {
	struct tei_alarm alarm;
	struct tei_frame_conn *conn; /* whose pushes may stay; NULL: none */
	bool came;                   /* a commit, since the alarm was set */
	uint64_t last_ns;            /* when the last commit came */
};

void tes_unread_init(struct tes_unread *unread, struct tei_loop *loop);
/*
 * A commit came on @conn. Those that follow stay unread for a moment, if this
 * one came soon after the one before.
 */
void tes_unread_commit(struct tes_unread *unread, struct tei_frame_conn *conn);
/* The connection is about to be closed: @unread forgets it. */
void tes_unread_end(struct tes_unread *unread);

#endif
