/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial.c - whether endpoints without connections keep what the backend needs
 *
 * trial PROVIDER [DOMAIN] tries libfabric's provider by itself, without the
 * backend: one-sided operations of one process to the memory of another one,
 * whose key ends, whose endpoint is closed, which is stopped or killed. Each
 * case has two processes of its own, so that a provider may end either, or
 * never return. One line a case tells what was seen; the exit status is 0 if
 * all is as it has to be, 1 if not, 77 where the provider has no domain.
 *
 * A provider that the backend may drive must
 *   - refuse keys that are wrong or have ended, and what is past their end,
 *   - touch nothing for a peer once the endpoint that it came by is closed,
 *   - return from every call, and leave both processes alive, whatever becomes
 *     of the other one.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define LEN      ((size_t)1 << 20) /* bytes of memory of either side */
#define WINDOW   8                 /* operations in flight */
#define LATE     20                /* operations after an end */
#define GO_ON_MS 3000  /* for which an initiator goes on without its target */
#define WAIT_MS  20000 /* after which an operation says nothing */
#define STUCK_MS 60000 /* after which a case does not return */
#define SKIPPED  77

/* What a target tells its initiator, over a pipe. */
struct greeting {
	uint8_t name[128]; /* of its endpoint; name[len] */
	size_t len;
	uint64_t key, base; /* base: of addresses, 0 where they are offsets */
};

/* Memory that the processes of a case share with the one that looks on. */
struct board {
	char step[64]; /* where the initiator is */
	char seen[200];
	bool good, told;
	bool expendable; /* the initiator has killed or stopped the target */
	int skipped;     /* FI_E*: the provider has no domain */
	pid_t target;
};

struct side {
	struct board *board;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	struct fid_mr *mr;
	uint8_t *memory; /* memory[LEN] */
	int in, out;     /* from and to the other process */
	/* Of an initiator. */
	struct greeting peer;
	fi_addr_t to;
	struct slot {
		struct fi_context2
			context; /* first; the provider's while busy */
		bool busy;
	} slots[WINDOW];
	unsigned int posted, good, bad;
	size_t pieces; /* of local memory, of an operation: 1 or 2 */
};

static const char *provider, *domain;
static sigset_t ended; /* SIGCHLD */
static bool read_only; /* peers may not write to a target of this case */

/* ---- what is told ---- */

__attribute__((format(printf, 3, 4))) static void
tell(struct board *board, bool good, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(board->seen, sizeof(board->seen), format, args);
	va_end(args);
	board->good = good;
	board->told = true;
}

static void set_step(struct side *me, const char *step)
{
	(void)snprintf(me->board->step, sizeof(me->board->step), "%s", step);
}

/* Ends the process where the provider does not even open. */
static void need(struct side *me, int rc, const char *what)
{
	if (rc >= 0)
		return;
	tell(me->board, false, "%s: %s", what, fi_strerror(-rc));
	_exit(0);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- one side ---- */

static struct fi_info *get_domain(struct side *me)
{
	struct fi_info *hints = fi_allocinfo(), *list;
	int rc;

	if (!hints)
		abort();
	hints->caps =
		FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->fabric_attr->prov_name = strdup(provider);
	hints->domain_attr->name = domain ? strdup(domain) : NULL;
	rc = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &list);
	fi_freeinfo(hints);
	if (rc) {
		me->board->skipped = -rc;
		_exit(0);
	}
	return list;
}

static void register_memory(struct side *me)
{
	uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ |
			  (read_only ? 0 : FI_REMOTE_WRITE);

	me->memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (me->memory == MAP_FAILED)
		abort();
	need(me,
	     fi_mr_reg(me->domain, me->memory, LEN, access, 0, 0x5eed, 0,
		       &me->mr, NULL),
	     "register memory");
}

static void open_endpoint(struct side *me)
{
	struct fi_av_attr addresses = {.type = FI_AV_TABLE, .count = 1};

	need(me, fi_endpoint(me->domain, me->info, &me->ep, NULL), "endpoint");
	need(me, fi_av_open(me->domain, &addresses, &me->av, NULL), "vector");
	need(me, fi_ep_bind(me->ep, &me->av->fid, 0), "bind a vector");
	need(me, fi_ep_bind(me->ep, &me->cq->fid, FI_TRANSMIT | FI_RECV),
	     "bind a queue");
	need(me, fi_enable(me->ep), "enable");
}

