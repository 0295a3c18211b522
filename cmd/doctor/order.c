/* SPDX-License-Identifier: Apache-2.0 */
/* order.c - orders and answers as JSON */
#include "cmd/doctor/order.h"

#include <jansson.h>
#include <string.h>

/* The object that says of itself that it is this. NULL: it is none. */
static json_t *load(const void *bytes, size_t len, const char *kind)
{
	json_t *all = json_loadb(bytes, len, 0, NULL);
	const char *found =
		json_string_value(json_object_get(all, "te_doctor"));

	if (found && !strcmp(found, kind))
		return all;
	json_decref(all);
	return NULL;
}

static char *dump(json_t *all)
{
	char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;

	json_decref(all);
	return text;
}

static void text_of(const json_t *object, const char *key, char *out,
		    size_t room)
{
	const char *text = json_string_value(json_object_get(object, key));

	(void)snprintf(out, room, "%s", text ? text : "");
	for (; *out; out++)
		if (*out < ' ' || *out > '~') /* or half of a character */
			*out = '?';
}

/* Negative and missing ones are 0. */
static uint64_t number_of(const json_t *object, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(object, key));

	return n > 0 ? (uint64_t)n : 0;
}

/* ---- orders ---- */

char *tei_order_encode(const struct tei_order *order)
{
	return dump(json_pack("{s:s, s:I, s:s, s:s, s:I}", "te_doctor",
			      "measure", "id", (json_int_t)order->id, "to",
			      order->to, "backends", order->backends, "time_ms",
			      (json_int_t)order->time_ms));
}

bool tei_order_decode(const void *bytes, size_t len, struct tei_order *out)
{
	json_t *all = load(bytes, len, "measure");

	if (!all)
		return false;
	*out = (struct tei_order){.id = number_of(all, "id"),
				  .time_ms = number_of(all, "time_ms")};
	text_of(all, "to", out->to, sizeof(out->to));
	text_of(all, "backends", out->backends, sizeof(out->backends));
	json_decref(all);
	return *out->to && out->time_ms && out->time_ms <= TEI_ORDER_TIME_MAX;
}

/* ---- answers ---- */

static json_t *pack_rail(const struct tei_answer_rail *rail)
{
	return json_pack("{s:s, s:s, s:I, s:I}", "name", rail->name, "state",
			 rail->state, "read_bps", (json_int_t)rail->read_bps,
			 "write_bps", (json_int_t)rail->write_bps);
}

char *tei_answer_encode(const struct tei_answer *a)
{
	json_t *rails = json_array();
	size_t i;

	for (i = 0; i < a->n_rails; i++)
		(void)json_array_append_new(rails, pack_rail(&a->rails[i]));
	return dump(json_pack("{s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:o}",
			      "te_doctor", "measured", "id", (json_int_t)a->id,
			      "failure", a->failure, "backend", a->backend,
			      "why", a->why, "rtt_us", (json_int_t)a->rtt_us,
			      "read_bps", (json_int_t)a->read_bps, "write_bps",
			      (json_int_t)a->write_bps, "rails", rails));
}

static void unpack_rail(const json_t *from, struct tei_answer_rail *to)
{
	text_of(from, "name", to->name, sizeof(to->name));
	text_of(from, "state", to->state, sizeof(to->state));
	to->read_bps = number_of(from, "read_bps");
	to->write_bps = number_of(from, "write_bps");
}

bool tei_answer_decode(const void *bytes, size_t len, struct tei_answer *out)
{
	json_t *all = load(bytes, len, "measured"), *rails, *one;
	size_t i;

	if (!all)
		return false;
	*out = (struct tei_answer){.id = number_of(all, "id"),
				   .rtt_us = number_of(all, "rtt_us"),
				   .read_bps = number_of(all, "read_bps"),
				   .write_bps = number_of(all, "write_bps")};
	text_of(all, "failure", out->failure, sizeof(out->failure));
	text_of(all, "backend", out->backend, sizeof(out->backend));
	text_of(all, "why", out->why, sizeof(out->why));
	rails = json_object_get(all, "rails");
	json_array_foreach(rails, i, one)
	{
		if (i == TEI_ANSWER_RAILS)
			break;
		unpack_rail(one, &out->rails[out->n_rails++]);
	}
	json_decref(all);
	return true;
}

/* ---- from a visit ---- */

static uint64_t rate(const struct tei_run *run)
{
	return run->ns ? (uint64_t)((double)run->bytes * 8e9 / (double)run->ns)
		       : 0;
}

/* Rails have also counted what was moved before the clock ran. */
static uint64_t share(uint64_t bps, uint64_t bytes, uint64_t of_all)
{
	return of_all ? (uint64_t)((double)bps * (double)bytes / (double)of_all)
		      : 0;
}

static void sum_rails(const struct tei_peer_visit *v, const char *backend,
		      uint64_t *read, uint64_t *written)
{
	size_t i;

	*read = *written = 0;
	for (i = 0; i < v->n_rails; i++) {
		if (strcmp(v->rails[i].backend, backend) != 0)
			continue;
		*read += v->rails[i].bytes;
		*written += v->rails[i].written;
	}
}

static void keep_rails(const struct tei_peer_visit *v, struct tei_answer *out)
{
	uint64_t read, written;
	size_t i;

	sum_rails(v, out->backend, &read, &written);
	for (i = 0; i < v->n_rails && out->n_rails < TEI_ANSWER_RAILS; i++) {
		const struct tei_peer_rail *from = &v->rails[i];
		struct tei_answer_rail *to = &out->rails[out->n_rails];

		if (strcmp(from->backend, out->backend) != 0)
			continue;
		(void)snprintf(to->name, sizeof(to->name), "%s", from->name);
		(void)snprintf(to->state, sizeof(to->state), "%s",
			       te_rail_state_name(from->state));
		to->read_bps = share(out->read_bps, from->bytes, read);
		to->write_bps = share(out->write_bps, from->written, written);
		out->n_rails++;
	}
}

void tei_answer_from_visit(const struct tei_peer_visit *v,
			   struct tei_answer *out)
{
	const char *carrier = tei_peer_carrier(v);
	int error = v->error        ? v->error
		    : v->read.error ? v->read.error
				    : v->write.error;

	out->rtt_us = v->rtt_us;
	if (error)
		(void)snprintf(out->failure, sizeof(out->failure), "%s",
			       te_strerror(error));
	else if (!carrier)
		(void)snprintf(out->failure, sizeof(out->failure),
			       "it publishes nothing that may be read");
	if (error || !carrier)
		return;
	(void)snprintf(out->backend, sizeof(out->backend), "%s", carrier);
	tei_peer_why(v, carrier, out->why, sizeof(out->why));
	out->read_bps = rate(&v->read);
	out->write_bps = rate(&v->write);
	keep_rails(v, out);
}
