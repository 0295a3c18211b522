/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - answer on the core from which the question came */
#include "base/follow.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/net.h"

#define LOOK_EVERY 7u /* calls; odd: clients may take turns */
#define ALIKE      4u /* looks */
/* A thread that works longer for an answer stays on its core. */
#define ANSWER_NS_MAX  (100 * TEI_NS_PER_US)
#define PAUSE_NS_LEAST (10 * TEI_NS_PER_MS)
#define PAUSE_NS_MOST  TEI_NS_PER_S

/* Tells whether the socket connects one IP address with itself. */
static bool is_same_host(int fd)
{
	struct tei_address own, peer;

	return tei_socket_ends(fd, &own, &peer) &&
	       tei_address_same_host(&own, &peer);
}

/* Looks where the socket's data comes from. True: from one core, not ours. */
static bool look(struct tei_follow *follow, int fd)
{
	int cpu = -1, here = sched_getcpu();
	socklen_t len = sizeof(cpu);

	if (getsockopt(fd, SOL_SOCKET, SO_INCOMING_CPU, &cpu, &len) ||
	    cpu < 0 || here < 0 || cpu == here || cpu >= CPU_SETSIZE) {
		follow->n_alike = 0;
		return false;
	}
	if (cpu != follow->cpu || fd != follow->fd)
		follow->n_alike = 0;
	follow->cpu = cpu;
	follow->fd = fd;
	return ++follow->n_alike >= ALIKE;
}

/* Begins a pause, a longer one where the last move has not lasted. */
static void pause_moves(struct tei_follow *follow, uint64_t now)
{
	if (follow->pause && now < follow->until + follow->pause)
		follow->pause *= 2;
	else
		follow->pause = PAUSE_NS_LEAST;
	if (follow->pause > PAUSE_NS_MOST)
		follow->pause = PAUSE_NS_MOST;
	follow->until = now + follow->pause;
}

int tei_follow_look(struct tei_follow *follow, int fd, uint64_t awake,
		    uint64_t now)
{
	if (awake > ANSWER_NS_MAX)
		follow->n_alike = 0;
	if (follow->forbidden || ++follow->n_calls % LOOK_EVERY)
		return -1;
	if (!look(follow, fd) || now < follow->until)
		return -1;
	follow->n_alike = 0;
	pause_moves(follow, now);
	return is_same_host(fd) ? follow->cpu : -1;
}

static bool get_mask(cpu_set_t *out)
{
	return !sched_getaffinity(0, sizeof(*out), out);
}

static bool set_mask(const cpu_set_t *mask)
{
	return !sched_setaffinity(0, sizeof(*mask), mask);
}

/*
 * Finds what to set so that the thread may use the same cores as now. Linux
 * keeps what was set last, and allows those of it that the cgroup has and that
 * are online, which may become more: so a thread without a mask of its own gets
 * all cores there are, not those that it has just now. False: it may not move.
 */
static bool find_mask(cpu_set_t *mask)
{
	cpu_set_t may, most;

	memset(mask, 0xff, sizeof(*mask));
	if (!get_mask(&may) || !set_mask(mask) || !get_mask(&most))
		return false;
	if (CPU_EQUAL(&may, &most))
		return true;
	*mask = may;
	return set_mask(mask);
}

static void be_forbidden(struct tei_follow *follow)
{
	follow->forbidden = errno == EPERM || errno == ENOSYS;
	LOG_DEBUG("a thread cannot move to core %d: %s", follow->cpu,
		  strerror(errno));
}

void tei_follow_move(struct tei_follow *follow, int cpu)
{
	cpu_set_t mask, there, now;

	CPU_ZERO(&there);
	CPU_SET((size_t)cpu, &there);
	if (!find_mask(&mask) || !get_mask(&now)) {
		be_forbidden(follow);
		return;
	}
	if (!CPU_ISSET((size_t)cpu, &now))
		return;
	if (!set_mask(&there)) {
		be_forbidden(follow);
		return;
	}
	/* Another mask has been set from outside, and is to stay. */
	if (get_mask(&now) && !CPU_EQUAL(&now, &there))
		return;
	if (!set_mask(&mask))
		LOG_ERROR("a thread stays bound to core %d: "
			  "sched_setaffinity: %s",
			  cpu, strerror(errno));
	LOG_DEBUG("a thread has moved to core %d, where who asks it is", cpu);
}
