/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - where payload lies: pieces of a slice, pinned ranges of regions
 *
 * An initiator's slice is walked piece by piece, with its checksum.
 *
 * A target's memory is pinned for the time of one call. A burst of small frames
 * mostly goes to one region. Pinning what lies between its lowest and its
 * highest byte checks all of them at once: a region is one range, so the whole
 * lies inside it exactly when every part does. Where that is refused each frame
 * is checked alone, and only the bad one is refused.
 */
#include "backends/tcp/tcp.h"

#include <endian.h>
#include <errno.h>

/* ---- pieces of a slice ---- */

/* The next run of contiguous memory, at most @len bytes of it. */
static struct iovec next_run(const struct tei_slice *slice,
			     struct tcp_cursor *c, uint64_t len)
{
	const struct iovec *piece = &slice->iov[c->piece];
	struct iovec run;

	while (c->offset >= piece->iov_len) {
		c->offset -= piece->iov_len;
		piece = &slice->iov[++c->piece];
	}
	run.iov_base = (uint8_t *)piece->iov_base + c->offset;
	run.iov_len = piece->iov_len - c->offset;
	if (run.iov_len > len)
		run.iov_len = len;
	c->offset += run.iov_len;
	c->at += run.iov_len;
	return run;
}

uint64_t tei_tcp_gather(const struct tei_slice *slice, struct tcp_cursor *c,
			uint64_t len, struct iovec *iov, uint32_t max,
			uint32_t *n_iov)
{
	uint64_t start = c->at;
	uint32_t n = 0;

	while (len > c->at - start && n < max) {
		iov[n] = next_run(slice, c, len - (c->at - start));
		n++;
	}
	*n_iov = n;
	return c->at - start;
}

/* Add the run at @at of the slice to the checksum, where that covers it. */
static void take_crc(struct tei_slice *slice, uint64_t at,
		     const struct iovec *run)
{
	uint64_t from, len = tei_slice_summed(slice, at, run->iov_len, &from);

	if (len)
		slice->crc = tei_crc32c_raw(
			slice->crc, (uint8_t *)run->iov_base + from, len);
}

void tei_tcp_pass(struct tei_slice *slice, uint64_t n)
{
	struct tcp_cursor *c = &tcp_slice(slice)->passed;
	uint64_t end = c->at + n;
	uint64_t at;
	struct iovec run;

	while (c->at < end) {
		at = c->at;
		run = next_run(slice, c, end - at);
		if (slice->crc_len)
			take_crc(slice, at, &run);
	}
}

/* ---- pinned ranges ---- */

const struct tcp_pin *tei_tcp_find_pin(const struct tcp_rail *rail,
				       const struct tcp_payload *payload,
				       uint32_t access)
{
	for (uint32_t i = 0; i < rail->n_pins; i++) {
		const struct tcp_pin *pin = &rail->pins[i];

		if (pin->key == payload->key && pin->access == access &&
		    payload->address >= pin->from &&
		    payload->address + payload->left <= pin->to)
			return pin;
	}
	return NULL;
}

static bool range_wraps(const struct tcp_payload *payload)
{
	return payload->address + payload->left < payload->address;
}

/* Widen @pin to the payloads that are good at first sight and of its region. */
static void widen_pin(struct tcp_pin *pin, const struct tcp_payload *payload,
		      uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t end = payload[i].address + payload[i].left;

		if (payload[i].stream != TCP_STREAM_REGION || payload[i].err ||
		    payload[i].key != pin->key || range_wraps(&payload[i]))
			continue;
		if (payload[i].address < pin->from)
			pin->from = payload[i].address;
		if (end > pin->to)
			pin->to = end;
	}
}

static int pin_range(const struct tcp_lane *lane, struct tcp_pin *pin)
{
	uint64_t key = htole64(pin->key);
	void *local;
	int rc;

	rc = tei_region_pin(lane->ep->base, &key, sizeof(key), pin->from,
			    pin->to - pin->from, pin->access, &local, &pin->id);
	pin->local = local;
	pin->copied = rc == TEI_PIN_COPIED;
	return rc < 0 ? rc : 0;
}

/* Pin as much as the burst is about, or else payload[0] alone. */
static int pin_widest(const struct tcp_lane *lane,
		      const struct tcp_payload *payload, uint32_t n,
		      struct tcp_pin *pin)
{
	struct tcp_pin alone = *pin;

	widen_pin(pin, payload + 1, n - 1);
	if (pin->from != alone.from || pin->to != alone.to) {
		if (!pin_range(lane, pin))
			return 0;
		*pin = alone;
	}
	return pin_range(lane, pin);
}

int tei_tcp_pin(struct tcp_lane *lane, const struct tcp_payload *payload,
		uint32_t n, uint32_t access, void **local)
{
	struct tcp_rail *rail = lane->rail;
	const struct tcp_pin *found = tei_tcp_find_pin(rail, payload, access);
	struct tcp_pin pin = {.key = payload->key,
			      .from = payload->address,
			      .to = payload->address + payload->left,
			      .access = access};
	int rc;

	if (!found) {
		if (range_wraps(payload))
			return -EFAULT;
		if (rail->n_pins == TCP_PINS_MAX)
			return -EAGAIN;
		rc = pin_widest(lane, payload, n, &pin);
		if (rc < 0)
			return rc;
		rail->pins[rail->n_pins++] = pin;
		found = &pin;
	}
	*local = found->local + (payload->address - found->from);
	return found->copied ? TEI_PIN_COPIED : 0;
}

void tei_tcp_pins_release(struct tcp_lane *lane)
{
	struct tcp_rail *rail = lane->rail;

	while (rail->n_pins)
		tei_region_unpin(lane->ep->base, rail->pins[--rail->n_pins].id);
}
