/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halt.c - a client's calls that stand still at a chosen point
 *
 * Bytes that move by system calls: of the first call with much payload only a
 * part is done, and the next such call is the point.
 */
#include "tests/integration/store/halt.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAYLOAD (80u << 10) /* calls of less are about something else */
#define FIRST   (96u << 10) /* of the first call with payload */
#define PIECES  64

struct tes_put_pipeline;
struct tes_get_round;

/* What the linker's --wrap calls them. */
void __real_tes_put_write_begin(struct tes_put_pipeline *p);
void __wrap_tes_put_write_begin(struct tes_put_pipeline *p);
void __real_tes_put_end_begin(struct tes_put_pipeline *p);
void __wrap_tes_put_end_begin(struct tes_put_pipeline *p);
void __real_tes_get_read(struct tes_get_round *round);
void __wrap_tes_get_read(struct tes_get_round *round);
ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags);
ssize_t __real_readv(int fd, const struct iovec *iov, int n);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int n);
ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local,
				unsigned long n_local,
				const struct iovec *remote,
				unsigned long n_remote, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local,
				unsigned long n_local,
				const struct iovec *remote,
				unsigned long n_remote, unsigned long flags);
ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *local,
				 unsigned long n_local,
				 const struct iovec *remote,
				 unsigned long n_remote, unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local,
				 unsigned long n_local,
				 const struct iovec *remote,
				 unsigned long n_remote, unsigned long flags);

static _Atomic int wanted;
static atomic_bool begun;     /* the first call with payload was seen */
static uint8_t *next_barrier; /* a page, not yet protected */
static uint8_t *barrier;

void halt_await(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	while (sigwaitinfo(&set, NULL) < 0 && errno == EINTR)
		;
}

static void stand_still(void)
{
	if (write(STDOUT_FILENO, "halted\n", 7) != 7)
		abort();
	halt_await(SIGCONT);
}

static void pass(enum halt_point point)
{
	int expected = (int)point;

	if (atomic_compare_exchange_strong(&wanted, &expected, HALT_NEVER))
		stand_still();
}

/* ---- pages ---- */

static void on_fault(int signal, siginfo_t *info, void *context)
{
	const uint8_t *at = info->si_addr;

	(void)signal;
	(void)context;
	if (!barrier || at < barrier || at >= barrier + HALT_PAGE)
		abort();
	pass(HALT_MIDDLE);
	(void)mprotect(barrier, HALT_PAGE, PROT_READ | PROT_WRITE);
}

void halt_at_page(uint8_t *page)
{
	next_barrier = page;
}

/* What a client is given must be memory that it may touch: it looks first. */
static void protect_barrier(void)
{
	if (!next_barrier)
		return;
	barrier = next_barrier;
	next_barrier = NULL;
	if (mprotect(barrier, HALT_PAGE, PROT_NONE))
		abort();
}

void halt_init(void)
{
	struct sigaction on_segv = {.sa_sigaction = on_fault,
				    .sa_flags = SA_SIGINFO};
	sigset_t awaited;

	sigemptyset(&awaited);
	sigaddset(&awaited, SIGUSR1);
	sigaddset(&awaited, SIGCONT);
	sigprocmask(SIG_BLOCK, &awaited, NULL);
	sigaction(SIGSEGV, &on_segv, NULL);
}

void halt_at(enum halt_point point)
{
	atomic_store(&begun, false);
	atomic_store(&wanted, point);
}

/* ---- functions ---- */

void __wrap_tes_put_write_begin(struct tes_put_pipeline *p)
{
	pass(HALT_START);
	protect_barrier();
	__real_tes_put_write_begin(p);
}

void __wrap_tes_put_end_begin(struct tes_put_pipeline *p)
{
	pass(HALT_END);
	__real_tes_put_end_begin(p);
}

void __wrap_tes_get_read(struct tes_get_round *round)
{
	pass(HALT_START);
	protect_barrier();
	__real_tes_get_read(round);
}

/* ---- system calls ---- */

static size_t sum(const struct iovec *iov, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

/*
 * Before a call that would move iov[n]. True: it shall do only out[*n_out], the
 * first part of it.
 */
static bool shorten(const struct iovec *iov, size_t n, struct iovec *out,
		    size_t *n_out)
{
	size_t left = FIRST;

	if (atomic_load(&wanted) != HALT_MIDDLE || sum(iov, n) < PAYLOAD)
		return false;
	if (atomic_exchange(&begun, true)) {
		pass(HALT_MIDDLE);
		return false;
	}
	for (*n_out = 0; *n_out < n && *n_out < PIECES && left; ++*n_out) {
		out[*n_out] = iov[*n_out];
		if (out[*n_out].iov_len > left)
			out[*n_out].iov_len = left;
		left -= out[*n_out].iov_len;
	}
	return true;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct msghdr shorter = *msg;
	struct iovec iov[PIECES];
	size_t n;

	if (!shorten(msg->msg_iov, msg->msg_iovlen, iov, &n))
		return __real_sendmsg(fd, msg, flags);
	shorter.msg_iov = iov;
	shorter.msg_iovlen = n;
	return __real_sendmsg(fd, &shorter, flags);
}

ssize_t __wrap_readv(int fd, const struct iovec *iov, int n)
{
	struct iovec shorter[PIECES];
	size_t n_shorter;

	if (!shorten(iov, (size_t)n, shorter, &n_shorter))
		return __real_readv(fd, iov, n);
	return __real_readv(fd, shorter, (int)n_shorter);
}

ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags)
{
	const struct iovec iov = {bytes, len};
	struct iovec shorter;
	size_t n;

	if (!shorten(&iov, 1, &shorter, &n))
		return __real_recv(fd, bytes, len, flags);
	return __real_recv(fd, shorter.iov_base, shorter.iov_len, flags);
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local,
				unsigned long n_local,
				const struct iovec *remote,
				unsigned long n_remote, unsigned long flags)
{
	struct iovec shorter[PIECES];
	size_t n;

	if (!shorten(local, n_local, shorter, &n))
		return __real_process_vm_readv(pid, local, n_local, remote,
					       n_remote, flags);
	return __real_process_vm_readv(pid, shorter, n, remote, n_remote,
				       flags);
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local,
				 unsigned long n_local,
				 const struct iovec *remote,
				 unsigned long n_remote, unsigned long flags)
{
	struct iovec shorter[PIECES];
	size_t n;

	if (!shorten(local, n_local, shorter, &n))
		return __real_process_vm_writev(pid, local, n_local, remote,
						n_remote, flags);
	return __real_process_vm_writev(pid, shorter, n, remote, n_remote,
					flags);
}
