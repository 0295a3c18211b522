/* SPDX-License-Identifier: Apache-2.0 */
/* test_peer.c - whom a server serves: lists of users, and who has connected */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/net.h"
#include "base/peer.h"
#include "tests/lib/netns.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/user.h"

static char logged[1024];
static int n_logged;
static char why[TEI_PEER_TEXT_MAX];
static const struct tei_peer_rule closed; /* its own user and root */

static void keep(int level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	strncpy(logged, line, sizeof(logged) - 1);
	n_logged++;
}

static int setup(void **state)
{
	(void)state;
	tei_log_set_sink(keep, NULL);
	n_logged = 0;
	return 0;
}

/* ---- connections ---- */

static int listen_at(const char *host, uint16_t *port)
{
	int fd = tei_listen(host, 0, "test port", port);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0); /* accept() waits */
	return fd;
}

/* Connects from @from (0: any port) to @host; negative: it cannot. */
static int connect_from(const char *host, uint16_t from, uint16_t port)
{
	struct tei_address to, own;
	int fd, on = 1;

	if (tei_resolve_numeric(host, port, &to) ||
	    tei_resolve_numeric(strchr(host, ':') ? "::" : "0.0.0.0", from,
				&own))
		return -1;
	fd = socket(to.ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&own.ss, own.len) ||
	    connect(fd, (struct sockaddr *)&to.ss, to.len))
		return -1;
	return fd;
}

static int accept_from(int listener, struct tei_address *peer)
{
	int fd;

	memset(peer, 0, sizeof(*peer));
	peer->len = sizeof(peer->ss);
	fd = accept(listener, (struct sockaddr *)&peer->ss, &peer->len);
	assert_true(fd >= 0);
	return fd;
}

/* A process that has connected, and lives until @hold is closed. */
struct visitor {
	pid_t pid;
	int hold;
};

static struct visitor visit_as(uid_t uid, const char *host, uint16_t port)
{
	struct visitor v;
	int hold[2];
	char byte = 0;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, hold), 0);
	v.pid = test_fork_as(uid);
	assert_true(v.pid >= 0);
	if (!v.pid) {
		close(hold[1]);
		if (connect_from(host, 0, port) < 0 ||
		    write(hold[0], &byte, 1) != 1)
			_exit(1);
		_exit(read(hold[0], &byte, 1) ? 2 : 0);
	}
	close(hold[0]);
	assert_int_equal(read(hold[1], &byte, 1), 1); /* it has connected */
	v.hold = hold[1];
	return v;
}

