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
	struct tcp_car *car = &lane->in->car[lane->in->at];
	const struct tcp_hold *hold;

	if (car->stream == TCP_STREAM_SLICE) {
		tei_tcp_slice_gone(car->slice);
		return;
	}
	hold = tei_tcp_held(lane->rail, car, TE_ACCESS_REMOTE_WRITE);
	if (hold)
		tei_region_doubt(lane->ep->base, hold->pin);
	tei_tcp_refuse(lane, car, -EFAULT);
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

/* Of cars[n]; those of the same slice are all over with the first one. */
static uint32_t give_up_slices(struct tcp_lane *lane,
			       const struct tcp_train *train)
{
	uint32_t found = 0;

	for (uint32_t i = train->at; i < train->n; i++) {
		const struct tcp_car *car = &train->car[i];

		if (car->stream != TCP_STREAM_SLICE ||
		    tcp_slice(car->slice)->lane != lane ||
		    is_slice_there(car->slice) || !tei_tcp_is_quiet(car->slice))
			continue;
		tei_tcp_slice_gone(car->slice);
		found++;
	}
	return found;
}

static uint32_t doubt_regions(struct tcp_lane *lane,
			      const struct tcp_train *train)
{
	uint32_t found = 0;

	for (uint32_t i = train->at; i < train->n; i++) {
		const struct tcp_car *car = &train->car[i];
		const struct tcp_hold *hold;

		if (car->stream != TCP_STREAM_REGION ||
		    tei_is_usable(car->address, car->left, false))
			continue;
		hold = tei_tcp_held(lane->rail, car, TE_ACCESS_REMOTE_READ);
		if (!hold)
			continue;
		tei_region_doubt(lane->ep->base, hold->pin);
		found++;
	}
	return found;
}

int tei_tcp_gone_out(struct tcp_lane *lane)
{
	const struct tcp_train *planned = &lane->rail->plan->train;
	const struct tcp_train *out = lane->out;
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
