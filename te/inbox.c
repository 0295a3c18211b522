/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.c - notifications that have come and wait to be taken */
#include "te/inbox.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "te/engine.h"

struct message {
	struct tei_list link;        /* inbox.messages */
	struct tei_account *account; /* until it is taken */
	uint8_t incarnation[TE_INCARNATION_LEN];
	uint32_t length;
	char data[]; /* the sender's name with its 0, then the bytes */
};

static void room_came(struct tei_call *call);

void tei_inbox_init(struct tei_inbox *inbox, struct te_engine *engine)
{
	inbox->engine = engine;
	inbox->event = -1;
	inbox->room.fn = room_came;
	tei_mutex_init(&inbox->mu);
	tei_list_init(&inbox->messages);
	tei_list_init(&inbox->wanting);
}

/* ---- accounts ---- */

struct tei_account *tei_account_make(struct tei_guest *guest, const char *name)
{
	struct tei_account *account = tei_calloc(1, sizeof(*account));

	if (!account)
		return NULL;
	tei_list_init(&account->wanting);
	account->guest = guest;
	account->refs = 1;
	memcpy(account->incarnation, guest->incarnation, TE_INCARNATION_LEN);
	memcpy(account->name, name, strlen(name) + 1); /* fits: it is a name */
	return account;
}

static void put_ref(struct tei_account *account)
{
	if (!--account->refs)
		tei_free(account);
}

void tei_account_leave(struct tei_inbox *inbox, struct tei_account *account)
{
	if (!account)
		return;
	tei_mutex_lock(&inbox->mu);
	account->guest = NULL;
	tei_list_del(&account->wanting);
	put_ref(account);
	tei_mutex_unlock(&inbox->mu);
}

/* ---- room ---- */

/* Small messages must not cost more than their bytes say. */
static size_t memory_of(const struct tei_account *account, size_t len)
{
	return sizeof(struct message) + strlen(account->name) + 1 + len;
}

static bool fits(const struct tei_inbox *inbox,
		 const struct tei_account *account, size_t len)
{
	const struct tei_config *config = &inbox->engine->config;

	return account->n < config->notify_queue &&
	       account->bytes + len <= config->notify_queue_bytes &&
	       inbox->memory + memory_of(account, len) <= config->notify_memory;
}

/* Enough to be worth telling: not for each message that is taken. */
static bool has_room(const struct tei_inbox *inbox,
		     const struct tei_account *account)
{
	const struct tei_config *config = &inbox->engine->config;

	return account->n <= config->notify_queue / 2 &&
	       account->bytes <= config->notify_queue_bytes / 2 &&
	       inbox->memory <= config->notify_memory / 2;
}

static struct tei_guest *pop_with_room(struct tei_inbox *inbox)
{
	struct tei_guest *guest = NULL;

	tei_mutex_lock(&inbox->mu);
	tei_list_for_each (node, &inbox->wanting) {
		struct tei_account *account =
			tei_list_entry(node, struct tei_account, wanting);

		if (!has_room(inbox, account))
			continue;
		tei_list_del(node);
		guest = account->guest;
		break;
	}
	tei_mutex_unlock(&inbox->mu);
	return guest;
}

static void room_came(struct tei_call *call)
{
	struct tei_inbox *inbox = TEI_CONTAINER(call, struct tei_inbox, room);
	struct tei_guest *guest;

	tei_mutex_lock(&inbox->mu);
	inbox->posted = false;
	tei_mutex_unlock(&inbox->mu);
	while ((guest = pop_with_room(inbox)))
		tei_notify_room(inbox->engine, guest);
}

/* ---- messages ---- */

static struct message *message_make(struct tei_account *account,
				    const void *bytes, size_t len)
{
	size_t name_len = strlen(account->name) + 1;
	struct message *m = tei_malloc(sizeof(*m) + name_len + len);

	if (!m)
		return NULL;
	tei_list_init(&m->link);
	m->account = account;
	memcpy(m->incarnation, account->incarnation, TE_INCARNATION_LEN);
	m->length = (uint32_t)len;
	memcpy(m->data, account->name, name_len);
	memcpy(m->data + name_len, bytes, len);
	return m;
}

static void ring(const struct tei_inbox *inbox)
{
	uint64_t one = 1;
	ssize_t n;

	if (inbox->event < 0)
		return;
	n = write(inbox->event, &one, sizeof(one));
	(void)n; /* full: it is readable */
}

int tei_inbox_put(struct tei_inbox *inbox, struct tei_account *account,
		  const void *bytes, size_t len)
{
	struct message *m = message_make(account, bytes, len);
	bool taken;

	if (!m)
		return -ENOMEM;
	tei_mutex_lock(&inbox->mu);
	taken = fits(inbox, account, len);
	if (taken) {
		account->refs++;
		account->n++;
		account->bytes += len;
		inbox->memory += memory_of(account, len);
		tei_list_add_tail(&inbox->messages, &m->link);
		ring(inbox);
	} else if (tei_list_empty(&account->wanting)) {
		tei_list_add_tail(&inbox->wanting, &account->wanting);
	}
	tei_mutex_unlock(&inbox->mu);
	if (!taken)
		tei_free(m);
	return taken ? 0 : -EAGAIN;
}

/* True: control is to be told of the room. */
static bool settle_account(struct tei_inbox *inbox, const struct message *m)
	TEI_REQUIRES(inbox->mu)
{
	struct tei_account *account = m->account;
	bool tell;

	account->n--;
	account->bytes -= m->length;
	inbox->memory -= memory_of(account, m->length);
	tell = !inbox->posted && !tei_list_empty(&inbox->wanting) &&
	       has_room(inbox, account);
	if (tell)
		inbox->posted = true;
	put_ref(account);
	return tell;
}

/* The event stays readable as long as there is something to take. */
static void calm_event(struct tei_inbox *inbox) TEI_REQUIRES(inbox->mu)
{
	uint64_t count;
	ssize_t n;

	if (inbox->event < 0 || !tei_list_empty(&inbox->messages))
		return;
	n = read(inbox->event, &count, sizeof(count));
	(void)n;
}

int te_notify_take(struct te_engine *engine, struct te_notify *out)
{
	struct tei_inbox *inbox = &engine->inbox;
	struct message *m = NULL;
	struct tei_list *node;
	bool tell = false;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!out)
		return -EINVAL;
	tei_mutex_lock(&inbox->mu);
	node = tei_list_pop(&inbox->messages);
	if (node) {
		m = tei_list_entry(node, struct message, link);
		tell = settle_account(inbox, m);
		calm_event(inbox);
	}
	tei_mutex_unlock(&inbox->mu);
	if (!m)
		return -EAGAIN;
	if (tell)
		tei_loop_post(engine->loop, &inbox->room);
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
	struct tei_inbox *inbox = &engine->inbox;
	int event;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	tei_mutex_lock(&inbox->mu);
	if (inbox->event < 0 && !tei_fault_check(TEI_FAULT_SOCKET)) {
		inbox->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (!tei_list_empty(&inbox->messages))
			ring(inbox);
	}
	event = inbox->event;
	tei_mutex_unlock(&inbox->mu);
	return event < 0 ? -EMFILE : event;
}

void tei_inbox_fini(struct tei_inbox *inbox)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&inbox->messages))) {
		struct message *m = tei_list_entry(node, struct message, link);

		put_ref(m->account);
		tei_free(m);
	}
	if (inbox->event >= 0)
		close(inbox->event);
	tei_mutex_fini(&inbox->mu);
}
