/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.c - notifications that have come and wait to be taken */
#include "te/notify/inbox.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/fault.h"
#include "base/mem.h"
#include "te/core/engine.h"

struct message {
	struct tei_list link;        /* inbox.messages */
	struct tei_account *account; /* until it is taken */
	uint8_t incarnation[TE_INCARNATION_LEN];
	uint32_t length;
	char data[]; /* the sender's name with its 0, then the bytes */
};

/*
 * Short messages must not cost more than their bytes say, nor those of many
 * senders: each is charged as if it had its account alone.
 */
#define OVERHEAD (sizeof(struct message) + sizeof(struct tei_account))

_Static_assert(OVERHEAD + TE_NAME_LEN_MAX + 1 + TE_NOTIFY_MAX <=
		       TEI_MESSAGE_MEMORY,
	       "a turn must do for the longest");

static void turns_init(struct tei_turns *turns);

void tei_inbox_init(struct tei_inbox *inbox, struct te_engine *engine)
{
	inbox->engine = engine;
	inbox->event = -1;
	tei_mutex_init(&inbox->mu);
	tei_list_init(&inbox->messages);
	turns_init(&inbox->turns);
}

static uint64_t memory_of(const struct message *m)
{
	return OVERHEAD + strlen(m->data) + 1 + m->length;
}

static struct message *message_make(struct tei_account *account,
				    const char *from, const void *bytes,
				    size_t len)
{
	size_t name_len = strlen(from) + 1;
	struct message *m = tei_malloc(sizeof(*m) + name_len + len);

	if (!m)
		return NULL;
	tei_list_init(&m->link);
	m->account = account;
	memcpy(m->incarnation, account->incarnation, TE_INCARNATION_LEN);
	m->length = (uint32_t)len;
	memcpy(m->data, from, name_len);
	memcpy(m->data + name_len, bytes, len);
	return m;
}

static void signal_event(const struct tei_inbox *inbox)
{
	if (inbox->event >= 0)
		tei_event_signal(inbox->event);
}

static bool account_admit(struct tei_inbox *inbox, struct tei_account *account,
			  uint64_t len, uint64_t memory);

int tei_inbox_put(struct tei_inbox *inbox, struct tei_account *account,
		  const char *from, const void *bytes, size_t len)
{
	struct message *m = message_make(account, from, bytes, len);
	bool taken;

	if (!m)
		return -ENOMEM;
	tei_mutex_lock(&inbox->mu);
	taken = account_admit(inbox, account, len, memory_of(m));
	if (taken) {
		tei_list_add_tail(&inbox->messages, &m->link);
		signal_event(inbox);
	}
	tei_mutex_unlock(&inbox->mu);
	if (!taken)
		tei_free(m);
	return taken ? 0 : -EAGAIN;
}

/* The event stays readable as long as there is something to take. */
static void clear_event(struct tei_inbox *inbox) TEI_REQUIRES(inbox->mu)
{
	if (inbox->event >= 0 && tei_list_empty(&inbox->messages))
		tei_event_clear(inbox->event);
}

static bool account_settle(struct tei_inbox *inbox, struct tei_account *account,
			   uint64_t len, uint64_t memory);

int te_notify_take(struct te_engine *engine, struct te_notify *out)
{
	struct tei_inbox *inbox = engine->inbox;
	struct message *m = NULL;
	struct tei_list *node;
	bool has_room = false;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!out)
		return -EINVAL;
	tei_mutex_lock(&inbox->mu);
	node = tei_list_pop(&inbox->messages);
	if (node) {
		m = tei_list_entry(node, struct message, link);
		has_room = account_settle(inbox, m->account, m->length,
					  memory_of(m));
		clear_event(inbox);
	}
	tei_mutex_unlock(&inbox->mu);
	if (!m)
		return -EAGAIN;
	if (has_room)
		tei_loop_post(engine->loop, &inbox->turns.call);
	*out = (struct te_notify){.from = m->data,
				  .bytes = m->data + strlen(m->data) + 1,
				  .length = m->length};
	memcpy(out->incarnation, m->incarnation, TE_INCARNATION_LEN);
	return 0;
}

void te_notify_free(struct te_notify *notify)
{
	struct message *m;

	if (!notify || !notify->from)
		return;
	m = TEI_CONTAINER(notify->from, struct message, data);
	tei_free(m);
	*notify = (struct te_notify){0};
}

int te_notify_eventfd(struct te_engine *engine)
{
	struct tei_inbox *inbox = engine->inbox;
	int event;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	tei_mutex_lock(&inbox->mu);
	if (inbox->event < 0 && !tei_fault_check(TEI_FAULT_SOCKET)) {
		inbox->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (!tei_list_empty(&inbox->messages))
			signal_event(inbox);
	}
	event = inbox->event;
	tei_mutex_unlock(&inbox->mu);
	return event < 0 ? -EMFILE : event;
}

