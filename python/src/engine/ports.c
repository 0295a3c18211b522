/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ports.c - a port of the range that firewalls know
 *
 * Mooncake's engines listen on 15000 to 17000 when they may choose. Which of
 * these is free is found out by asking the kernel for it; between that and the
 * engine's own try somebody else may take it, and then the next one is tried.
 */
#include "python/src/engine/ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_MIN 15000
#define PORT_MAX 17000

/* A port that @variable of the environment says, or else @otherwise. */
static uint32_t port_of(const char *variable, uint32_t otherwise)
{
	const char *text = getenv(variable);
	unsigned long port = 0;
	char *end;

	if (!text || !*text)
		return otherwise;
	port = strtoul(text, &end, 10);
	if (!*end && port >= 1 && port <= UINT16_MAX)
		return (uint32_t)port;
	py_warn("initialize", "%s \"%s\" is no port: %u it is", variable, text,
		otherwise);
	return otherwise;
}

struct py_ports py_ports_begin(void)
{
	struct py_ports ports = {
		.min = port_of("MC_MIN_RPC_PORT",
			       port_of("MC_MIN_PRC_PORT", PORT_MIN)),
		.max = port_of("MC_MAX_RPC_PORT",
			       port_of("MC_MAX_PRC_PORT", PORT_MAX)),
	};
	uint32_t chance = 0;

	if (ports.max < ports.min)
		ports.max = ports.min;
	/* Where to begin is of no weight: without chance at the first. */
	if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) < 0)
		chance = 0;
	ports.next = chance % (ports.max - ports.min + 1);
	return ports;
}

static bool is_free(uint32_t port)
{
	const struct sockaddr_in6 address = {
		.sin6_family = AF_INET6,
		.sin6_port = htons((uint16_t)port),
		.sin6_addr = IN6ADDR_ANY_INIT,
	};
	const struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
	};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc;

	if (fd >= 0) {
		rc = bind(fd, (const struct sockaddr *)&address,
			  sizeof(address));
	} else { /* a host without IPv6 */
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return false;
		rc = bind(fd, (const struct sockaddr *)&v4, sizeof(v4));
	}
	(void)close(fd);
	return !rc;
}

uint32_t py_ports_next(struct py_ports *ports)
{
	uint32_t n = ports->max - ports->min + 1;

	while (ports->n_tried < n) {
		uint32_t port = ports->min + (ports->next + ports->n_tried) % n;

		ports->n_tried++;
		if (is_free(port))
			return port;
	}
	return 0;
}
