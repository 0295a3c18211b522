/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - writes by libfabric's provider tcp without an engine around them
 *
 *   te-ofi-bare BYTES BATCH SECONDS
 *
 * What te-perf --backend=ofi is held against: one connection over lo, BATCH
 * writes of BYTES posted and awaited together, by the calls that the backend
 * makes, with FI_DELIVERY_COMPLETE, over 1 GiB on each side. Both ends look at
 * their queue all the time, as those of fi_rma_bw do. Prints the rate and the
 * median time of a batch.
 */
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include "base/clock.h"

#define SET       (1ull << 30)
#define BATCH_MAX 256
#define TIMES_MAX (1 << 20)

struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	uint8_t *memory;
};

struct target {
	struct sockaddr_in addr;
	uint64_t key;
};

static void check(const char *what, ssize_t rc)
{
	if (rc >= 0)
		return;
	(void)fprintf(stderr, "te-ofi-bare: %s: %s\n", what,
		      fi_strerror((int)-rc));
	exit(1);
}

static struct fi_info *find_lo(void)
{
	struct fi_info *hints = fi_allocinfo(), *list;

	if (!hints)
		exit(1);
	hints->caps =
		FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	hints->ep_attr->type = FI_EP_MSG;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->name = strdup("lo");
	hints->fabric_attr->prov_name = strdup("tcp");
	check("getinfo",
	      fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &list));
	fi_freeinfo(hints);
	return list;
}

static void open_side(struct side *s)
{
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_FD};
	struct fi_cq_attr cq = {.size = 4096,
				.format = FI_CQ_FORMAT_CONTEXT,
				.wait_obj = FI_WAIT_FD};

	s->info = find_lo();
	s->memory = mmap(NULL, SET, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (s->memory == MAP_FAILED)
		exit(1);
	check("fabric", fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	check("domain", fi_domain(s->fabric, s->info, &s->domain, NULL));
	check("eq", fi_eq_open(s->fabric, &eq, &s->eq, NULL));
	check("cq", fi_cq_open(s->domain, &cq, &s->cq, NULL));
	check("mr", fi_mr_reg(s->domain, s->memory, SET,
			      FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &s->mr,
			      NULL));
}

static void open_ep(struct side *s, struct fi_info *info)
{
	check("endpoint", fi_endpoint(s->domain, info, &s->ep, NULL));
	check("bind", fi_ep_bind(s->ep, &s->eq->fid, 0));
	check("bind", fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV));
	check("enable", fi_enable(s->ep));
}

static uint32_t await_event(struct side *s, struct fi_eq_cm_entry *entry)
{
	uint32_t event;
	ssize_t n;

	do
		n = fi_eq_read(s->eq, &event, entry, sizeof(*entry), 0);
	while (n == -FI_EAGAIN);
	check("event", n);
	return event;
}

/* Reads up to @n completions; waits for one. */
static size_t take(struct side *s, struct fi_cq_entry *done, size_t n)
{
	ssize_t rc;

	do
		rc = fi_cq_read(s->cq, done, n);
	while (rc == -FI_EAGAIN);
	check("completion", rc);
	return (size_t)rc;
}

static void be_target(int out)
{
	struct fi_eq_cm_entry entry;
	struct fi_cq_entry done;
	struct fid_pep *pep;
	struct side s = {.fabric = NULL};
	struct target t;
	size_t len = sizeof(t.addr);

	open_side(&s);
	check("passive", fi_passive_ep(s.fabric, s.info, &pep, NULL));
	check("bind", fi_pep_bind(pep, &s.eq->fid, 0));
	check("listen", fi_listen(pep));
	check("name", fi_getname(&pep->fid, &t.addr, &len));
	t.key = fi_mr_key(s.mr);
	if (write(out, &t, sizeof(t)) != sizeof(t))
		exit(1);
	if (await_event(&s, &entry) != FI_CONNREQ)
		exit(1);
	open_ep(&s, entry.info);
	check("accept", fi_accept(s.ep, NULL, 0));
	(void)await_event(&s, &entry);
	for (;;)
		(void)take(&s, &done, 1);
}

static void post(struct side *s, const struct target *t, uint64_t at,
		 size_t len, void *context)
{
	struct iovec iov = {s->memory + at, len};
	struct fi_rma_iov remote = {.addr = at, .len = len, .key = t->key};
	struct fi_msg_rma msg = {.msg_iov = &iov,
				 .iov_count = 1,
				 .rma_iov = &remote,
				 .rma_iov_count = 1,
				 .context = context};
	struct fi_cq_entry done;
	ssize_t rc;

	while ((rc = fi_writemsg(s->ep, &msg,
				 FI_COMPLETION | FI_DELIVERY_COMPLETE)) ==
	       -FI_EAGAIN)
		(void)fi_cq_read(s->cq, &done, 0);
	check("write", rc);
}

static void await(struct side *s, unsigned int n)
{
	struct fi_cq_entry done[64];

	while (n)
		n -= (unsigned int)take(s, done, n < 64 ? n : 64);
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void measure(struct side *s, const struct target *t, size_t len,
		    unsigned int batch, double seconds)
{
	static uint64_t times[TIMES_MAX];
	static struct fi_context contexts[BATCH_MAX];
	uint64_t begun = tei_now_ns(), now = begun, last, at = 0, median;
	size_t n = 0, kept;

	while ((double)(now - begun) < seconds * 1e9) {
		last = now;
		for (unsigned int i = 0; i < batch; i++) {
			post(s, t, at, len, &contexts[i]);
			at = at + 2 * len > SET ? 0 : at + len;
		}
		await(s, batch);
		now = tei_now_ns();
		times[n++ % TIMES_MAX] = now - last;
	}
	seconds = (double)(now - begun) / 1e9;
	kept = n < TIMES_MAX ? n : TIMES_MAX;
	qsort(times, kept, sizeof(times[0]), by_time);
	median = times[kept / 2];
	(void)printf(
		"%zu bytes x %u: %.2f GB/s, %.1f thousand a second, median "
		"of a batch %.1f us\n",
		len, batch, (double)n * batch * (double)len / seconds / 1e9,
		(double)n * batch / seconds / 1e3, (double)median / 1e3);
}

int main(int argc, char **argv)
{
	unsigned int batch = argc == 4 ? (unsigned int)atoi(argv[2]) : 0;
	size_t len = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	struct fi_eq_cm_entry entry;
	struct side s = {.fabric = NULL};
	struct target t;
	int fds[2];
	pid_t child;

	if (!batch || batch > BATCH_MAX || !len || len > SET / 2) {
		(void)fprintf(stderr,
			      "usage: te-ofi-bare BYTES BATCH SECONDS\n");
		return 2;
	}
	if (pipe(fds) || (child = fork()) < 0)
		return 1;
	if (!child) {
		(void)close(fds[0]);
		be_target(fds[1]);
	}
	(void)close(fds[1]);
	if (read(fds[0], &t, sizeof(t)) != sizeof(t))
		return 1;
	open_side(&s);
	open_ep(&s, s.info);
	check("connect", fi_connect(s.ep, &t.addr, NULL, 0));
	if (await_event(&s, &entry) == FI_CONNECTED)
		measure(&s, &t, len, batch, atof(argv[3]));
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	return 0;
}