static void leave(struct visitor *v)
{
	int status;

	/* Others have been forked with a copy, so close() does nothing. */
	shutdown(v->hold, SHUT_RDWR);
	close(v->hold);
	assert_int_equal(waitpid(v->pid, &status, 0), v->pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

static enum tei_peer_verdict judge_visit(const struct tei_peer_rule *rule,
					 uid_t uid, const char *host,
					 int listener, uint16_t port)
{
	struct visitor v = visit_as(uid, host, port);
	struct tei_address peer;
	int fd = accept_from(listener, &peer);
	enum tei_peer_verdict verdict =
		tei_peer_admit(rule, fd, &peer, "test port", why);

	leave(&v);
	close(fd);
	return verdict;
}

/* ---- lists of users ---- */

static void lists_of_users_are_read(void **state)
{
	struct tei_uids uids;

	(void)state;
	assert_int_equal(tei_uids_parse(NULL, &uids), 0);
	assert_int_equal(uids.n, 0);
	assert_int_equal(tei_uids_parse("", &uids), 0);
	assert_int_equal(uids.n, 0);
	assert_int_equal(tei_uids_parse("7, 1000-1002,4294967294", &uids), 0);
	assert_true(tei_uids_has(&uids, 7) && tei_uids_has(&uids, 1000));
	assert_true(tei_uids_has(&uids, 1002));
	assert_true(tei_uids_has(&uids, 4294967294));
	assert_false(tei_uids_has(&uids, 0) || tei_uids_has(&uids, 8));
	assert_false(tei_uids_has(&uids, 999) || tei_uids_has(&uids, 1003));
	assert_int_equal(tei_uids_parse("any", &uids), 0);
	assert_true(tei_uids_has(&uids, 0) && tei_uids_has(&uids, 65534));
}

static void malformed_lists_are_refused(void **state)
{
	static const char *const bad[] = {
		"x",   "-1",    "1-",   "2-1",        "1,,2",
		",",   "1;2",   "0x1",  "4294967295", "18446744073709551617",
		"1 2", "any,1", "root", "1-2-3",
	};
	struct tei_uids uids = {.n = 0};
	char many[4 * TEI_UIDS_MAX + 8] = "";

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		assert_int_equal(tei_uids_parse(bad[i], &uids), -EINVAL);
		assert_int_equal(uids.n, 0);
	}
	for (unsigned int i = 0; i < TEI_UIDS_MAX; i++)
		strcat(many, "10,");
	assert_int_equal(tei_uids_parse(many, &uids), 0);
	strcat(many, "10");
	assert_int_equal(tei_uids_parse(many, &uids), -EINVAL);
}

/* ---- what tells ---- */

/* How a peer may reach a listening port of this host. */
static const struct way {
	const char *listen, *connect;
} ways[] = {
	{"127.0.0.1", "127.0.0.1"},
	{"::1", "::1"},
	{NULL, "127.0.0.1"}, /* a v6 socket and a v4 one */
	{NULL, "::1"},
	{NULL, "::ffff:127.0.0.1"},
	{"127.0.0.1", "::ffff:127.0.0.1"},
};

/* From now on @nr of this process, with that first argument, ends so. */
static int system_call_does(unsigned int nr, unsigned int first, bool any_first,
			    unsigned int what)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 0,
			 any_first ? 0 : 1),
		BPF_STMT(BPF_RET | BPF_K, what),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {TEST_COUNT(filter), filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* As a sandbox does: sockets of netlink are not for this process. */
static int netlink_does(unsigned int what)
{
	return system_call_does(SYS_socket, AF_NETLINK, false, what);
}

/* As a kernel without sock_diag for tcp: nothing asked for is to be found. */
static int hide_sockets(void)
{
	return system_call_does(SYS_sendto, 0, true,
				SECCOMP_RET_ERRNO | ENOENT);
}

/* 0, or the exit code of a process that has seen something else. */
static int judge_every_way(enum tei_peer_verdict wanted)
{
	for (size_t i = 0; i < TEST_COUNT(ways); i++) {
		struct tei_address peer;
		uint16_t port;
		int listener = listen_at(ways[i].listen, &port);
		int client = connect_from(ways[i].connect, 0, port);
		int fd = accept_from(listener, &peer);

		if (tei_peer_admit(&closed, fd, &peer, "test port", why) !=
		    wanted)
			return 10 + (int)i;
		close(fd);
		close(client);
		close(listener);
	}
	return !wanted || strstr(why, "--allow_uids=any") ? 0 : 20;
}

/*
 * Sockets that others have left for a minute are in /proc/net/tcp, too: a look
 * through thousands takes all the time that it may. So root leaves them behind.
 */
static void leave_the_sockets_of_others(void)
{
	const char *reason;

	if (!geteuid())
		(void)test_netns_enter(&reason); /* refused: among them */
}

/* Returns what @fn does in a process of its own, where nobody has asked yet. */
static int run_anew(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		leave_the_sockets_of_others();
		tei_log_set_level(TEI_LOG_DEBUG);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static void expect_done(int code)
{
	if (code == 77)
		skip(); /* this system has no seccomp */
	assert_int_equal(code, 0);
}

static int ask_first(void)
{
	struct tei_peer_rule rule;

	if (tei_peer_rule_init(&rule, false, NULL) || n_logged != 1 ||
	    !strstr(logged, "sock_diag"))
		return 1;
	if (tei_peer_rule_init(&rule, true, "7") || n_logged != 1)
		return 2;
	if (judge_every_way(TEI_PEER_MEMBER))
		return 3;
	return n_logged == 1 ? 0 : 4;
}

static void rule_asks_once_before_anybody_comes(void **state)
{
	(void)state;
	expect_done(run_anew(ask_first));
}

static int serve_all(void)
{
	struct tei_peer_rule rule;

	if (netlink_does(SECCOMP_RET_KILL_PROCESS))
		return 77;
	return tei_peer_rule_init(&rule, false, "any") || n_logged;
}

static void who_serves_every_user_asks_nothing(void **state)
{
	(void)state;
	expect_done(run_anew(serve_all));
}

static int ask_no_second_time(void)
{
	struct tei_peer_rule rule;

	if (hide_sockets())
		return 77;
	if (tei_peer_rule_init(&rule, false, NULL) || n_logged != 1 ||
	    !strstr(logged, "no sock_diag for tcp"))
		return 1;
	if (netlink_does(SECCOMP_RET_KILL_PROCESS))
		return 2;
	return judge_every_way(TEI_PEER_MEMBER);
}

/* Each question would start a modprobe. */
static void kernel_without_sock_diag_is_asked_once(void **state)
{
	(void)state;
	expect_done(run_anew(ask_no_second_time));
}

/* Writes lines of other sockets for as long as somebody reads them. */
static void write_sockets(const char *path)
{
	static const char line[] =
		"   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 "
		"00:00000000 00000000     0        0 1 1 0 20 4 30 10 -1\n";
	FILE *file = fopen(path, "w");

	while (file && fputs(line, file) >= 0)
		;
	_exit(0);
}

static char crowd[TEST_PATH_MAX]; /* a root whose /proc/net has a fifo */

static void make_crowd(void)
{
	static const char *const folders[] = {"proc", "proc/net"};
	char path[TEST_PATH_MAX + 16];

	test_tmpdir_create(crowd);
	for (size_t i = 0; i < TEST_COUNT(folders); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", crowd, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	(void)snprintf(path, sizeof(path), "%s/proc/net/tcp6", crowd);
	assert_int_equal(mkfifo(path, 0600), 0);
}

static int judge_in_crowd(void)
{
	struct tei_peer_rule rule;
	struct tei_address peer;
	uint16_t port;
	int listener = listen_at("::1", &port);
	int client = connect_from("::1", 0, port);
	int fd = accept_from(listener, &peer);
	enum tei_peer_verdict verdict;
	pid_t writer;

	if (netlink_does(SECCOMP_RET_ERRNO | EPERM))
		return 77;
	if (chroot(crowd) || chdir("/") ||
	    tei_peer_rule_init(&rule, false, NULL))
		return 1;
	writer = fork();
	if (!writer)
		write_sockets("/proc/net/tcp6");
	verdict = tei_peer_admit(&rule, fd, &peer, "test port", why);
	if (waitpid(writer, NULL, 0) != writer || client < 0)
		return 2;
	if (verdict != TEI_PEER_BUSY || !strstr(why, "time"))
		return 3;
	return strstr(logged, "too many sockets") ? 0 : 4;
}

/* The look is given up, and who has come may try again. */
static void look_among_too_many_sockets_ends(void **state)
{
	int code;

	(void)state;
	if (geteuid())
		skip(); /* chroot() */
	make_crowd();
	code = run_anew(judge_in_crowd);
	test_tmpdir_remove(crowd);
	expect_done(code);
}

/* ---- who has connected ---- */

static void other_hosts_are_refused_unless_insecure(void **state)
{
	const struct tei_peer_rule open = {.insecure = true};
	struct tei_address far;

	(void)state;
	assert_int_equal(tei_resolve_numeric("192.0.2.1", 5, &far), 0);
	assert_int_equal(tei_peer_admit(&open, -1, &far, "test port", why),
			 TEI_PEER_GUEST);
	assert_true(tei_peer_host_allowed(&open, &far, "test port"));
	assert_int_equal(n_logged, 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(
			tei_peer_admit(&closed, -1, &far, "test port", why),
			TEI_PEER_REFUSED);
		assert_false(tei_peer_host_allowed(&closed, &far, "test port"));
	}
	assert_true(n_logged > 0 && n_logged < 100);
	assert_string_equal(why, TEI_PROTECTED_TEXT);
	test_contains(logged, "test port: refused 192.0.2.1:5");
	test_contains(logged, "--insecure");
}

static void own_processes_are_members_by_every_way(void **state)
{
	(void)state;
	for (size_t i = 0; i < TEST_COUNT(ways); i++) {
		uint16_t port;
		int listener = listen_at(ways[i].listen, &port);

		assert_int_equal(judge_visit(&closed, geteuid(),
					     ways[i].connect, listener, port),
				 TEI_PEER_MEMBER);
		close(listener);
	}
	assert_int_equal(n_logged, 0);
}

static void another_user_is_refused_by_every_way(void **state)
{
	(void)state;
	if (geteuid())
		skip(); /* only root can be somebody else */
	for (size_t i = 0; i < TEST_COUNT(ways); i++) {
		uint16_t port;
		int listener = listen_at(ways[i].listen, &port);

		assert_int_equal(judge_visit(&closed, TEST_USER_A,
					     ways[i].connect, listener, port),
				 TEI_PEER_REFUSED);
		test_contains(why, "on this host only root is served");
		test_contains(why, "this is user 64998: add 64998 to the "
				   "server's --allow_uids");
		close(listener);
	}
	test_contains(logged, "test port: refused ");
	test_contains(logged, "MOONCAKE_ALLOW_UIDS");
}

static void the_rule_lets_others_in(void **state)
{
	struct tei_peer_rule rule;
	uint16_t port;
	int listener = listen_at(NULL, &port);

	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(tei_peer_rule_init(&rule, false, "64998"), 0);
	assert_int_equal(judge_visit(&rule, TEST_USER_A, "::1", listener, port),
			 TEI_PEER_MEMBER);
	assert_int_equal(judge_visit(&rule, TEST_USER_B, "::1", listener, port),
			 TEI_PEER_REFUSED);
	assert_int_equal(tei_peer_rule_init(&rule, false, "any"), 0);
	assert_int_equal(judge_visit(&rule, TEST_USER_B, "::1", listener, port),
			 TEI_PEER_MEMBER);
	n_logged = 0;
	assert_int_equal(tei_peer_rule_init(&rule, true, NULL), 0);
	assert_int_equal(judge_visit(&rule, TEST_USER_A, "::1", listener, port),
			 TEI_PEER_GUEST);
	assert_int_equal(judge_visit(&rule, 0, "::1", listener, port),
			 TEI_PEER_MEMBER);
	assert_int_equal(n_logged, 0);
	assert_int_equal(tei_peer_rule_init(&rule, false, "nobody"), -EINVAL);
	close(listener);
}

/* Runs in a process of TEST_USER_A, which accepts what root listens for. */
static int judge_three(int listener)
{
	static const enum tei_peer_verdict wanted[] = {
		TEI_PEER_MEMBER, TEI_PEER_MEMBER, TEI_PEER_REFUSED};
	struct tei_address peer;

	for (size_t i = 0; i < TEST_COUNT(wanted); i++) {
		int fd = accept_from(listener, &peer);

		if (tei_peer_admit(&closed, fd, &peer, "test port", why) !=
		    wanted[i])
			return 10 + (int)i;
	}
	return strstr(why, "only user 64998 and root are served") ? 0 : 20;
}

static void a_server_that_is_not_root_serves_its_user_and_root(void **state)
{
	static const uid_t users[] = {0, TEST_USER_A, TEST_USER_B};
	struct visitor visitors[TEST_COUNT(users)];
	uint16_t port;
	int status, listener = listen_at("127.0.0.1", &port);
	pid_t judge;

	(void)state;
	if (geteuid())
		skip();
	judge = test_fork_as(TEST_USER_A);
	assert_true(judge >= 0);
	if (!judge)
		_exit(judge_three(listener));
	for (size_t i = 0; i < TEST_COUNT(users); i++) {
		visitors[i] = visit_as(users[i], "127.0.0.1", port);
	}
	assert_int_equal(waitpid(judge, &status, 0), judge);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	for (size_t i = 0; i < TEST_COUNT(users); i++)
		leave(&visitors[i]);
	close(listener);
}

/* A closed socket is nobody's, and reads as root's where it is looked for. */
static void who_has_closed_is_gone(void **state)
{
	struct tei_address peer;
	uint16_t port;
	int listener = listen_at("127.0.0.1", &port);
	int client = connect_from("127.0.0.1", 0, port);
	int fd = accept_from(listener, &peer);

	(void)state;
	assert_int_equal(shutdown(client, SHUT_WR), 0);
	assert_int_equal(tei_peer_admit(&closed, fd, &peer, "test port", why),
			 TEI_PEER_MEMBER); /* it may still read the answer */
	assert_int_equal(write(fd, "x", 1), 1);
	close(client);
	assert_int_equal(tei_peer_admit(&closed, fd, &peer, "test port", why),
			 TEI_PEER_GONE);
	close(fd);
	client = connect_from("127.0.0.1", 0, port);
	assert_int_equal(write(client, "x", 1), 1);
	close(client);
	fd = accept_from(listener, &peer);
	assert_int_equal(tei_peer_admit(&closed, fd, &peer, "test port", why),
			 TEI_PEER_GONE);
	assert_int_equal(n_logged, 0);
	close(fd);
	close(listener);
}

/* Another user connects from port @from, and resets the connection. */
static bool connect_and_reset(uint16_t from, uint16_t port)
{
	const struct linger now = {.l_onoff = 1};
	pid_t pid = test_fork_as(TEST_USER_A);
	int status, client;

	if (!pid) {
		client = connect_from("127.0.0.1", from, port);
		if (client < 0 || write(client, "x", 1) != 1 ||
		    setsockopt(client, SOL_SOCKET, SO_LINGER, &now,
			       sizeof(now)))
			_exit(1);
		close(client);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/*
 * The same, after which root connects from that port. Returns root's socket;
 * -1: another process of this host had the port meanwhile.
 */
static int connect_again(int listener, uint16_t port, uint16_t *from)
{
	struct tei_address peer;
	int client, next;

	*from = 0;
	next = tei_listen("127.0.0.1", 0, "a port", from);
	assert_true(next >= 0);
	close(next); /* @from is free */
	if (!connect_and_reset(*from, port))
		return -1;
	client = connect_from("127.0.0.1", *from, port);
	if (client < 0)
		close(accept_from(listener, &peer));
	return client;
}

/* Another user resets his connection, and root gets the same addresses. */
static void the_next_holder_of_an_address_vouches_for_nobody(void **state)
{
	struct tei_address peer;
	uint16_t port, from;
	int listener = listen_at("127.0.0.1", &port);
	int client = -1, fd, next;

	(void)state;
	if (geteuid())
		skip();
	for (int i = 0; i < 100 && client < 0; i++)
		client = connect_again(listener, port, &from);
	assert_true(client >= 0);
	fd = accept_from(listener, &peer);
	assert_int_equal(tei_address_port(&peer), from);
	assert_int_equal(tei_peer_admit(&closed, fd, &peer, "test port", why),
			 TEI_PEER_GONE);
	next = accept_from(listener, &peer);
	assert_int_equal(tei_peer_admit(&closed, next, &peer, "test port", why),
			 TEI_PEER_MEMBER);
	close(next);
	close(fd);
	close(client);
	close(listener);
}

static void unix_sockets_say_who_connected(void **state)
{
	struct tei_address peer = {.len = 0};
	int pair[2], status;
	pid_t pid;

	(void)state;
	peer.ss.ss_family = AF_UNIX;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(
		tei_peer_admit(&closed, pair[0], &peer, "test port", why),
		TEI_PEER_MEMBER);
	if (geteuid())
		return;
	pid = test_fork_as(TEST_USER_A);
	if (!pid) /* the pair is root's, whoever holds it */
		_exit(tei_peer_admit(&closed, pair[1], &peer, "test port",
				     why) != TEI_PEER_MEMBER);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pair[0]);
	close(pair[1]);
}

static void no_descriptor_to_ask_with_is_no_refusal_for_good(void **state)
{
	struct tei_address peer;
	uint16_t port;
	int listener = listen_at("127.0.0.1", &port);
	int client = connect_from("127.0.0.1", 0, port);
	int fd = accept_from(listener, &peer);

	(void)state;
	tei_fault_arm(TEI_FAULT_SOCKET, 1);
	assert_int_equal(tei_peer_admit(&closed, fd, &peer, "test port", why),
			 TEI_PEER_BUSY);
	tei_fault_disarm_all();
	assert_true(why[0]);
	assert_int_equal(tei_peer_admit(&closed, fd, &peer, "test port", why),
			 TEI_PEER_MEMBER);
	close(fd);
	close(client);
	close(listener);
}

/* Runs in a process of its own: a judge that cannot ask sock_diag. */
static int judge_in_sandbox(const char *root, enum tei_peer_verdict wanted)
{
	if (netlink_does(SECCOMP_RET_ERRNO | EPERM))
		return 77;
	if (root && (chroot(root) || chdir("/")))
		return 2;
	return judge_every_way(wanted);
}

static int judged_in_sandbox(const char *root, enum tei_peer_verdict wanted)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		leave_the_sockets_of_others();
		_exit(judge_in_sandbox(root, wanted));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void without_sock_diag_proc_tells(void **state)
{
	int code = judged_in_sandbox(NULL, TEI_PEER_MEMBER);

	(void)state;
	if (code == 77)
		skip(); /* this system has no seccomp */
	assert_int_equal(code, 0);
}

#define N_JUDGES 4 /* the share of one is too small on a busy machine */

struct judge {
	pthread_t thread;
	int fd;
	struct tei_address peer;
	enum tei_peer_verdict last;
	char why[TEI_PEER_TEXT_MAX];
};

/* Looks through all sockets until it is told to wait. */
static void *judge_until_busy(void *arg)
{
	uint64_t give_up_ms = tei_now_ms() + 60000;
	struct judge *j = arg;

	do {
		j->last = tei_peer_admit(&closed, j->fd, &j->peer, "test port",
					 j->why);
	} while (j->last == TEI_PEER_MEMBER && tei_now_ms() < give_up_ms);
	return NULL;
}

/* Runs in a process of its own. */
static int judge_too_much(void)
{
	struct judge j[N_JUDGES] = {{.fd = -1}};
	uint16_t port;
	int listener = listen_at("127.0.0.1", &port);

	if (netlink_does(SECCOMP_RET_ERRNO | EPERM))
		return 77;
	for (int i = 0; i < N_JUDGES; i++) {
		if (connect_from("127.0.0.1", 0, port) < 0)
			return 2;
		j[i].fd = accept_from(listener, &j[i].peer);
		if (pthread_create(&j[i].thread, NULL, judge_until_busy, &j[i]))
			return 3;
	}
	for (int i = 0; i < N_JUDGES; i++) {
		pthread_join(j[i].thread, NULL);
		if (j[i].last != TEI_PEER_BUSY || !strstr(j[i].why, "time"))
			return 10 + i;
	}
	return 0;
}

static void looks_through_all_sockets_are_limited_together(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid)
		_exit(judge_too_much());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void who_cannot_be_known_is_refused_with_the_way_out(void **state)
{
	char dir[TEST_PATH_MAX];
	int code;

	(void)state;
	if (geteuid())
		skip(); /* chroot() */
	test_tmpdir_create(dir);
	code = judged_in_sandbox(dir, TEI_PEER_REFUSED);
	test_tmpdir_remove(dir);
	if (code == 77)
		skip();
	assert_int_equal(code, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* These come before this process has asked, too. */
		cmocka_unit_test_setup(rule_asks_once_before_anybody_comes,
				       setup),
		cmocka_unit_test_setup(who_serves_every_user_asks_nothing,
				       setup),
		cmocka_unit_test_setup(kernel_without_sock_diag_is_asked_once,
				       setup),
		cmocka_unit_test_setup(look_among_too_many_sockets_ends, setup),
		cmocka_unit_test_setup(lists_of_users_are_read, setup),
		cmocka_unit_test_setup(malformed_lists_are_refused, setup),
		cmocka_unit_test_setup(other_hosts_are_refused_unless_insecure,
				       setup),
		cmocka_unit_test_setup(own_processes_are_members_by_every_way,
				       setup),
		cmocka_unit_test_setup(another_user_is_refused_by_every_way,
				       setup),
		cmocka_unit_test_setup(the_rule_lets_others_in, setup),
		cmocka_unit_test_setup(
			a_server_that_is_not_root_serves_its_user_and_root,
			setup),
		cmocka_unit_test_setup(who_has_closed_is_gone, setup),
		cmocka_unit_test_setup(
			the_next_holder_of_an_address_vouches_for_nobody,
			setup),
		cmocka_unit_test_setup(unix_sockets_say_who_connected, setup),
		cmocka_unit_test_setup(
			no_descriptor_to_ask_with_is_no_refusal_for_good,
			setup),
		cmocka_unit_test_setup(without_sock_diag_proc_tells, setup),
		cmocka_unit_test_setup(
			looks_through_all_sockets_are_limited_together, setup),
		cmocka_unit_test_setup(
			who_cannot_be_known_is_refused_with_the_way_out, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