static void open_side(struct side *me)
{
	struct fi_cq_attr queue = {.size = 1024,
				   .format = FI_CQ_FORMAT_MSG,
				   .wait_obj = FI_WAIT_NONE};

	me->info = get_domain(me);
	need(me, fi_fabric(me->info->fabric_attr, &me->fabric, NULL), "fabric");
	need(me, fi_domain(me->fabric, me->info, &me->domain, NULL), "domain");
	need(me, fi_cq_open(me->domain, &queue, &me->cq, NULL), "queue");
	register_memory(me);
	open_endpoint(me);
}

/* False: it is none that was posted, or has come back already. */
static bool take_back(struct side *me, void *context)
{
	struct slot *slot = context;

	if (slot < me->slots || slot >= me->slots + WINDOW || !slot->busy)
		return false;
	slot->busy = false;
	me->posted--;
	return true;
}

/* Makes progress once, and counts what has come back. */
static void make_progress(struct side *me)
{
	struct fi_cq_msg_entry entries[WINDOW];
	struct fi_cq_err_entry error = {.err = 0};
	ssize_t n = fi_cq_read(me->cq, entries, WINDOW);

	for (ssize_t i = 0; i < n; i++)
		me->good += take_back(me, entries[i].op_context);
	if (n == -FI_EAVAIL && fi_cq_readerr(me->cq, &error, 0) > 0)
		me->bad += take_back(me, error.op_context);
}

static struct slot *find_slot(struct side *me)
{
	for (int i = 0; i < WINDOW; i++) {
		if (!me->slots[i].busy)
			return &me->slots[i];
	}
	return NULL;
}

/* ---- the target ---- */

