/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - the two ways to copy memory that transfers are measured against
 *
 * Streaming stores do not read the target's cache lines before they overwrite
 * them, so a cold copy moves two thirds of the bytes that memcpy() moves.
 */
#include "perf/lib/copy.h"

#include <errno.h>
#include <immintrin.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

#if defined(__x86_64__)

__attribute__((target("avx512f"))) static void
copy_avx512(char *to, const char *from, size_t len)
{
	for (size_t i = 0; i < len; i += 256) {
		__m512i a = _mm512_loadu_si512(from + i);
		__m512i b = _mm512_loadu_si512(from + i + 64);
		__m512i c = _mm512_loadu_si512(from + i + 128);
		__m512i d = _mm512_loadu_si512(from + i + 192);

		_mm512_stream_si512((void *)(to + i), a);
		_mm512_stream_si512((void *)(to + i + 64), b);
		_mm512_stream_si512((void *)(to + i + 128), c);
		_mm512_stream_si512((void *)(to + i + 192), d);
	}
}

__attribute__((target("avx2"))) static void
copy_avx2(char *to, const char *from, size_t len)
{
	for (size_t i = 0; i < len; i += 64) {
		__m256i a = _mm256_loadu_si256((const void *)(from + i));
		__m256i b = _mm256_loadu_si256((const void *)(from + i + 32));

		_mm256_stream_si256((void *)(to + i), a);
		_mm256_stream_si256((void *)(to + i + 32), b);
	}
}

static void copy_sse2(char *to, const char *from, size_t len)
{
	for (size_t i = 0; i < len; i += 32) {
		__m128i a = _mm_loadu_si128((const void *)(from + i));
		__m128i b = _mm_loadu_si128((const void *)(from + i + 16));

		_mm_stream_si128((void *)(to + i), a);
		_mm_stream_si128((void *)(to + i + 16), b);
	}
}

void tei_copy_streaming(void *to, const void *from, size_t len)
{
	size_t whole = len & ~(size_t)255;

	if (__builtin_cpu_supports("avx512f"))
		copy_avx512(to, from, whole);
	else if (__builtin_cpu_supports("avx2"))
		copy_avx2(to, from, whole);
	else
		copy_sse2(to, from, whole);
	_mm_sfence();
	memcpy((char *)to + whole, (const char *)from + whole, len - whole);
}

const char *tei_copy_streaming_name(void)
{
	if (__builtin_cpu_supports("avx512f"))
		return "avx512";
	return __builtin_cpu_supports("avx2") ? "avx2" : "sse2";
}
#else
void tei_copy_streaming(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

const char *tei_copy_streaming_name(void)
{
	return "memcpy";
}
#endif

#define LOOK_LEN (256u << 10) /* bytes copied between two looks at the clock */
#define LOOK_MAX 64           /* copies in between */
#define ALIGN    64           /* of streaming stores */

struct copier {
	const struct tei_bare_peer *peer;
	const struct tei_bare_shape *shape;
	enum tei_mover mover;
	pthread_t thread;
	uint64_t base, span, at, step; /* its part of the memory */
	uint64_t copied, elapsed_ns;
	int error;
	struct iovec ours[TEI_BARE_BATCH], theirs[TEI_BARE_BATCH];
};

static uint64_t next_offset(struct copier *c)
{
	uint64_t offset = c->base + c->at;

	c->at += c->step;
	if (c->at + c->step > c->span)
		c->at = 0;
	return offset;
}

static void copy_block(struct copier *c)
{
	uint64_t offset = next_offset(c);
	char *to = c->peer->to + offset, *from = c->peer->from + offset;

	if (c->mover == TEI_MOVER_STREAMING)
		tei_copy_streaming(to, from, c->shape->size);
	else
		memcpy(to, from, c->shape->size);
	/* Keep the compiler from dropping copies nobody reads. */
	__asm__ volatile("" ::: "memory");
	c->copied += c->shape->size;
}

/*
 * Moves a batch; some of a large one is moved short, which does not matter
 * here.
 */
static int move_batch(struct copier *c)
{
	bool read = c->mover == TEI_MOVER_VM_READ;
	char *local = read ? c->peer->to : c->peer->from;
	uint32_t n = c->shape->batch;
	uint64_t offset, size = c->shape->size;
	ssize_t moved;

	for (uint32_t i = 0; i < n; i++) {
		offset = next_offset(c);
		c->ours[i] = (struct iovec){local + offset, size};
		/* An address of the peer, never followed here. */
		memset(&c->theirs[i], 0, sizeof(c->theirs[i]));
		offset += c->peer->remote;
		memcpy(&c->theirs[i].iov_base, &offset, sizeof(offset));
		c->theirs[i].iov_len = size;
	}
	moved = read ? process_vm_readv(c->peer->pid, c->ours, n, c->theirs, n,
					0)
		     : process_vm_writev(c->peer->pid, c->ours, n, c->theirs, n,
					 0);
	if (moved <= 0)
		return moved ? -errno : -EIO;
	c->copied += (uint64_t)moved;
	return 0;
}

static int some(struct copier *c)
{
	uint64_t end = c->copied + LOOK_LEN;

	if (c->mover == TEI_MOVER_VM_READ || c->mover == TEI_MOVER_VM_WRITE)
		return move_batch(c);
	for (unsigned int i = 0; i < LOOK_MAX && c->copied < end; i++)
		copy_block(c);
	return 0;
}

static void *copy_thread(void *arg)
{
	struct copier *c = arg;
	uint64_t start = tei_now_ns(), now;
	uint64_t end = start + (uint64_t)(c->shape->seconds * 1e9);

	do {
		c->error = some(c);
		now = tei_now_ns();
	} while (!c->error && now < end);
	c->elapsed_ns = now - start;
	return NULL;
}

static void init(struct copier *c, uint32_t index, uint32_t n)
{
	uint64_t span = c->peer->len / n;

	c->step = (c->shape->size + ALIGN - 1) / ALIGN * ALIGN;
	span = span / c->step * c->step;
	c->base = span * index;
	c->span = span;
	if (c->shape->span && c->shape->span < span)
		c->span = c->shape->span < c->step ? c->step : c->shape->span;
}

static int join_all(struct copier *c, uint32_t n, double *out)
{
	int rc = 0;

	for (uint32_t i = 0; i < n; i++) {
		pthread_join(c[i].thread, NULL);
		if (!rc)
			rc = c[i].error;
		if (c[i].elapsed_ns)
			*out += (double)c[i].copied / (double)c[i].elapsed_ns;
	}
	return rc;
}

int tei_copy_rate(const struct tei_bare_peer *peer,
		  const struct tei_bare_shape *shape, enum tei_mover mover,
		  uint32_t n_threads, double *out)
{
	struct copier *c = tei_calloc(n_threads, sizeof(*c));
	uint32_t started = 0;
	int rc = c ? 0 : -ENOMEM, joined;

	*out = 0;
	while (!rc && started < n_threads) {
		c[started].peer = peer;
		c[started].shape = shape;
		c[started].mover = mover;
		init(&c[started], started, n_threads);
		if (c[started].span < c[started].step)
			rc = -EINVAL;
		else
			rc = tei_thread_start(&c[started].thread, "copier",
					      copy_thread, &c[started]);
		started += !rc;
	}
	joined = c ? join_all(c, started, out) : 0;
	tei_free(c);
	return rc ? rc : joined;
}
