/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.c - an engine with memory for others, on a host of its own
 *
 * rails_owner BYTES DEVICES THREAD BACKEND: makes a network namespace and says
 * "netns"; once its interfaces (a list as tcp.devices has it) are there it serves a
 * region by the backend, tcp or ofi with libfabric's provider tcp, and says "owner NAME ADDRESS". SIGUSR1: says "crc" of the region. Ends with
 * SIGTERM. THREAD off: its rails have no thread; with SIGUSR2 they stand still,
 * with the next one they go on, which it says.
 */
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <te/te.h>

#include "tests/lib/netns.h"
#include "tests/lib/wait.h"

#define COME_MS  60000
#define DRIVE_MS 10

static bool all_there(void *arg)
{
	char copy[256], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", (const char *)arg);
	while ((word = strsep(&rest, " "))) {
		if (test_netns_run(0,
				   "ip -4 -o addr show dev %s up 2>&- | "
				   "grep -q inet",
				   word))
			return false;
	}
	return true;
}

static void say_crc(const struct te_region *region)
{
	printf("crc %u\n", te_crc32c(0, region->addr, region->length));
	fflush(stdout);
}

static bool say_still(bool still)
{
	puts(still ? "rails stand still" : "rails go on");
	fflush(stdout);
	return still;
}

/* Until it may end. @driven: the rails stand still when it does not drive. */
static int be_there(struct te_engine *engine, bool driven,
		    const struct te_region *region, int signals)
{
	struct pollfd pfd = {.fd = signals, .events = POLLIN};
	struct signalfd_siginfo info;
	bool still = !driven;

	for (;;) {
		if (!still && te_engine_drive(engine, DRIVE_MS) < 0)
			return 1;
		if (poll(&pfd, 1, still ? -1 : 0) <= 0)
			continue;
		if (read(signals, &info, sizeof(info)) != sizeof(info))
			return 1;
		if (info.ssi_signo == SIGTERM)
			return 0;
		if (info.ssi_signo == SIGUSR1)
			say_crc(region);
		else
			still = say_still(!still);
	}
}

static int serve(struct te_engine *engine, bool driven, uint64_t length,
		 int signals)
{
	struct te_region region = {.length = length,
				   .access = TE_ACCESS_REMOTE_READ |
					     TE_ACCESS_REMOTE_WRITE};
	te_region_id id;

	if (te_memory_alloc(engine, length, &region.addr))
		return 1;
	memset(region.addr, 0, length); /* before others may write */
	if (te_region_add(engine, &region, &id))
		return 1;
	printf("owner %s %" PRIu64 "\n", te_engine_name(engine),
	       (uint64_t)(uintptr_t)region.addr);
	fflush(stdout);
	return be_there(engine, driven, &region, signals);
}

static int run(uint64_t length, const char *devices, const char *thread,
	       const char *backend, int signals)
{
	struct te_config *config;
	struct te_engine *engine;
	int rc;

	if (te_config_create(&config) ||
	    te_config_set(config, "backends", backend, NULL, 0) ||
	    te_config_set(config, "ofi.provider", "tcp", NULL, 0) ||
	    te_config_set(config, "ofi.devices", devices, NULL, 0) ||
	    te_config_set(config, "insecure", "true", NULL, 0) ||
	    te_config_set(config, "worker_thread", thread, NULL, 0) ||
	    te_config_set(config, "tcp.devices", devices, NULL, 0) ||
	    te_engine_create(config, "10.99.0.2", &engine))
		return 1;
	te_config_destroy(config);
	rc = serve(engine, !strcmp(thread, "off"), length, signals);
	te_engine_destroy(engine);
	return rc;
}

int main(int argc, char **argv)
{
	const char *why;
	sigset_t set;
	int signals;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (argc != 5 || signals < 0 || test_netns_enter(&why))
		return 1;
	printf("netns\n");
	fflush(stdout);
	if (!test_wait_until(all_there, argv[2], COME_MS))
		return 1;
	return run(strtoull(argv[1], NULL, 10), argv[2], argv[3], argv[4],
		   signals);
}
