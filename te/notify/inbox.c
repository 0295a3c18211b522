/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.c - notifications that have come and wait to be taken */
#include "te/notify/inbox.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "te/api/engine.h"

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

void tei_inbox_init(struct tei_inbox *inbox, struct te_engine *engine)
{
	inbox->engine = engine;
	inbox->event = -1;
	tei_mutex_init(&inbox->mu);
	tei_list_init(&inbox->messages);
	tei_turns_init(&inbox->turns);
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
		  const char *from, const void *bytes, size_t len)
{
	struct message *m = message_make(account, from, bytes, len);
	bool taken;

	if (!m)
		return -ENOMEM;
	tei_mutex_lock(&inbox->mu);
	taken = tei_account_admit(inbox, account, len, memory_of(m));
	if (taken) {
		tei_list_add_tail(&inbox->messages, &m->link);
		ring(inbox);
	}
	tei_mutex_unlock(&inbox->mu);
	if (!taken)
		tei_free(m);
	return taken ? 0 : -EAGAIN;
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
		tell = tei_account_settle(inbox, m->account, m->length,
					  memory_of(m));
		calm_event(inbox);
	}
	tei_mutex_unlock(&inbox->mu);
	if (!m)
		return -EAGAIN;
	if (tell)
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

		tei_account_put(m->account);
		tei_free(m);
	}
	if (inbox->event >= 0)
		close(inbox->event);
	tei_mutex_fini(&inbox->mu);
}