static void greet(struct side *me)
{
	struct greeting g = {.len = sizeof(g.name), .key = fi_mr_key(me->mr)};

	if (me->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		g.base = (uintptr_t)me->memory;
	need(me, fi_getname(&me->ep->fid, g.name, &g.len), "name");
	if (write(me->out, &g, sizeof(g)) != sizeof(g))
		_exit(0);
}

/* Does what the initiator asks for, and says so. */
static void obey(struct side *me, char command)
{
	char done = 0;

	switch (command) {
	case 'k': /* the key ends */
		done = (char)-fi_close(&me->mr->fid);
		break;
	case 'e': /* the endpoint is closed, then the memory is used again */
		done = (char)-fi_close(&me->ep->fid);
		memset(me->memory, 0x77, LEN);
		me->ep = NULL;
		break;
	case 'c': /* whether it has a byte that is not its own */
		for (size_t i = 0; i < LEN; i++)
			done |= (char)(me->memory[i] != me->memory[0]);
		break;
	default:
		_exit(0);
	}
	if (write(me->out, &done, 1) != 1)
		_exit(0);
}

static void be_target(struct side *me)
{
	struct pollfd pfd = {.fd = me->in, .events = POLLIN};
	char command;

	open_side(me);
	greet(me);
	for (;;) {
		make_progress(me);
		if (poll(&pfd, 1, 0) <= 0)
			continue;
		if (read(me->in, &command, 1) != 1)
			_exit(0);
		obey(me, command);
	}
}

/* ---- the initiator ---- */

static void meet(struct side *me)
{
	struct greeting *g = &me->peer;
	ssize_t rc;

	open_side(me);
	if (read(me->in, g, sizeof(*g)) != sizeof(*g))
		_exit(0);
	set_step(me, "fi_av_insert");
	rc = fi_av_insert(me->av, g->name, 1, &me->to, 0, NULL);
	need(me, rc == 1 ? 0 : -FI_EADDRNOTAVAIL, "insert an address");
}

/* Has the target do something, with progress meanwhile. Its answer; 0: good. */
static int ask(struct side *me, char command)
{
	struct pollfd pfd = {.fd = me->in, .events = POLLIN};
	char done = 0;

	if (write(me->out, &command, 1) != 1)
		return -1;
	while (!poll(&pfd, 1, 0))
		make_progress(me);
	return read(me->in, &done, 1) == 1 ? done : -1;
}

/* Posts one operation; false: there was no room, or an error. */
static bool post(struct side *me, bool read, uint64_t key, uint64_t at,
		 size_t len)
{
	struct slot *slot = find_slot(me);
	size_t first = me->pieces == 2 ? len / 3 : len;
	struct iovec iov[] = {{me->memory, first},
			      {me->memory + first, len - first}};
	void *desc[] = {fi_mr_desc(me->mr), fi_mr_desc(me->mr)};
	struct fi_rma_iov remote = {
		.addr = me->peer.base + at, .len = len, .key = key};
	struct fi_msg_rma msg = {
		.msg_iov = iov,
		.desc = desc,
		.iov_count = me->pieces,
		.addr = me->to,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = slot,
	};
	ssize_t rc;

	if (!slot)
		return false;
	set_step(me, read ? "fi_readmsg" : "fi_writemsg");
	rc = read ? fi_readmsg(me->ep, &msg, FI_COMPLETION)
		  : fi_writemsg(me->ep, &msg,
				FI_COMPLETION | FI_DELIVERY_COMPLETE);
	set_step(me, "fi_cq_read");
	slot->busy = !rc;
	me->posted += !rc;
	return !rc;
}

/* Waits until nothing is posted, not for ever. */
static void await_all(struct side *me)
{
	uint64_t until = now_ms() + WAIT_MS;

	while (me->posted && now_ms() < until)
		make_progress(me);
}

/* Posts one operation as soon as there is room, and waits for it. */
static void do_one(struct side *me, bool read, uint64_t key, uint64_t at,
		   size_t len)
{
	uint64_t until = now_ms() + WAIT_MS;

	while (!post(me, read, key, at, len) && now_ms() < until)
		make_progress(me);
	await_all(me);
}

/* Closes the initiator's endpoint; ms that it took. */
static uint64_t close_endpoint(struct side *me)
{
	uint64_t since = now_ms();

	set_step(me, "fi_close of its endpoint");
	(void)fi_av_remove(me->av, &me->to, 1, 0);
	(void)fi_close(&me->ep->fid);
	set_step(me, "closed");
	return now_ms() - since;
}

/* ---- the cases ---- */

static uint8_t byte_at(size_t at)
{
	return (uint8_t)(at * 7 + (at >> 8) * 13);
}

/* Writes @pieces in one operation, and reads them in one piece. */
static void moves(struct side *me, size_t pieces)
{
	bool right = true;

	for (size_t i = 0; i < LEN; i++)
		me->memory[i] = byte_at(i);
	me->pieces = pieces;
	do_one(me, false, me->peer.key, 0, LEN);
	me->pieces = 1;
	memset(me->memory, 0, LEN);
	do_one(me, true, me->peer.key, 0, LEN);
	for (size_t i = 0; i < LEN && right; i++)
		right = me->memory[i] == byte_at(i);
	tell(me->board, me->good == 2 && right,
	     "%u of 2 succeed, the bytes are %s", me->good,
	     right ? "right" : "wrong");
}

static void moves_bytes(struct side *me)
{
	moves(me, 1);
}

static void moves_two_pieces(struct side *me)
{
	if (me->info->tx_attr->iov_limit < 2)
		tell(me->board, true, "operations have one piece");
	else
		moves(me, 2);
}

static void refuses(struct side *me, uint64_t key, uint64_t at, size_t len)
{
	unsigned int good;

	do_one(me, true, me->peer.key, 0, 64);
	good = me->good;
	me->good = 0;
	for (int i = 0; i < 2 && !me->posted; i++)
		do_one(me, i, key, at, len);
	tell(me->board, good == 1 && me->bad == 2 && !me->posted,
	     "a write and a read: %u succeed, %u are refused, %u say nothing",
	     me->good, me->bad, me->posted);
	if (me->board->good && ask(me, 'c'))
		tell(me->board, false, "refused, and memory is written");
}

static void refuses_wrong_keys(struct side *me)
{
	refuses(me, me->peer.key + 0x77777, 0, 4096);
}

static void refuses_past_the_end(struct side *me)
{
	refuses(me, me->peer.key, LEN - 64, 4096);
}

static void refuses_without_the_right(struct side *me)
{
	do_one(me, true, me->peer.key, 0, 4096);
	memset(me->memory, 0x33, LEN);
	do_one(me, false, me->peer.key, 0, 4096);
	tell(me->board, me->good == 1 && me->bad == 1 && !ask(me, 'c'),
	     "a read and a write, which is not allowed: %u succeed, %u are "
	     "refused, %u say nothing",
	     me->good, me->bad, me->posted);
}

/* A short and a long one of each, as providers carry them differently. */
static void refuses_ended_keys(struct side *me)
{
	unsigned int good;

	do_one(me, true, me->peer.key, 0, 64);
	good = me->good;
	me->good = 0;
	if (ask(me, 'k'))
		return;
	memset(me->memory, 0x22, LEN);
	for (int i = 0; i < LATE && !me->posted; i++)
		do_one(me, i & 1, me->peer.key, 0, i & 2 ? LEN : 64);
	tell(me->board, good == 1 && me->bad == LATE && !ask(me, 'c'),
	     "%u operations: %u succeed, %u are refused, %u say nothing", LATE,
	     me->good, me->bad, me->posted);
}

/* Writes without a pause while the target closes its endpoint. */
static void leaves_memory_when_closed(struct side *me)
{
	struct pollfd pfd = {.fd = me->in, .events = POLLIN};
	uint64_t until, since;
	char done;

	memset(me->memory, 0x22, LEN);
	do_one(me, false, me->peer.key, 0, LEN);
	if (!me->good || write(me->out, "e", 1) != 1)
		return;
	since = now_ms();
	while (!poll(&pfd, 1, 0)) {
		while (post(me, false, me->peer.key, 0, LEN))
			;
		make_progress(me);
	}
	since = now_ms() - since;
	if (read(me->in, &done, 1) != 1)
		return;
	for (until = now_ms() + GO_ON_MS; now_ms() < until;) {
		(void)post(me, false, me->peer.key, 0, LEN);
		make_progress(me);
	}
	tell(me->board, !done && !ask(me, 'c'),
	     "closing took %llu ms; afterwards %s", (unsigned long long)since,
	     ask(me, 'c') ? "memory was written" : "no byte was written");
}

static void end_target(struct side *me, int sig)
{
	me->board->expendable = true;
	(void)kill(me->board->target, sig);
}

/* Operations to a peer that is no more: each call has to return. */
static void goes_on(struct side *me)
{
	uint64_t until = now_ms() + GO_ON_MS, longest = 0;

	while (now_ms() < until) {
		uint64_t since = now_ms();

		(void)post(me, me->posted & 1, me->peer.key, 0, LEN);
		make_progress(me);
		if (now_ms() - since > longest)
			longest = now_ms() - since;
	}
	tell(me->board, !me->good,
	     "%u succeed, %u fail, %u say nothing; the longest call took %llu "
	     "ms, closing %llu ms",
	     me->good, me->bad, me->posted, (unsigned long long)longest,
	     (unsigned long long)close_endpoint(me));
}

static void outlives_a_peer_killed_before(struct side *me)
{
	end_target(me, SIGKILL);
	goes_on(me);
}

/* Ends the target after an operation has gone well. */
static void outlives_after_one(struct side *me, int signal)
{
	do_one(me, false, me->peer.key, 0, LEN);
	me->good = 0;
	end_target(me, signal);
	goes_on(me);
}

static void outlives_a_peer_killed_after(struct side *me)
{
	outlives_after_one(me, SIGKILL);
}

static void outlives_a_peer_stopped_before(struct side *me)
{
	end_target(me, SIGSTOP);
	goes_on(me);
}

static void outlives_a_peer_stopped_after(struct side *me)
{
	outlives_after_one(me, SIGSTOP);
}

/* An address of the right length, of a peer that lies. */
static void refuses_addresses_of_nonsense(struct side *me)
{
	ssize_t rc;

	(void)fi_av_remove(me->av, &me->to, 1, 0);
	memset(me->peer.name, 0x5a, me->peer.len);
	set_step(me, "fi_av_insert");
	rc = fi_av_insert(me->av, me->peer.name, 1, &me->to, 0, NULL);
	if (rc != 1) {
		tell(me->board, true, "refused when it is inserted");
		return;
	}
	goes_on(me);
}

/* A process meets many peers in its life, one after the other. */
static void has_many_endpoints(struct side *me)
{
	const unsigned int many = 200;
	unsigned int n;
	int rc = 0;

	(void)close_endpoint(me);
	(void)fi_close(&me->av->fid);
	for (n = 0; n < many && !rc; n++) {
		set_step(me, "fi_endpoint");
		rc = fi_endpoint(me->domain, me->info, &me->ep, NULL);
		if (rc)
			continue;
		set_step(me, "fi_close");
		rc = fi_close(&me->ep->fid);
	}
	tell(me->board, !rc, "%u of %u opened and closed, one by one: %s",
	     rc ? n - 1 : n, many, rc ? fi_strerror(-rc) : "all");
}

static const struct trial {
	const char *name;
	void (*run)(struct side *me);
	bool read_only;
} trials[] = {
	{.name = "moves bytes", .run = moves_bytes},
	{.name = "moves two pieces", .run = moves_two_pieces},
	{.name = "wrong key", .run = refuses_wrong_keys},
	{.name = "past the end", .run = refuses_past_the_end},
	{.name = "without the right",
	 .run = refuses_without_the_right,
	 .read_only = true},
	{.name = "key that has ended", .run = refuses_ended_keys},
	{.name = "endpoint closed", .run = leaves_memory_when_closed},
	{.name = "killed, not met yet", .run = outlives_a_peer_killed_before},
	{.name = "killed", .run = outlives_a_peer_killed_after},
	{.name = "stopped, not met yet", .run = outlives_a_peer_stopped_before},
	{.name = "stopped", .run = outlives_a_peer_stopped_after},
	{.name = "address of nonsense", .run = refuses_addresses_of_nonsense},
	{.name = "200 endpoints", .run = has_many_endpoints},
};

/* ---- looking on ---- */

static pid_t start(struct board *board, int in, int out, bool target,
		   void (*run)(struct side *me))
{
	struct side me = {.board = board, .in = in, .out = out, .pieces = 1};
	pid_t pid = fork();

	if (pid)
		return pid;
	(void)sigprocmask(SIG_UNBLOCK, &ended, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (target)
		be_target(&me);
	meet(&me);
	run(&me);
	_exit(0);
}

/* Waits for the end of a process. False: it does not return. */
static bool await_end(pid_t pid, int *status)
{
	const struct timespec most = {.tv_sec = STUCK_MS / 1000};
	uint64_t until = now_ms() + STUCK_MS;

	while (waitpid(pid, status, WNOHANG) != pid) {
		if (now_ms() >= until)
			return false;
		(void)sigtimedwait(&ended, NULL, &most);
	}
	return true;
}

/* What became of the target, where the initiator did not end it. */
static void judge_target(struct board *board)
{
	int status = 0;

	if (waitpid(board->target, &status, WNOHANG) == board->target) {
		if (!board->expendable && WIFSIGNALED(status))
			tell(board, false, "the target ended by signal %d",
			     WTERMSIG(status));
		return;
	}
	(void)kill(board->target, SIGKILL);
	(void)waitpid(board->target, &status, 0);
}

static void judge(struct board *board, pid_t initiator)
{
	int status = 0;

	if (!await_end(initiator, &status)) {
		tell(board, false, "no return from %s in %d s", board->step,
		     STUCK_MS / 1000);
		(void)kill(initiator, SIGKILL);
		(void)waitpid(initiator, &status, 0);
	} else if (WIFSIGNALED(status)) {
		tell(board, false, "the initiator ended by signal %d in %s",
		     WTERMSIG(status), board->step);
	} else if (!board->told) {
		tell(board, false, "nothing is told, in %s", board->step);
	}
	judge_target(board);
}

static void try_one(const struct trial *trial, struct board *board)
{
	int there[2], back[2];
	pid_t initiator;

	memset(board, 0, sizeof(*board));
	read_only = trial->read_only;
	if (pipe(there) || pipe(back))
		abort();
	board->target = start(board, there[0], back[1], true, NULL);
	close(there[0]);
	close(back[1]);
	initiator = start(board, back[0], there[1], false, trial->run);
	close(back[0]);
	close(there[1]);
	judge(board, initiator);
}

int main(int argc, char **argv)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int rc = 0;

	if (argc < 2 || argc > 3 || board == MAP_FAILED) {
		(void)fprintf(stderr, "usage: trial PROVIDER [DOMAIN]\n");
		return 2;
	}
	provider = argv[1];
	domain = argv[2];
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&ended);
	(void)sigaddset(&ended, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &ended, NULL);
	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
		try_one(&trials[i], board);
		if (board->skipped) {
			printf("skipped: provider %s has no domain: %s\n",
			       provider, fi_strerror(board->skipped));
			return SKIPPED;
		}
		printf("%-22s %-4s %s\n", trials[i].name,
		       board->good ? "good" : "BAD", board->seen);
		(void)fflush(stdout);
		rc |= !board->good;
	}
	return rc;
}