static void account_put(struct tei_account *account);

void tei_inbox_fini(struct tei_inbox *inbox)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&inbox->messages))) {
		struct message *m = tei_list_entry(node, struct message, link);

		account_put(m->account);
		tei_free(m);
	}
	if (inbox->event >= 0)
		close(inbox->event);
	tei_mutex_fini(&inbox->mu);
}

/* ---- accounts: the share of each sender in the inbox ---- */

static void call_came(struct tei_call *call);

static void turns_init(struct tei_turns *turns)
{
	tei_list_init(&turns->ready);
	tei_list_init(&turns->waiting);
	tei_list_init(&turns->given);
	turns->call.fn = call_came;
}

struct tei_account *
tei_account_make(struct tei_inbound_peer *inbound,
		 const uint8_t incarnation[TE_INCARNATION_LEN])
{
	struct tei_account *account = tei_calloc(1, sizeof(*account));

	if (!account)
		return NULL;
	tei_list_init(&account->link);
	account->inbound = inbound;
	account->refs = 1;
	memcpy(account->incarnation, incarnation, TE_INCARNATION_LEN);
	return account;
}

/* A message is freed with its inbox. */
static void account_put(struct tei_account *account)
{
	if (!--account->refs)
		tei_free(account);
}

static void become_idle(struct tei_inbox *inbox, struct tei_account *account)
{
	tei_list_del(&account->link);
	inbox->turns.promised -= account->promise;
	account->promise = 0;
	account->state = TEI_ACCOUNT_IDLE;
}

static void become(struct tei_inbox *inbox, struct tei_account *account,
		   enum tei_account_state state, struct tei_list *list)
{
	become_idle(inbox, account);
	account->state = (uint8_t)state;
	if (list)
		tei_list_add_tail(list, &account->link);
}

/* ---- room ---- */

/* A turn is as good for the longest message as for a frame of short ones. */
static bool may_promise(const struct tei_inbox *inbox)
{
	return inbox->memory + inbox->turns.promised + TEI_MESSAGE_MEMORY <=
	       inbox->engine->config.notify_memory;
}

/* True: control is to be called, because a sender is to be notified. */
static bool must_post(struct tei_inbox *inbox)
{
	struct tei_turns *turns = &inbox->turns;
	bool next = !tei_list_empty(&turns->waiting) && may_promise(inbox);

	if (turns->posted || (tei_list_empty(&turns->ready) && !next))
		return false;
	turns->posted = true;
	return true;
}

static bool has_own_room(const struct tei_inbox *inbox,
			 const struct tei_account *account, uint64_t len)
{
	const struct tei_config *config = &inbox->engine->config;

	return account->n < config->notify_queue &&
	       account->bytes + len <= config->notify_queue_bytes;
}

/* Enough to be worth telling: not for each message that is taken. */
static bool has_much_own_room(const struct tei_inbox *inbox,
			      const struct tei_account *account)
{
	const struct tei_config *config = &inbox->engine->config;

	return account->n <= config->notify_queue / 2 &&
	       account->bytes <= config->notify_queue_bytes / 2 &&
	       has_own_room(inbox, account, account->wish);
}

static bool has_memory(const struct tei_inbox *inbox,
		       const struct tei_account *account, uint64_t memory)
{
	const struct tei_turns *turns = &inbox->turns;
	uint64_t others = turns->promised - account->promise;

	if (memory <= account->promise)
		return true;
	if (!tei_list_empty(&turns->waiting) &&
	    turns->waiting.next != &account->link)
		return false;
	return inbox->memory + others + memory <=
	       inbox->engine->config.notify_memory;
}

/*
 * Charge a message of @len bytes that takes so much @memory, and refer to the
 * account. False: no room; its inbound peer is notified when there is.
 */
static bool account_admit(struct tei_inbox *inbox, struct tei_account *account,
			  uint64_t len, uint64_t memory)
{
	struct tei_turns *turns = &inbox->turns;
	uint64_t kept = account->promise < memory ? account->promise : memory;

	if (!has_own_room(inbox, account, len)) {
		become(inbox, account, TEI_ACCOUNT_FULL, NULL);
		account->wish = len;
		return false;
	}
	if (!has_memory(inbox, account, memory)) {
		if (account->state != TEI_ACCOUNT_WAITING)
			become(inbox, account, TEI_ACCOUNT_WAITING,
			       &turns->waiting);
		return false;
	}
	if (account->state != TEI_ACCOUNT_TURN)
		become_idle(inbox, account);
	account->promise -= kept;
	turns->promised -= kept;
	account->refs++;
	account->n++;
	account->bytes += len;
	inbox->memory += memory;
	return true;
}

/*
 * The reverse: it has been taken. True: post turns.call once mu is free.
 */
