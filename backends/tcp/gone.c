/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gone.c - memory that the kernel finds missing in the middle of a transfer
 *
 * Nobody may unmap memory of a region or of a request in flight, but who does
 * costs himself that request and nobody a signal: all payload is copied by the
 * kernel, which says EFAULT. It does not say of what, so whose memory it was
 * is looked for here.
 */
#include "backends/tcp/tcp.h"

#include <errno.h>

#include "base/mapped.h"
#include <te/te.h>

void tei_tcp_gone_in(struct tcp_lane *lane)
{
	struct tcp_payload *payload = &lane->in->payload[lane->in->at];
	const struct tcp_pin *pin;

	if (payload->stream == TCP_STREAM_SLICE) {
		tei_tcp_slice_unmapped(payload->slice);
		return;
	}
	pin = tei_tcp_find_pin(lane->rail, payload, TE_ACCESS_REMOTE_WRITE);
	if (pin)
		tei_region_doubt(lane->ep->base, pin->id);
	tei_tcp_refuse(lane, payload, -EFAULT);
}

static bool is_slice_there(const struct tei_slice *slice)
{
	for (uint32_t i = 0; i < slice->n_iov; i++) {
		const struct iovec *piece = &slice->iov[i];

		if (piece->iov_len && !tei_is_usable((uintptr_t)piece->iov_base,
						     piece->iov_len, false))
			return false;
	}
	return true;
}

/* Of payloads[n]; those of the same slice are all over with the first one. */
static uint32_t give_up_slices(struct tcp_lane *lane,
			       const struct tcp_burst *burst)
{
	uint32_t found = 0;

	for (uint32_t i = burst->at; i < burst->n; i++) {
		const struct tcp_payload *payload = &burst->payload[i];

		if (payload->stream != TCP_STREAM_SLICE ||
		    tcp_slice(payload->slice)->lane != lane ||
		    is_slice_there(payload->slice) ||
		    !tei_tcp_is_quiet(payload->slice))
			continue;
		tei_tcp_slice_unmapped(payload->slice);
		found++;
	}
	return found;
}

static uint32_t doubt_regions(struct tcp_lane *lane,
			      const struct tcp_burst *burst)
{
	uint32_t found = 0;

	for (uint32_t i = burst->at; i < burst->n; i++) {
		const struct tcp_payload *payload = &burst->payload[i];
		const struct tcp_pin *pin;

		if (payload->stream != TCP_STREAM_REGION ||
		    tei_is_usable(payload->address, payload->left, false))
			continue;
		pin = tei_tcp_find_pin(lane->rail, payload,
				       TE_ACCESS_REMOTE_READ);
		if (!pin)
			continue;
		tei_region_doubt(lane->ep->base, pin->id);
		found++;
	}
	return found;
}

int tei_tcp_gone_out(struct tcp_lane *lane)
{
	const struct tcp_burst *planned = &lane->rail->plan->burst;
	const struct tcp_burst *out = lane->out;
	uint32_t found;

	/* Data of a READ that was announced cannot be taken back. */
	if (out && doubt_regions(lane, out))
		return -EFAULT;
	found = doubt_regions(lane, planned);
	if (out)
		found += give_up_slices(lane, out);
	found += give_up_slices(lane, planned);
	return found ? 0 : -EFAULT;
}
