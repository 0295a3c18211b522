/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.c - what this machine gives without us, measured in the same run
 */
#include "perf/lib/reference.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "perf/lib/copy.h"
#include "perf/lib/stream.h"

#define PINGPONG_S 0.1
#define COPY_S     0.15
#define COPY_LEN   (1u << 20) /* bytes of one copy, as of one request */
#define READY_MS   60000      /* the peer touches its working set first */
#define STOP_MS    5000

/* ---- helpers of the benchmarks ---- */

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double tei_median(double *v, size_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), compare_doubles);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void *tei_map_touched(uint64_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, len, MADV_HUGEPAGE);
	/* Not with zeros: the kernel may back those by one shared page. */
	memset(p, 1, len);
	return p;
}

/* ---- the measuring side ---- */

static int start_peer(struct tei_reference_run *r, bool pin)
{
	char exe[PATH_MAX], role[] = "--role=reference", pinned[] = "--pin";
	char set[48], line[TEI_PROCESS_LINE];
	char *argv[] = {exe, role, set, pin ? pinned : NULL, NULL};
	int rc = tei_process_path(NULL, exe);

	if (rc)
		return rc;
	snprintf(set, sizeof(set), "--working-set=%" PRIu64, r->len);
	rc = tei_process_start_helper(&r->peer, "reference peer", argv, -1);
	if (rc)
		return rc;
	rc = tei_process_hear(&r->peer, line, READY_MS);
	if (!rc && sscanf(line, "port %" SCNu16, &r->port) != 1)
		rc = -EPROTO;
	if (rc)
		tei_process_stop(&r->peer, STOP_MS);
	return rc;
}

int tei_reference_open(struct tei_reference_run *r, uint64_t working_set,
		       double seconds, bool pin)
{
	int rc;

	memset(r, 0, sizeof(*r));
	r->len = working_set;
	r->seconds = seconds;
	rc = start_peer(r, pin);
	if (rc)
		goto say;
	r->from = tei_map_touched(r->len);
	r->to = tei_map_touched(r->len);
	if (r->from && r->to)
		return 0;
	rc = -ENOMEM;
	tei_reference_close(r);
say:
	fprintf(stderr, "reference: cannot start: %s\n", strerror(-rc));
	return rc;
}

static void plain_copy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

static double copy_rate(const struct tei_reference_run *r,
			void (*copy)(void *, const void *, size_t))
{
	uint64_t start = tei_now_ns(), now = start, at = 0, copied = 0;

	while (now - start < (uint64_t)(COPY_S * 1e9)) {
		copy(r->to + at, r->from + at, COPY_LEN);
		/* Keep the compiler from dropping copies nobody reads. */
		__asm__ volatile("" ::: "memory");
		copied += COPY_LEN;
		at += COPY_LEN;
		if (at + COPY_LEN > r->len)
			at = 0;
		now = tei_now_ns();
	}
	return (double)copied / (double)(now - start);
}

int tei_reference_round(struct tei_reference_run *r)
{
	struct tei_reference ref = {0};
	int rc;

	rc = tei_stream_send(r->port, r->from, r->len, r->seconds,
			     &ref.stream_gb_per_s);
	if (!rc)
		rc = tei_stream_pingpong(r->port, PINGPONG_S, &ref.pingpong_us);
	if (rc) {
		fprintf(stderr, "reference: %s\n", strerror(-rc));
		return rc;
	}
	ref.copy_gb_per_s = copy_rate(r, plain_copy);
	ref.stream_copy_gb_per_s = copy_rate(r, tei_copy_streaming);
	if (r->n_rounds < TEI_REFERENCE_ROUNDS)
		r->round[r->n_rounds++] = ref;
	return 0;
}

static double median_at(const struct tei_reference_run *r, size_t offset)
{
	double v[TEI_REFERENCE_ROUNDS];

	for (size_t i = 0; i < r->n_rounds; i++)
		memcpy(&v[i], (const char *)&r->round[i] + offset, sizeof(*v));
	return tei_median(v, r->n_rounds);
}

struct tei_reference tei_reference_median(const struct tei_reference_run *r)
{
#define MEDIAN(field) median_at(r, offsetof(struct tei_reference, field))
	return (struct tei_reference){
		.stream_gb_per_s = MEDIAN(stream_gb_per_s),
		.pingpong_us = MEDIAN(pingpong_us),
		.copy_gb_per_s = MEDIAN(copy_gb_per_s),
		.stream_copy_gb_per_s = MEDIAN(stream_copy_gb_per_s),
	};
#undef MEDIAN
}

void tei_reference_close(struct tei_reference_run *r)
{
	tei_process_stop(&r->peer, STOP_MS);
	if (r->from)
		munmap(r->from, r->len);
	if (r->to)
		munmap(r->to, r->len);
	r->from = r->to = NULL;
}

json_t *tei_reference_json(const struct tei_reference *ref)
{
	return json_pack("{s:f, s:f, s:f, s:f}", "stream_gb_per_s",
			 ref->stream_gb_per_s, "pingpong_us", ref->pingpong_us,
			 "copy_gb_per_s", ref->copy_gb_per_s,
			 "stream_copy_gb_per_s", ref->stream_copy_gb_per_s);
}

void tei_reference_print(const struct tei_reference *ref, FILE *out)
{
	fprintf(out,
		"\nbare system, same run: TCP stream %.2f GB/s, ping-pong "
		"%.1f us, cold memcpy %.2f GB/s, streaming copy (%s) %.2f "
		"GB/s\n",
		ref->stream_gb_per_s, ref->pingpong_us, ref->copy_gb_per_s,
		tei_copy_streaming_name(), ref->stream_copy_gb_per_s);
}

/* ---- the other side ---- */

/* Until the parent closes our input. */
static int serve(int listener, char *to, uint64_t len)
{
	struct pollfd pfd[] = {{.fd = STDIN_FILENO, .events = POLLIN},
			       {.fd = listener, .events = POLLIN}};
	int fd;

	while (poll(pfd, 2, -1) > 0) {
		if (pfd[0].revents)
			return 0;
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			return 1;
		(void)tei_stream_serve(fd, to, len);
		close(fd);
	}
	return 1;
}

int tei_reference_peer_main(uint64_t working_set, bool pin)
{
	char *to = tei_map_touched(working_set);
	uint16_t port;
	int listener, code;

	if (pin)
		tei_process_pin(1);
	listener = to ? tei_stream_listen(&port) : -ENOMEM;
	if (listener < 0) {
		fprintf(stderr, "reference peer: %s\n", strerror(-listener));
		return 1;
	}
	printf("port %u\n", port);
	fflush(stdout);
	code = serve(listener, to, working_set);
	close(listener);
	munmap(to, working_set);
	return code;
}
