/* SPDX-License-Identifier: Apache-2.0 */
/* listen.h - an engine that te-doctor elsewhere may look at */
#ifndef CMD_DOCTOR_LISTEN_H
#define CMD_DOCTOR_LISTEN_H

#include <stdbool.h>

#include "cmd/doctor/engines.h"

/*
 * Publish memory to be read, say where on stdout, and wait for SIGINT or
 * SIGTERM. With @pairs the memory may be written to, too, and orders of
 * te-doctor pairs are carried out, one after the other; without, they are
 * refused. 0, or a negative errno and perhaps @error. Threads: one, and before
 * others are started.
 */
int tei_peer_listen(const struct tei_engine_wish *wish, const char *name,
		    bool pairs, char error[256]);

#endif
