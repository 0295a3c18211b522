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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/peer.h"
#include "perf/lib/bare.h"
#include "perf/lib/copy.h"

#define PINGPONG_S 0.1
#define COPY_S     0.15
#define COPY_LEN   (1u << 20) /* bytes of one copy, as of one request */
#define READY_MS   60000      /* the peer touches its working set first */
#define STOP_MS    30000

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

/* Maps a huge page more and gives back what is before and after. */
static char *map_at_huge_page(size_t len)
{
	char *at = mmap(NULL, len + TEI_HUGE_LEN, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t head, page = (size_t)sysconf(_SC_PAGESIZE);

	if (at == MAP_FAILED)
		return NULL;
	head = -(uintptr_t)at & (TEI_HUGE_LEN - 1);
	if (head)
		munmap(at, head);
	len = (len + page - 1) & ~(page - 1);
	if (head < TEI_HUGE_LEN)
		munmap(at + head + len, TEI_HUGE_LEN - head);
	return at + head;
}

/* @fd: -1, or a file of that length, which begins at a huge page then. */
static void *map_touched(uint64_t len, int fd)
{
	char *p = map_at_huge_page(len);

	if (!p)
		return NULL;
	if (fd >= 0 && mmap(p, len, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		munmap(p, len);
		return NULL;
	}
	(void)madvise(p, len, MADV_HUGEPAGE);
	/* Not with zeros: the kernel may back those by one shared page. */
	memset(p, 1, len);
	return p;
}

void *tei_map_touched(uint64_t len)
{
	return map_touched(len, -1);
}

/* Maps memory of the kind that te_memory_alloc() gives. NULL: there is none. */
static void *map_shared(uint64_t len)
{
	int fd = memfd_create("te-perf", MFD_CLOEXEC);
	void *p = NULL;

	if (fd < 0)
		return NULL;
	if (!ftruncate(fd, (off_t)len))
		p = map_touched(len, fd);
	close(fd);
	return p;
}

/* ---- the peer's process ---- */

static int read_line(const char *line, struct tei_bare_peer *peer)
{
	unsigned int port;
	int pid, n;

	if (sscanf(line, "port %u pid %d at %" SCNx64, &port, &pid,
		   &peer->remote) != 3)
		return -EPROTO;
	peer->pid = pid;
	n = tei_resolve("127.0.0.1", (uint16_t)port, peer->at, 1);
	peer->n_at = 1;
	return n < 0 ? n : 0;
}

int tei_reference_peer_start(struct tei_process *process,
			     struct tei_bare_peer *peer, uint64_t len, bool pin,
			     bool insecure)
{
	char exe[PATH_MAX], role[] = "--role=reference", pinned[] = "--pin";
	char opened[] = "--insecure", set[48], line[TEI_PROCESS_LINE];
	char *argv[6] = {exe, role, set};
	int n = 3, rc = tei_process_path(NULL, exe);

	if (pin)
		argv[n++] = pinned;
	if (insecure)
		argv[n++] = opened;

	if (rc)
		return rc;
	snprintf(set, sizeof(set), "--working-set=%" PRIu64, len);
	rc = tei_process_start_helper(process, "reference peer", argv, -1);
	if (rc)
		return rc;
	rc = tei_process_hear(process, line, READY_MS);
	if (!rc)
		rc = read_line(line, peer);
	if (rc)
		tei_process_stop(process, STOP_MS);
	return rc;
}

/* ---- the measuring side ---- */

int tei_reference_memory(struct tei_bare_peer *peer, uint64_t len, bool shared)
{
	peer->len = len;
	peer->from = shared ? map_shared(len) : tei_map_touched(len);
	peer->to = shared ? map_shared(len) : tei_map_touched(len);
	if (peer->from && peer->to)
		return 0;
	tei_reference_memory_free(peer);
	return -ENOMEM;
}

void tei_reference_memory_free(struct tei_bare_peer *peer)
{
	if (peer->from)
		munmap(peer->from, peer->len);
	if (peer->to)
		munmap(peer->to, peer->len);
	peer->from = peer->to = NULL;
}

int tei_reference_open(struct tei_reference_run *r, uint64_t working_set,
		       double seconds, bool pin)
{
	int rc;

	memset(r, 0, sizeof(*r));
	r->process = TEI_PROCESS_NONE;
	r->seconds = seconds;
	memcpy(r->peer.congestion, TEI_REFERENCE_CONGESTION,
	       sizeof(TEI_REFERENCE_CONGESTION));
	rc = tei_reference_memory(&r->peer, working_set, false);
	if (!rc)
		rc = tei_reference_peer_start(&r->process, &r->peer,
					      working_set, pin, false);
	if (!rc)
		return 0;
	tei_reference_memory_free(&r->peer);
	fprintf(stderr, "reference: cannot start: %s\n", strerror(-rc));
	return rc;
}

static int measure_shape(struct tei_reference_run *r, struct tei_reference *ref)
{
	struct tei_bare_shape s = {
		.size = COPY_LEN, .batch = 1, .seconds = r->seconds};
	struct tei_bare_figure figure;
	int rc = tei_bare_best(tei_stream_run, &r->peer, &s, &figure);

	ref->stream_gb_per_s = figure.gb_per_s;
	s.seconds = PINGPONG_S;
	s.spin = true;
	if (!rc)
		rc = tei_pingpong_run(&r->peer, &s, &figure);
	ref->pingpong_us = figure.p50_us;
	s.seconds = COPY_S;
	if (s.size > r->peer.len)
		s.size = r->peer.len;
	r->kernel = tei_copy_best(&r->peer, &s);
	if (!rc)
		rc = tei_copy_rate(&r->peer, &s, TEI_MOVER_MEMCPY, NULL, 1,
				   &ref->copy_gb_per_s);
	if (!rc)
		rc = tei_copy_rate(&r->peer, &s, TEI_MOVER_KERNEL, r->kernel, 1,
				   &ref->best_copy_gb_per_s);
	return rc;
}

int tei_reference_round(struct tei_reference_run *r)
{
	struct tei_reference ref = {0};
	int rc = measure_shape(r, &ref);

	if (rc) {
		fprintf(stderr, "reference: %s\n", strerror(-rc));
		return rc;
	}
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
		.best_copy_gb_per_s = MEDIAN(best_copy_gb_per_s),
		.kernel = r->kernel ? r->kernel->name : "",
	};
#undef MEDIAN
}

void tei_reference_close(struct tei_reference_run *r)
{
	tei_process_stop(&r->process, STOP_MS);
	tei_reference_memory_free(&r->peer);
}

json_t *tei_reference_json(const struct tei_reference *ref)
{
	return json_pack("{s:f, s:f, s:f, s:f, s:s}", "stream_gb_per_s",
			 ref->stream_gb_per_s, "pingpong_us", ref->pingpong_us,
			 "copy_gb_per_s", ref->copy_gb_per_s,
			 "best_copy_gb_per_s", ref->best_copy_gb_per_s,
			 "copy_kernel", ref->kernel);
}

void tei_reference_print(const struct tei_reference *ref, FILE *out)
{
	fprintf(out,
		"\nbare system, same run: TCP stream %.2f GB/s, ping-pong "
		"%.1f us, cold memcpy %.2f GB/s, best copy (%s) %.2f "
		"GB/s\n",
		ref->stream_gb_per_s, ref->pingpong_us, ref->copy_gb_per_s,
		ref->kernel, ref->best_copy_gb_per_s);
}

/* ---- the other side ---- */

static void serve_one(int listener, const struct tei_peer_rule *rule,
		      char *memory, uint64_t len)
{
	struct tei_address from = {.len = sizeof(from.ss)};
	char why[TEI_PEER_TEXT_MAX];
	enum tei_peer_verdict verdict;
	int fd = accept4(listener, (struct sockaddr *)&from.ss, &from.len,
			 SOCK_CLOEXEC);

	if (fd < 0)
		return;
	verdict = tei_peer_admit(rule, fd, &from, "reference port", why);
	if (verdict == TEI_PEER_MEMBER || verdict == TEI_PEER_GUEST)
		(void)tei_bare_serve(fd, memory, len);
	close(fd);
}

/* Serves until the parent closes our input. */
static int serve_peer(int listener, const struct tei_peer_rule *rule,
		      char *memory, uint64_t len)
{
	struct pollfd pfd[] = {{.fd = STDIN_FILENO, .events = POLLIN},
			       {.fd = listener, .events = POLLIN}};

	while (poll(pfd, 2, -1) > 0) {
		if (pfd[0].revents)
			return 0;
		serve_one(listener, rule, memory, len);
	}
	return 1;
}

int tei_reference_peer_main(uint64_t working_set, bool pin, bool insecure)
{
	char *memory = tei_map_touched(working_set);
	struct tei_peer_rule rule;
	uint16_t port = 0;
	int listener, code;

	if (pin)
		tei_process_pin(1);
	/* Let the measuring side try process_vm_readv() on us. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	listener = tei_peer_rule_init(&rule, insecure,
				      getenv("MOONCAKE_ALLOW_UIDS"));
	if (!listener)
		listener = memory ? tei_bare_listen(&port) : -ENOMEM;
	if (listener < 0) {
		fprintf(stderr, "reference peer: %s\n", strerror(-listener));
		return 1;
	}
	printf("port %u pid %d at %" PRIxPTR "\n", port, (int)getpid(),
	       (uintptr_t)memory);
	fflush(stdout);
	code = serve_peer(listener, &rule, memory, working_set);
	close(listener);
	munmap(memory, working_set);
	return code;
}
