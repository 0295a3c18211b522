/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - messages to peers, which follow the data of their batch
 *
 *   WAITING --all before it ended well--> QUEUED --in a frame--> SENT --> ended
 *      |                                    |  withdrawn
 *      +------- one of them failed ---------+----------> ended
 *
 * A request of the op TE_NOTIFY waits, with the token, for the requests before
 * it in its batch that go to the same segment, other notifications included.
 * So for each segment only the first one has to look; the others follow it.
 * Then its bytes are copied and handed to control, which sends.
 *
 * Control sends one frame at a time, with as many messages as fit. Once sent,
 * a message keeps its number until the peer has said what became of it, over
 * however many connections: what is sent again is always the same, and the
 * peer takes each number once.
 */
#ifndef TE_NOTIFY_NOTIFY_H
#define TE_NOTIFY_NOTIFY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/mem.h"

#define TEI_NOTIFY_FRAME_MAX 256u /* messages in a frame */

struct tei_peer;
struct tei_worker;
struct tei_request;

enum tei_notify_state {
	TEI_NOTIFY_WAITING,
	TEI_NOTIFY_QUEUED, /* control's to send, the token's to withdraw */
	TEI_NOTIFY_WITHDRAWN,
	TEI_NOTIFY_SENT,
	TEI_NOTIFY_LEFT, /* sent, and nobody waits for the answer any more */
};

struct tei_notify {
	/* The request's, control's, and one of a withdrawal. */
	_Atomic uint32_t refs;
	/* The thread that moves it out of QUEUED decides; seq_cst. */
	_Atomic uint8_t state;
	struct tei_peer *peer;
	struct tei_worker *worker; /* whose token */

	/* Token. */
	struct tei_request *request; /* NULL: has ended */
	struct tei_list of_batch;    /* batch.notifies, or a followers */
	struct tei_list followers;   /* later ones to the same segment */
	uint32_t cursor; /* what is before it in the batch ended well */
	bool answered;

	/* Control, from ask to answer. */
	struct tei_call ask, withdraw, answer;
	struct tei_list link; /* peer->c->notify: queue or doubt */
	uint32_t life;
	uint64_t epoch;
	int err;
	bool loud; /* with err: it may have arrived all the same */
	uint32_t length;
	uint8_t bytes[];
};

static inline void tei_notify_put(struct tei_notify *n)
{
	if (atomic_fetch_sub(&n->refs, 1) == 1)
		tei_free(n);
}

/* True: the notification needs the control connection. */
static inline bool tei_notify_is_going(const struct tei_notify *n)
{
	return atomic_load(&n->state) != TEI_NOTIFY_WAITING;
}

#endif
