/* SPDX-License-Identifier: Apache-2.0 */
/* slice.c - walk the local pieces of a slice and take its checksum */
#include "backends/tcp/slice.h"

#include <string.h>

void tei_tcp_cursor_init(struct tcp_cursor *c, const struct tei_slice *slice)
{
	c->piece = 0;
	c->offset = slice->skip;
	c->at = 0;
}

/* The next run of contiguous memory, at most @want bytes of it. */
static struct iovec next_run(const struct tei_slice *slice,
			     struct tcp_cursor *c, uint64_t want)
{
	const struct iovec *piece = &slice->iov[c->piece];
	struct iovec run;

	while (c->offset >= piece->iov_len) {
		c->offset -= piece->iov_len;
		piece = &slice->iov[++c->piece];
	}
	run.iov_base = (uint8_t *)piece->iov_base + c->offset;
	run.iov_len = piece->iov_len - c->offset;
	if (run.iov_len > want)
		run.iov_len = want;
	c->offset += run.iov_len;
	c->at += run.iov_len;
	return run;
}

uint64_t tei_tcp_gather(const struct tei_slice *slice, struct tcp_cursor *c,
			uint64_t want, struct iovec *iov, uint32_t max,
			uint32_t *n_iov)
{
	uint64_t start = c->at;
	uint32_t n = 0;

	while (want > c->at - start && n < max) {
		iov[n] = next_run(slice, c, want - (c->at - start));
		n++;
	}
	*n_iov = n;
	return c->at - start;
}

void tei_tcp_skip(const struct tei_slice *slice, struct tcp_cursor *c,
		  uint64_t n)
{
	uint64_t end = c->at + n;

	while (c->at < end)
		(void)next_run(slice, c, end - c->at);
}

/* Of @n bytes at @at of the slice take those that the checksum is over. */
static void take_crc(struct tei_slice *slice, uint64_t at,
		     const struct iovec *run)
{
	uint64_t from = slice->crc_from;
	uint64_t end = from + slice->crc_len;
	uint64_t run_end = at + run->iov_len;

	if (from < at)
		from = at;
	if (end > run_end)
		end = run_end;
	if (from >= end)
		return;
	slice->crc = tei_crc32c_raw(
		slice->crc, (uint8_t *)run->iov_base + (from - at), end - from);
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

void tei_tcp_copy_out(const struct tei_slice *slice, struct tcp_cursor *c,
		      uint8_t *to, uint64_t n)
{
	struct iovec run;

	for (; n; n -= run.iov_len) {
		run = next_run(slice, c, n);
		memcpy(to, run.iov_base, run.iov_len);
		to += run.iov_len;
	}
}
