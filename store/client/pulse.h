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

#endif
