/* SPDX-License-Identifier: Apache-2.0 */
/* engines.h - engines of te-doctor's own, and messages to others' */
#ifndef CMD_DOCTOR_ENGINES_H
#define CMD_DOCTOR_ENGINES_H

#include <stdbool.h>
#include <stdint.h>
#include <te/te.h>

/* Wishes for an engine. */
struct tei_engine_wish {
	const char *settings; /* "tcp.lanes=2,slice_max=4m"; NULL: none */
	const char *backends; /* in place of the setting; NULL, "": leave it */
	bool insecure;
};

/*
 * Opens an engine. 0, -EINVAL (a setting is wrong, which @error explains), or
 * what te_engine_create() returns.
 */
int tei_engine_open(const struct tei_engine_wish *wish, const char *name,
		    struct te_engine **out, char error[256]);

/*
 * Send @text to an open segment's engine. Blocks for 5 s at most. 0 or why not.
 */
int tei_engine_tell(struct te_engine *engine, te_segment_id segment,
		    const char *text);

#endif
