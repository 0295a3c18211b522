/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold.c - a target's memory, pinned for the time of one call
 *
 * A burst of small frames mostly goes to one region. Pinning what lies between
 * its lowest and its highest byte checks all of them at once: a region is one
 * range, so the whole lies inside it exactly when every part does. Where that
 * is refused each frame is checked alone, and only the bad one is refused.
 */
#include "backends/tcp/tcp.h"

#include <endian.h>
#include <errno.h>

const struct tcp_pin *tei_tcp_find_pin(const struct tcp_rail *rail,
				       const struct tcp_payload *payload,
				       uint32_t access)
{
	for (uint32_t i = 0; i < rail->n_pins; i++) {
		const struct tcp_pin *h = &rail->pins[i];

		if (h->key == payload->key && h->access == access &&
		    payload->address >= h->from &&
		    payload->address + payload->left <= h->to)
			return h;
	}
	return NULL;
}

static bool wraps(const struct tcp_payload *payload)
{
	return payload->address + payload->left < payload->address;
}

/* Widen @h to the payloads that are good at first sight and of its region. */
static void widen(struct tcp_pin *h, const struct tcp_payload *payload,
		  uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t end = payload[i].address + payload[i].left;

		if (payload[i].stream != TCP_STREAM_REGION || payload[i].err ||
		    payload[i].key != h->key || wraps(&payload[i]))
			continue;
		if (payload[i].address < h->from)
			h->from = payload[i].address;
		if (end > h->to)
			h->to = end;
	}
}

static int pin(const struct tcp_lane *lane, struct tcp_pin *h)
{
	uint64_t key = htole64(h->key);
	void *local;
	int rc;

	rc = tei_region_pin(lane->ep->base, &key, sizeof(key), h->from,
			    h->to - h->from, h->access, &local, &h->id);
	h->local = local;
	return rc;
}

/* As wide as the burst wants it, or else for payload[0] alone. */
static int pin_best(const struct tcp_lane *lane,
		    const struct tcp_payload *payload, uint32_t n,
		    struct tcp_pin *h)
{
	struct tcp_pin alone = *h;

	widen(h, payload + 1, n - 1);
	if (h->from != alone.from || h->to != alone.to) {
		if (!pin(lane, h))
			return 0;
		*h = alone;
	}
	return pin(lane, h);
}

int tei_tcp_pin(struct tcp_lane *lane, const struct tcp_payload *payload,
		uint32_t n, uint32_t access, void **local)
{
	struct tcp_rail *rail = lane->rail;
	const struct tcp_pin *found = tei_tcp_find_pin(rail, payload, access);
	struct tcp_pin h = {.key = payload->key,
			    .from = payload->address,
			    .to = payload->address + payload->left,
			    .access = access};
	int rc;

	if (!found) {
		if (wraps(payload))
			return -EFAULT;
		if (rail->n_pins == TCP_PINS_MAX)
			return -EAGAIN;
		rc = pin_best(lane, payload, n, &h);
		if (rc < 0)
			return rc;
		rail->pins[rail->n_pins++] = h;
		found = &h;
	}
	*local = found->local + (payload->address - found->from);
	return 0;
}

void tei_tcp_pins_release(struct tcp_lane *lane)
{
	struct tcp_rail *rail = lane->rail;

	while (rail->n_pins)
		tei_region_unpin(lane->ep->base, rail->pins[--rail->n_pins].id);
}
