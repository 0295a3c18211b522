/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advertise.c - what we let a directory say of us
 *
 * A name host:port says itself where it leads. A name of the directory leads to
 * the addresses of our rails, or to the one that we are bound to.
 */
#include "te/control/advertise.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "te/common/engine.h"
#include "te/directory/entry.h"
#include "te/directory/publish.h"
#include "te/worker/worker.h"

static bool is_there(const struct tei_entry *entry, const char *text)
{
	for (uint32_t i = 0; i < entry->n; i++) {
		if (!strcmp(entry->address[i], text))
			return true;
	}
	return false;
}

static void add(struct tei_entry *entry, const struct tei_address *address)
{
	char text[INET6_ADDRSTRLEN];
	uint8_t bytes[16];
	size_t len = tei_address_bytes(address, bytes);

	if (!len || entry->n == TEI_ENTRY_ADDRESSES ||
	    !inet_ntop(len == 4 ? AF_INET : AF_INET6, bytes, text,
		       sizeof(text)) ||
	    is_there(entry, text))
		return;
	memcpy(entry->address[entry->n++], text, sizeof(text));
}

static void add_rails(const struct te_engine *engine, struct tei_entry *out)
{
	struct tei_address loopback;

	for (uint32_t i = 0; i < engine->worker->n_rails; i++) {
		struct tei_device device =
			tei_rail_device(engine->worker->rails[i]);

		add(out, &device.address);
	}
	if (!out->n && !tei_resolve_numeric("127.0.0.1", 0, &loopback))
		add(out, &loopback);
}

void tei_advertise(const struct te_engine *engine, struct tei_entry *out)
{
	const char *bind = engine->config.bind;
	struct tei_address address;

	*out = (struct tei_entry){.port = engine->port};
	tei_entry_life(engine->incarnation, out->life);
	if (!engine->is_bare) {
		memcpy(out->host, engine->host, sizeof(out->host));
		return;
	}
	if (!bind)
		add_rails(engine, out);
	else if (!tei_resolve_numeric(bind, 0, &address))
		add(out, &address);
	(void)snprintf(out->host, sizeof(out->host), "%s",
		       out->n ? out->address[0] : bind);
}

void tei_advertise_again(struct te_engine *engine)
{
	struct tei_publisher *publisher;
	struct tei_entry entry;

	tei_mutex_lock(&engine->mu);
	publisher = engine->publisher;
	tei_mutex_unlock(&engine->mu);
	if (!publisher)
		return;
	tei_advertise(engine, &entry);
	tei_publisher_renew(publisher, &entry);
}
