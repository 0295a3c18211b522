/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pulse.h - the heartbeat connection: we live, we are mounted, we fence
 *
 * The second of the link's two connections. Nothing waits behind big messages
 * on it. Threads: the loop's.
 */
#ifndef STORE_CLIENT_PULSE_H
#define STORE_CLIENT_PULSE_H

#include <stdbool.h>

struct tei_frame_call;
struct tei_frame_conn;
struct tes_master_link;

/* Once the main connection is greeted. */
void tes_pulse_start(struct tes_master_link *link);
/* Its timer; the link closes the connection. */
void tes_pulse_stop(struct tes_master_link *link);
/* Say hello on either connection. -ENOMEM, ... */
int tes_pulse_hello(struct tes_master_link *link, struct tei_frame_conn *conn,
		    struct tei_frame_call *call, bool heartbeat);

#endif
