/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_protected.c - peers that are not this host
 *
 * In a network of its own, where a whole subnet that no interface bears is
 * routed to loopback: connections from there look like another host's. Where
 * the system allows no such network, the tests are skipped.
 */
#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"

#define SUBNET   "10.98.76.0"
#define STRANGER "10.98.76.9"
#define N_PLACES 128 /* of the HTTP port */

static bool have_network;

static bool raise_loopback(void)
{
	struct ifreq lo = {.ifr_name = "lo"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc;

	if (fd < 0)
		return false;
	rc = ioctl(fd, SIOCGIFFLAGS, &lo);
	lo.ifr_flags |= IFF_UP;
	if (!rc)
		rc = ioctl(fd, SIOCSIFFLAGS, &lo);
	close(fd);
	return rc == 0;
}

/* ip route add local SUBNET/24 dev lo */
static bool route_to_loopback(void)
{
	struct {
		struct nlmsghdr head;
		struct rtmsg route;
		struct rtattr dst_head;
		struct in_addr dst;
		struct rtattr oif_head;
		uint32_t oif;
	} m = {
		.head = {.nlmsg_len = sizeof(m),
			 .nlmsg_type = RTM_NEWROUTE,
			 .nlmsg_flags =
				 NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK},
		.route = {.rtm_family = AF_INET,
			  .rtm_dst_len = 24,
			  .rtm_table = RT_TABLE_LOCAL,
			  .rtm_protocol = RTPROT_BOOT,
			  .rtm_scope = RT_SCOPE_HOST,
			  .rtm_type = RTN_LOCAL},
		.dst_head = {.rta_len = RTA_LENGTH(4), .rta_type = RTA_DST},
		.oif_head = {.rta_len = RTA_LENGTH(4), .rta_type = RTA_OIF},
		.oif = if_nametoindex("lo"),
	};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char rest[512];
	} reply = {.error.error = -1};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	inet_pton(AF_INET, SUBNET, &m.dst);
	if (fd < 0)
		return false;
	if (send(fd, &m, sizeof(m), 0) == (ssize_t)sizeof(m))
		(void)recv(fd, &reply, sizeof(reply), 0);
	close(fd);
	return reply.head.nlmsg_type == NLMSG_ERROR && !reply.error.error;
}

static int start(void **state)
{
	(void)state;
	have_network = (unshare(CLONE_NEWNET) == 0 ||
			unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) &&
		       raise_loopback() && route_to_loopback();
	if (!have_network)
		print_message("no network of our own: skipped\n");
	return 0;
}

/* A connection that comes from a host that is not this one. */
static int stranger_socket(uint16_t port)
{
	struct sockaddr_in from = {.sin_family = AF_INET}, to = from;
	struct timeval limit = {.tv_sec = SOON_MS / 1000};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	inet_pton(AF_INET, STRANGER, &from.sin_addr);
	to.sin_port = htons(port);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return fd;
}

/* What the server says before it closes. */
static void listen_to(uint16_t port, const char *request, char *said,
		      size_t room)
{
	int fd = stranger_socket(port);
	size_t n = 0;
	ssize_t got;

	if (request)
		(void)send(fd, request, strlen(request), MSG_NOSIGNAL);
	while (n < room - 1 && (got = recv(fd, said + n, room - 1 - n, 0)) > 0)
		n += (size_t)got;
	close(fd);
	for (size_t i = 0; i < n; i++)
		if (!said[i])
			said[i] = '.';
	said[n] = '\0';
}

static void strangers_are_told_why_and_counted(void **state)
{
	struct master m;
	char said[1024];

	(void)state;
	if (!have_network)
		skip();
	master_start(&m, (const char *const[]){NULL});
	listen_to(m.rpc, NULL, said, sizeof(said));
	assert_non_null(strstr(said, "--insecure or MOONCAKE_INSECURE=1"));
	listen_to(m.http, "GET /health HTTP/1.1\r\n\r\n", said, sizeof(said));
	assert_non_null(strstr(said, " 403 "));
	assert_non_null(strstr(said, "--insecure or MOONCAKE_INSECURE=1"));
	assert_int_equal(
		master_metric(&m, "te_master_refused_total{port=\"rpc\",reason="
				  "\"protected mode\"}"),
		1);
	assert_int_equal(
		master_metric(&m,
			      "te_master_refused_total{port=\"http\",reason="
			      "\"protected mode\"}"),
		1);
	master_stop(&m);
}

static void strangers_take_nobodys_place(void **state)
{
	int fds[N_PLACES], status;
	struct master m;

	(void)state;
	if (!have_network)
		skip();
	master_start(&m, (const char *const[]){NULL});
	for (size_t i = 0; i < N_PLACES; i++)
		fds[i] = stranger_socket(m.http);
	free(master_get(&m, "/health", &status));
	assert_int_equal(status, 200);
	for (size_t i = 0; i < N_PLACES; i++)
		close(fds[i]);
	master_stop(&m);
}

static void insecure_lets_strangers_in(void **state)
{
	struct master m;
	char said[1024];

	(void)state;
	if (!have_network)
		skip();
	master_start(&m, (const char *const[]){"--insecure", NULL});
	listen_to(m.http, "GET /health HTTP/1.1\r\n\r\n", said, sizeof(said));
	assert_non_null(strstr(said, "200 OK"));
	master_stop(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strangers_are_told_why_and_counted),
		cmocka_unit_test(strangers_take_nobodys_place),
		cmocka_unit_test(insecure_lets_strangers_in),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
