/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbox.h - notifications that have come and wait to be taken
 *
 * One list of messages for the engine, in the order they came, and an account
 * (account.h) for each sender. What is accepted is never dropped but with the
 * engine.
 *
 * Threads: any, under mu.
 */
#ifndef TE_NOTIFY_INBOX_H
#define TE_NOTIFY_INBOX_H

#include <stddef.h>
#include <stdint.h>

#include <te/te.h>

#include "base/list.h"
#include "base/thread.h"
#include "te/notify/account.h"

/* What one message takes at most, and all that belongs to it. */
#define TEI_MESSAGE_MEMORY (TE_NOTIFY_MAX + 1024u)

struct te_engine;

struct tei_inbox {
	struct te_engine *engine;
	/* Control: messages of @guest may be accepted again. */
	void (*room)(struct te_engine *engine, struct tei_guest *guest);
	struct tei_mutex mu;      /* lock 13 */
	struct tei_list messages; /* guarded by mu, as all below */
	uint64_t memory;          /* of them */
	int event;                /* eventfd, -1: none */
	struct tei_turns turns;
};

void tei_inbox_init(struct tei_inbox *inbox, struct te_engine *engine);
/* With the engine: both threads have ended, every guest is freed. */
void tei_inbox_fini(struct tei_inbox *inbox);

/* ---- control thread ---- */

/*
 * Accept a message, copied, of a sender that gives itself the name @from.
 * -EAGAIN: no room; room() will be called for the account's guest.
 * -ENOMEM.
 */
int tei_inbox_put(struct tei_inbox *inbox, struct tei_account *account,
		  const char *from, const void *bytes, size_t len);

#endif
