/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - answer on the core from which the question came */
#include "base/follow.h"

#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/net.h"

#define LOOK_EVERY 8u /* times that it is asked */
#define ALIKE      4u /* looks */
/* Who works longer for a question is better off beside who asks. */
#define LITTLE (100 * TEI_NS_PER_US)
/* A move takes some 20 us, and the scheduler may have reasons of its own. */
#define PAUSE (10 * TEI_NS_PER_MS)

/* Tells whether the socket is connected to one of this host, by IP. */
static bool is_at_home(int fd)
{
	struct tei_address a = {.len = sizeof(a.ss)}, b = {.len = sizeof(b.ss)};

	if (getsockname(fd, (struct sockaddr *)&a.ss, &a.len) ||
	    getpeername(fd, (struct sockaddr *)&b.ss, &b.len))
		return false;
	return tei_address_same_host(&a, &b);
}

/* Tells whether the last looks saw one core, which is not this one. */
static bool is_elsewhere(struct tei_follow *follow, int fd)
{
	int cpu = -1, here = sched_getcpu();
	socklen_t len = sizeof(cpu);

	if (getsockopt(fd, SOL_SOCKET, SO_INCOMING_CPU, &cpu, &len) ||
	    cpu < 0 || here < 0 || cpu == here || cpu >= CPU_SETSIZE) {
		follow->n_alike = 0;
		return false;
	}
	follow->n_alike = cpu == follow->cpu ? follow->n_alike + 1 : 1;
	follow->cpu = cpu;
	return follow->n_alike >= ALIKE;
}

/* Moves the calling thread; it may be moved away again. */
static void move_to(struct tei_follow *follow, size_t cpu)
{
	cpu_set_t may, there;

	CPU_ZERO(&there);
	CPU_SET(cpu, &there);
	if (sched_getaffinity(0, sizeof(may), &may) || !CPU_ISSET(cpu, &may))
		return;
	if (sched_setaffinity(0, sizeof(there), &there) ||
	    sched_setaffinity(0, sizeof(may), &may))
		follow->off = true;
}

void tei_follow(struct tei_follow *follow, int fd, uint64_t awake, uint64_t now)
{
	if (awake > LITTLE)
		follow->n_alike = 0;
	if (follow->off || ++follow->n_asked % LOOK_EVERY)
		return;
	if (!is_elsewhere(follow, fd) || now < follow->until)
		return;
	follow->n_alike = 0;
	follow->until = now + PAUSE;
	if (is_at_home(fd))
		move_to(follow, (size_t)follow->cpu);
}
