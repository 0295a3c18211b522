/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbox.h - notifications that have come and wait to be taken
 *
 * One list of messages for the engine, in the order they came, and an account
 * for each sender: how much of the list is its. A message is accepted while
 * the sender's share and the whole have room; a sender that was turned away is
 * told once there is room again. What is accepted is never dropped but with
 * the engine.
 *
 * Threads: any, under mu; accounts are made and left by the control thread.
 */
#ifndef TE_INBOX_H
#define TE_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/te.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/thread.h"

struct te_engine;
struct tei_guest;

struct tei_account {
	struct tei_list wanting; /* inbox.wanting, while it wants room */
	struct tei_guest *guest; /* NULL: has been forgotten. Control */
	uint32_t refs;           /* the guest's, and one a message; mu */
	uint32_t n;              /* messages not taken; mu */
	uint64_t bytes;          /* of them; mu */
	uint8_t incarnation[TE_INCARNATION_LEN];
	char name[TE_NAME_LEN_MAX + 1];
};

struct tei_inbox {
	struct te_engine *engine;
	struct tei_mutex mu;      /* lock 13 */
	struct tei_list messages; /* guarded by mu, as all below */
	struct tei_list wanting;  /* accounts */
	uint64_t memory;          /* of them */
	int event;                /* eventfd, -1: none */
	bool posted;
	struct tei_call room; /* to control: some account has room */
};

void tei_inbox_init(struct tei_inbox *inbox, struct te_engine *engine);
/* With the engine: both threads have ended, every guest is freed. */
void tei_inbox_fini(struct tei_inbox *inbox);

/* ---- control thread ---- */

/* NULL: out of memory. */
struct tei_account *tei_account_make(struct tei_guest *guest, const char *name);
/* The guest is forgotten; NULL is fine. */
void tei_account_leave(struct tei_inbox *inbox, struct tei_account *account);
/*
 * Accept a message, copied. -EAGAIN: no room; tei_notify_room() will be called
 * for the account's guest. -ENOMEM.
 */
int tei_inbox_put(struct tei_inbox *inbox, struct tei_account *account,
		  const void *bytes, size_t len);
/* visit_notify.c: messages of @guest may be accepted again. */
void tei_notify_room(struct te_engine *engine, struct tei_guest *guest);

#endif