static bool account_settle(struct tei_inbox *inbox, struct tei_account *account,
			   uint64_t len, uint64_t memory)
{
	account->n--;
	account->bytes -= len;
	inbox->memory -= memory;
	if (account->state == TEI_ACCOUNT_FULL && account->inbound &&
	    has_much_own_room(inbox, account))
		become(inbox, account, TEI_ACCOUNT_READY, &inbox->turns.ready);
	account_put(account);
	return must_post(inbox);
}

/* ---- control thread ---- */

/* Ends the waiting or only the turn; others get the memory that is left. */
static void end_waiting(struct tei_inbox *inbox, struct tei_account *account,
			bool only_turn)
{
	bool post;

	tei_mutex_lock(&inbox->mu);
	if (!only_turn || account->state == TEI_ACCOUNT_TURN)
		become_idle(inbox, account);
	post = must_post(inbox);
	tei_mutex_unlock(&inbox->mu);
	if (post)
		tei_loop_post(inbox->engine->loop, &inbox->turns.call);
}

void tei_account_rest(struct tei_inbox *inbox, struct tei_account *account)
{
	end_waiting(inbox, account, true);
}

void tei_account_give_up(struct tei_inbox *inbox, struct tei_account *account)
{
	end_waiting(inbox, account, false);
}

/* Removes a sender; its turn, if it had one, expires at its deadline. */
void tei_account_leave(struct tei_inbox *inbox, struct tei_account *account)
{
	if (!account)
		return;
	tei_mutex_lock(&inbox->mu);
	account->inbound = NULL;
	become_idle(inbox, account);
	account_put(account);
	tei_mutex_unlock(&inbox->mu);
}

static uint64_t turn_ms(const struct tei_inbox *inbox)
{
	return inbox->engine->config.connect_timeout;
}

static void end_late_turns(struct tei_inbox *inbox) TEI_REQUIRES(inbox->mu)
{
	uint64_t now = tei_now_ns();

	tei_list_for_each_safe (node, tmp, &inbox->turns.given) {
		struct tei_account *account =
			tei_list_entry(node, struct tei_account, link);

		if (account->turn_ends > now)
			break;
		become_idle(inbox, account);
	}
}

static void give_turn(struct tei_inbox *inbox, struct tei_account *account)
	TEI_REQUIRES(inbox->mu)
{
	become(inbox, account, TEI_ACCOUNT_TURN, &inbox->turns.given);
	account->promise = TEI_MESSAGE_MEMORY;
	inbox->turns.promised += account->promise;
	account->turn_ends = tei_now_ns() + turn_ms(inbox) * TEI_NS_PER_MS;
}

static struct tei_inbound_peer *next_to_tell(struct tei_inbox *inbox)
{
	struct tei_turns *turns = &inbox->turns;
	struct tei_account *account = NULL;

	tei_mutex_lock(&inbox->mu);
	end_late_turns(inbox);
	if (!tei_list_empty(&turns->ready)) {
		account = tei_list_entry(turns->ready.next, struct tei_account,
					 link);
		become_idle(inbox, account);
	} else if (!tei_list_empty(&turns->waiting) && may_promise(inbox)) {
		account = tei_list_entry(turns->waiting.next,
					 struct tei_account, link);
		give_turn(inbox, account);
	}
	tei_mutex_unlock(&inbox->mu);
	return account ? account->inbound : NULL;
}

static void turns_ended(void *arg);

/* Notifies senders of room; they use it soon, or others get it. */
static void notify_room(struct tei_inbox *inbox)
{
	struct tei_turns *turns = &inbox->turns;
	struct tei_inbound_peer *inbound;
	bool any;

	while ((inbound = next_to_tell(inbox)))
		inbox->room(inbox->engine, inbound);
	tei_mutex_lock(&inbox->mu);
	any = !tei_list_empty(&turns->given);
	tei_mutex_unlock(&inbox->mu);
	if (any && !turns->timer)
		turns->timer =
			tei_timer_start(inbox->engine->loop, turn_ms(inbox),
					false, turns_ended, inbox);
}

static void turns_ended(void *arg)
{
	struct tei_inbox *inbox = arg;

	tei_timer_stop(inbox->turns.timer);
	inbox->turns.timer = NULL;
	notify_room(inbox);
}

static void call_came(struct tei_call *call)
{
	struct tei_inbox *inbox =
		TEI_CONTAINER(call, struct tei_inbox, turns.call);

	tei_mutex_lock(&inbox->mu);
	inbox->turns.posted = false;
	tei_mutex_unlock(&inbox->mu);
	if (!inbox->turns.closed)
		notify_room(inbox);
}

void tei_turns_close(struct tei_turns *turns)
{
	turns->closed = true;
	tei_timer_stop(turns->timer);
	turns->timer = NULL;
}
