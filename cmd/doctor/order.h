/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.h - what te-doctor pairs asks of te-doctor listen, and is answered
 *
 * Both are notifications of engines (TE_NOTIFY) and hold a JSON object each.
 * They come from outside: texts are cut to their fields, and what is no order
 * or no answer is refused as a whole.
 */
#ifndef CMD_DOCTOR_ORDER_H
#define CMD_DOCTOR_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <te/te.h>

#include "cmd/doctor/peer.h"

#define TEI_ORDER_TIME_MAX 60000 /* ms, in each direction */
#define TEI_ANSWER_RAILS   16

/* Measure towards a peer. */
struct tei_order {
	uint64_t id; /* comes back in the answer */
	char to[TE_NAME_LEN_MAX + 1];
	char backends[64]; /* "": as the engine chooses */
	uint64_t time_ms;  /* 1 .. TEI_ORDER_TIME_MAX */
};

struct tei_answer_rail {
	char name[64], state[16];
	uint64_t read_bps, write_bps;
};

struct tei_answer {
	uint64_t id;
	char failure[128];            /* "": it was measured */
	char backend[16];             /* by which */
	char why[128];                /* as tei_peer_why() */
	uint64_t rtt_us;              /* 0: not known */
	uint64_t read_bps, write_bps; /* 0: there is no memory for it */
	size_t n_rails;
	struct tei_answer_rail rails[TEI_ANSWER_RAILS]; /* of backend */
};

/* Text to be free()d; NULL: no memory. */
char *tei_order_encode(const struct tei_order *order);
char *tei_answer_encode(const struct tei_answer *answer);
/* False: it is none. */
bool tei_order_decode(const void *bytes, size_t len, struct tei_order *out);
bool tei_answer_decode(const void *bytes, size_t len, struct tei_answer *out);

/* Turn what a visit has seen into an answer; its id is left alone. */
void tei_answer_from_visit(const struct tei_peer_visit *v,
			   struct tei_answer *out);

#endif
