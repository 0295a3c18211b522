/* SPDX-License-Identifier: Apache-2.0 */
/* unread.c - when an owner reads what the master tells it */
#include "store/client/unread.h"

#include "base/clock.h"
#include "base/frame.h"
#include "store/proto/protocol.h"

#define DELAY_MS 1

void tes_unread_end(struct tes_unread *unread)
{
	if (!unread->conn)
		return;
	tei_alarm_clear(&unread->alarm);
	tei_frame_low_water(unread->conn, 1);
	unread->conn = NULL;
}

static void on_alarm(void *arg)
{
	struct tes_unread *unread = arg;

	unread->came = false;
	(void)tei_frame_read(unread->conn);
	if (!unread->came || tei_alarm_set(&unread->alarm, DELAY_MS))
		tes_unread_end(unread);
}

void tes_unread_init(struct tes_unread *unread, struct tei_loop *loop)
{
	*unread = (struct tes_unread){.conn = NULL};
	tei_alarm_init(&unread->alarm, loop, on_alarm, unread);
}

void tes_unread_commit(struct tes_unread *unread, struct tei_frame_conn *conn)
{
	uint64_t now = tei_now_ns(), since = now - unread->last_ns;

	unread->last_ns = now;
	unread->came = true;
	if (unread->conn || since > DELAY_MS * TEI_NS_PER_MS)
		return;
	if (tei_clock_simulated() || tei_alarm_set(&unread->alarm, DELAY_MS))
		return; /* simulated clocks stand still */
	unread->conn = conn;
	tei_frame_low_water(conn, TES_STORE_PADDED);
}
