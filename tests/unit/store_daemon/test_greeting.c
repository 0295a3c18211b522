/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_greeting.c - who says what to the daemon first, and with which memory
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <te/te.h>

#include "base/fault.h"
#include "base/log.h"
#include "tests/lib/faults.h"
#include "tests/lib/self.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/unit/store_daemon/play.h"

#define NEW(len)                                                        \
	{                                                               \
		.version = TES_AGENT_VERSION, .word = TES_GREETING_NEW, \
		.length = (len)                                         \
	}

static bool has_fds_open(void *arg)
{
	return test_fds_open() == *(unsigned int *)arg;
}

/* The status for memory @fd; it is closed. */
static int greet_with(const struct play *play, int fd, uint64_t length)
{
	struct tes_greeting g = NEW(length);
	int socket = play_connect(play), status;

	assert_true(fd >= 0);
	status = play_greet(socket, &g, &fd, 1);
	assert_true(status == TES_GREETED || play_ends(socket));
	(void)close(socket);
	(void)close(fd);
	return status;
}

static int memfd(uint64_t size, int seals, unsigned int flags)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0 || ftruncate(fd, (off_t)size)) {
		if (fd >= 0)
			(void)close(fd);
		return -1;
	}
	assert_true(!seals || !fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static int read_only(uint64_t size)
{
	int fd = memfd(size, SEALS, 0), other;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDONLY | O_CLOEXEC);
	(void)close(fd);
	return other;
}

static int file(const struct play *play, uint64_t size)
{
	char path[TEST_PATH_MAX + 16];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/file", play->dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && !ftruncate(fd, (off_t)size));
	return fd;
}

static int one_end(void)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	(void)close(fds[1]);
	return fds[0];
}

static void memory_that_cannot_be_trusted_is_refused(void **state)
{
	const int bad = TES_GREETING_MEMORY;
	struct play play;
	int huge;

	(void)state;
	play_start(&play, 1, 0);
#define GREET(fd, len) greet_with(&play, fd, len)
	assert_int_equal(GREET(memfd(PLAY_SIZE, 0, 0), PLAY_SIZE), bad);
	assert_int_equal(GREET(memfd(PLAY_SIZE, F_SEAL_SHRINK, 0), PLAY_SIZE),
			 bad);
	assert_int_equal(GREET(memfd(PLAY_SIZE, F_SEAL_GROW, 0), PLAY_SIZE),
			 bad);
	assert_int_equal(
		GREET(memfd(PLAY_SIZE, SEALS | F_SEAL_WRITE, 0), PLAY_SIZE),
		bad);
	assert_int_equal(GREET(memfd(PLAY_SIZE, SEALS, 0), PLAY_SIZE / 2), bad);
	assert_int_equal(GREET(memfd(PLAY_SIZE, SEALS, 0), PLAY_SIZE * 2), bad);
	assert_int_equal(GREET(memfd(0, SEALS, 0), 0), bad);
	assert_int_equal(GREET(memfd(100, SEALS, 0), 100), bad);
	assert_int_equal(GREET(memfd(0, SEALS, 0), 1ull << 63),
			 TES_GREETING_TOO_LARGE);
	assert_int_equal(GREET(read_only(PLAY_SIZE), PLAY_SIZE), bad);
	assert_int_equal(GREET(file(&play, PLAY_SIZE), PLAY_SIZE), bad);
	assert_int_equal(GREET(one_end(), PLAY_SIZE), bad);
	huge = memfd(2u << 20, SEALS, MFD_HUGETLB);
	if (huge >= 0)
		assert_int_not_equal(GREET(huge, 2u << 20), TES_GREETED);
	assert_int_equal(GREET(memfd(PLAY_SIZE, SEALS, 0), PLAY_SIZE),
			 TES_GREETED);
	play_stop(&play);
}

static void descriptors_come_alone_and_only_where_one_is_due(void **state)
{
	int fds[20], fd = memfd(PLAY_SIZE, SEALS, 0);
	struct tes_greeting g;
	unsigned int before;
	struct play play;
	int socket;

	(void)state;
	play_start(&play, 1, 0);
	before = test_fds_open();
	for (size_t i = 0; i < TEST_COUNT(fds); i++)
		fds[i] = fd;
	for (size_t n = 0; n <= TEST_COUNT(fds); n++) {
		if (n == 1)
			continue;
		g = (struct tes_greeting)NEW(PLAY_SIZE);
		socket = play_connect(&play);
		assert_int_equal(play_greet(socket, &g, fds, n),
				 n ? TES_GREETING_FDS : TES_GREETING_NO_FD);
		assert_true(play_ends(socket));
		(void)close(socket);
	}
	g = (struct tes_greeting)NEW(0);
	g.word = TES_GREETING_JOIN;
	socket = play_connect(&play);
	assert_int_equal(play_greet(socket, &g, fds, 1), TES_GREETING_FDS);
	assert_true(play_ends(socket));
	(void)close(socket);
	assert_true(test_wait_until(has_fds_open, &before, PLAY_MS));
	(void)close(fd);
	play_stop(&play);
}

static void what_is_no_greeting_is_refused(void **state)
{
	const struct tes_greeting good = NEW(PLAY_SIZE);
	uint8_t bytes[TES_GREETING_LEN];
	static const size_t flips[] = {0, 3, 48, 63};
	struct tes_greeting g;
	struct play play;
	int socket;

	(void)state;
	play_start(&play, 1, 0);
	for (size_t i = 0; i < TEST_COUNT(flips); i++) {
		tes_greeting_encode(&good, bytes);
		bytes[flips[i]] ^= 1;
		socket = play_connect(&play);
		play_send(socket, bytes, sizeof(bytes), NULL, 0);
		assert_true(play_ends(socket));
		(void)close(socket);
	}
	socket = play_connect(&play); /* not whole */
	play_send(socket, bytes, 10, NULL, 0);
	assert_true(play_ends(socket));
	(void)close(socket);
	socket = play_connect(&play);
	g = good;
	g.version = 2;
	assert_int_equal(play_greet(socket, &g, NULL, 0), TES_GREETING_VERSION);
	(void)close(socket);
	socket = play_connect(&play);
	g = good;
	g.word = 9;
	assert_int_equal(play_greet(socket, &g, NULL, 0), TES_GREETING_BAD);
	(void)close(socket);
	play_stop(&play);
}

static char warned[1024]; /* lines that name a refusal */

static void keep_refusal(int level, const char *line, void *arg)
{
	size_t len = strlen(warned);

	(void)arg;
	if (level == TEI_LOG_WARN && strstr(line, "refused"))
		(void)snprintf(warned + len, sizeof(warned) - len, "%s;", line);
}

static void a_refusal_is_told_with_who_it_was(void **state)
{
	struct tes_greeting g = NEW(PLAY_SIZE);
	struct play play;
	char wanted[128];
	int socket;

	(void)state;
	warned[0] = '\0';
	tei_log_set_sink(keep_refusal, NULL);
	play_start(&play, 1, 0);
	socket = play_connect(&play);
	g.version = 2;
	assert_int_equal(play_greet(socket, &g, NULL, 0), TES_GREETING_VERSION);
	(void)close(socket);
	play_stop(&play);
	tei_log_set_sink(NULL, NULL);
	(void)snprintf(wanted, sizeof(wanted),
		       "dummies: refused: version (pid %d, uid %u);",
		       (int)getpid(), (unsigned int)getuid());
	assert_string_equal(warned, wanted);
}

#define STRANGER 64999 /* a user and group that nobody has */

/* What a process of that user and group is answered; 255: it cannot connect. */
static int greet_as(const struct play *play, uid_t uid, gid_t gid)
{
	struct tes_greeting g = NEW(PLAY_SIZE);
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		struct sockaddr_un un = {.sun_family = AF_UNIX};
		uint8_t bytes[TES_GREETING_LEN];
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		memcpy(un.sun_path, play->path, strlen(play->path) + 1);
		tes_greeting_encode(&g, bytes);
		if (setgroups(0, NULL) || setgid(gid) || setuid(uid) ||
		    connect(fd, (struct sockaddr *)&un, sizeof(un)) ||
		    send(fd, bytes, sizeof(bytes), 0) != sizeof(bytes) ||
		    recv(fd, bytes, sizeof(bytes), MSG_WAITALL) !=
			    sizeof(bytes) ||
		    !tes_greeting_decode(bytes, &g))
			_exit(255);
		_exit(g.word);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void another_user_is_let_in_by_the_settings_alone(void **state)
{
	struct play play;
	struct stat st;

	(void)state;
	if (geteuid())
		skip(); /* only root can be somebody else */
	warned[0] = '\0';
	tei_log_set_sink(keep_refusal, NULL);
	play_start(&play, 1, 0);
	assert_int_equal(chmod(play.dir, 0755), 0);
	assert_true(!stat(play.path, &st) && (st.st_mode & 0777) == 0600);
	assert_int_equal(greet_as(&play, STRANGER, STRANGER), 255);
	/* Nor when he can come to the socket. */
	assert_int_equal(chmod(play.path, 0666), 0);
	assert_int_equal(greet_as(&play, STRANGER, STRANGER),
			 TES_GREETING_NOT_ALLOWED);
	assert_true(tes_agent_stop(play.agent, PLAY_MS)); /* it has logged */
	assert_non_null(strstr(warned, "refused: not_allowed (pid "));
	assert_non_null(strstr(warned, "uid 64999"));
	assert_non_null(strstr(warned, "--socket_group"));
	play.config.socket_group = "daemon";
	play_restart(&play);
	assert_true(!stat(play.path, &st) && (st.st_mode & 0777) == 0660);
	assert_int_equal(greet_as(&play, STRANGER, st.st_gid),
			 TES_GREETING_NO_FD); /* he is in */
	assert_int_equal(chmod(play.path, 0666), 0);
	assert_int_equal(greet_as(&play, STRANGER, STRANGER),
			 TES_GREETING_NOT_ALLOWED);
	assert_true(tes_agent_stop(play.agent, PLAY_MS));
	play.config.socket_group = NULL;
	play.config.allow_uids = "1-5,64999";
	play_restart(&play);
	assert_int_equal(greet_as(&play, STRANGER, STRANGER),
			 TES_GREETING_NO_FD); /* he is in */
	assert_int_equal(greet_as(&play, STRANGER - 1, STRANGER),
			 TES_GREETING_NOT_ALLOWED);
	play_stop(&play);
	tei_log_set_sink(NULL, NULL);
}

static void the_directory_is_nobody_elses(void **state)
{
	char dir[TEST_PATH_MAX];

	(void)state;
	test_tmpdir_create(dir);
	assert_int_equal(chmod(dir, 0700), 0);
	assert_int_equal(tes_agent_dir_check(dir), 0);
	assert_int_equal(chmod(dir, 0710), 0);
	assert_int_equal(tes_agent_dir_check(dir), -EPERM);
	assert_int_equal(chmod(dir, 0701), 0);
	assert_int_equal(tes_agent_dir_check(dir), -EPERM);
	assert_int_equal(chmod(dir, 0700), 0);
	if (!geteuid()) {
		assert_int_equal(chown(dir, STRANGER, STRANGER), 0);
		assert_int_equal(tes_agent_dir_check(dir), -EPERM);
	}
	test_tmpdir_remove(dir);
}

static void who_says_nothing_is_hung_up_on(void **state)
{
	struct play play;
	int socket;

	(void)state;
	play_start(&play, 1, 0);
	socket = play_connect(&play);
	assert_true(play_ends(socket));
	(void)close(socket);
	play_stop(&play);
}

static void a_session_is_joined_by_who_knows_it(void **state)
{
	struct play_dummy dummy;
	struct tes_greeting g;
	struct play play;
	int socket;

	(void)state;
	play_start(&play, 1, 0);
	play_attach(&play, &dummy);
	for (int i = 0; i < 3; i++) {
		g = dummy.session;
		g.word = TES_GREETING_JOIN;
		g.token[0] ^= i == 1;
		g.session += i == 2;
		socket = play_connect(&play);
		assert_int_equal(play_greet(socket, &g, NULL, 0),
				 i ? TES_GREETING_NO_SESSION : TES_GREETED);
		(void)close(socket);
	}
	play_leave(&dummy);
	play_await(&play_store.n_registered, 0);
	/* It is over: what was right is of no use any more. */
	g = dummy.session;
	g.word = TES_GREETING_JOIN;
	socket = play_connect(&play);
	assert_int_equal(play_greet(socket, &g, NULL, 0),
			 TES_GREETING_NO_SESSION);
	(void)close(socket);
	play_stop(&play);
}

static void memory_is_bounded(void **state)
{
	struct play_dummy dummies[16];
	struct tes_greeting g = NEW(PLAY_SIZE);
	struct play play;
	int socket, fd;

	(void)state;
	play_start(&play, 1, 0);
	for (size_t i = 0; i < TEST_COUNT(dummies); i++)
		play_attach(&play, &dummies[i]);
	fd = memfd(PLAY_SIZE, SEALS, 0);
	socket = play_connect(&play);
	assert_int_equal(play_greet(socket, &g, &fd, 1),
			 TES_GREETING_NO_MEMORY);
	(void)close(socket);
	(void)close(fd);
	for (size_t i = 0; i < TEST_COUNT(dummies); i++)
		play_leave(&dummies[i]);
	play_await(&play_store.n_registered, 0);
	play_attach(&play, &dummies[0]);
	play_leave(&dummies[0]);
	play_stop(&play);
}

static void no_dummy_takes_what_is_there_for_all(void **state)
{
	/* Not a byte of it is used, yet all of it is announced. */
	const uint64_t sparse = 8 * (uint64_t)PLAY_SIZE;
	struct tes_greeting g = NEW(sparse);
	struct play_dummy dummy;
	struct play play;
	int socket, fd;

	(void)state;
	play_start(&play, 1, 0);
	assert_true(tes_agent_stop(play.agent, PLAY_MS));
	play.config.memory_each_max = sparse - 4096;
	play_restart(&play);
	fd = memfd(sparse, SEALS, 0);
	socket = play_connect(&play);
	assert_int_equal(play_greet(socket, &g, &fd, 1),
			 TES_GREETING_TOO_LARGE);
	(void)close(socket);
	(void)close(fd);
	play_attach(&play, &dummy);
	play_leave(&dummy);
	play_stop(&play);
}

/* ---- who makes way ---- */

#define N_ALL 64 /* sessions that there may be */

/*
 * The status that a process of its own gets with @length bytes; it ends then.
 */
static int attach_elsewhere(const struct play *play, uint64_t length)
{
	struct tes_greeting g = NEW(length);
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		int fd;

		tei_fault_disarm_all();
		fd = tes_sealed_create(length);
		_exit(play_greet(play_connect(play), &g, &fd, 1));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int exist(struct play_dummy *dummy)
{
	play_ask_piece(dummy, AGENT__AGENT_TYPE__AGENT_EXIST, 0, 0, 0, 0);
	return (int)play_result(dummy);
}

static void sessions_of_one_process_shut_no_other_out(void **state)
{
	struct play_dummy all[N_ALL], more;
	struct play play;

	(void)state;
	play_start(&play, 1, 2 * N_ALL * PLAY_SIZE);
	for (size_t i = 0; i < N_ALL; i++)
		play_attach(&play, &all[i]);
	assert_int_equal(exist(&all[0]), 1);
	assert_int_equal(attach_elsewhere(&play, PLAY_SIZE), TES_GREETED);
	/* Only the one that was idle for longest had to go. */
	assert_true(play_ends(all[1].socket));
	for (size_t i = 0; i < N_ALL; i++)
		assert_true(i == 1 || exist(&all[i]) == 1);
	/* Its own more give it no more than that. */
	play_await(&play_store.n_registered, N_ALL - 1);
	play_attach(&play, &more);
	play_leave(&all[1]);
	play_attach(&play, &all[1]);
	assert_true(play_ends(all[0].socket));
	for (size_t i = 0; i < N_ALL; i++)
		play_leave(&all[i]);
	play_leave(&more);
	play_stop(&play);
}

static void memory_of_one_process_shuts_no_other_out(void **state)
{
	const uint64_t most = 16 * (uint64_t)PLAY_SIZE;
	struct tes_greeting g = NEW(most);
	int fd = tes_sealed_create(most), socket;
	struct play play;

	(void)state;
	play_start(&play, 1, most);
	socket = play_connect(&play);
	assert_int_equal(play_greet(socket, &g, &fd, 1), TES_GREETED);
	/* Not for one that wants as much, and would have to go for this one. */
	assert_int_equal(attach_elsewhere(&play, most), TES_GREETING_NO_MEMORY);
	assert_int_equal(attach_elsewhere(&play, PLAY_SIZE), TES_GREETED);
	assert_true(play_ends(socket));
	(void)close(socket);
	(void)close(fd);
	play_stop(&play);
}

static void a_call_that_runs_ends_before_its_session(void **state)
{
	struct play_dummy all[N_ALL], more[2];
	struct play play;

	(void)state;
	play_start(&play, 1, 2 * N_ALL * PLAY_SIZE);
	atomic_store(&play_store.shut, true);
	for (size_t i = 0; i < N_ALL; i++) {
		play_attach(&play, &all[i]);
		play_ask_piece(&all[i], AGENT__AGENT_TYPE__AGENT_GET,
			       all[i].session.region, 0, 1, PLAY_MS);
		play_await(&play_store.n_waiting, 1); /* of the first */
	}
	assert_int_equal(attach_elsewhere(&play, PLAY_SIZE), TES_GREETED);
	/* Calls that only wait end with their session; the next one or two. */
	play_attach(&play, &more[0]);
	play_ask_piece(&more[0], AGENT__AGENT_TYPE__AGENT_GET,
		       more[0].session.region, 0, 1, PLAY_MS);
	play_attach(&play, &more[1]);
	assert_true(play_ends(all[1].socket));
	atomic_store(&play_store.shut, false);
	for (size_t i = 0; i < N_ALL; i++) {
		if (i == 1 || i == 2)
			continue;
		assert_int_equal(play_result(&all[i]), 1);
		assert_int_equal(all[i].memory[0], 'g');
	}
	assert_true(play_ends(all[0].socket));
	for (size_t i = 0; i < N_ALL; i++)
		play_leave(&all[i]);
	play_leave(&more[0]);
	play_leave(&more[1]);
	play_stop(&play);
}

#define N_JOINED 16

static void connections_make_way_when_descriptors_are_gone(void **state)
{
	struct play_dummy few, many;
	int sockets[N_JOINED];
	struct play play;

	(void)state;
	play_start(&play, 1, 0);
	play_attach(&play, &few);
	play_attach(&play, &many);
	for (size_t i = 0; i < N_JOINED; i++)
		sockets[i] = play_join(&play, &many);
	assert_int_equal(exist(&few), 1);
	tei_fault_arm(TEI_FAULT_SOCKET, 1);
	assert_int_equal(attach_elsewhere(&play, PLAY_SIZE), TES_GREETED);
	assert_true(tei_fault_struck(TEI_FAULT_SOCKET));
	tei_fault_disarm_all();
	assert_true(play_ends(many.socket));
	assert_int_equal(exist(&few), 1);
	for (size_t i = 0; i < N_JOINED; i++)
		(void)close(sockets[i]);
	play_leave(&many);
	play_leave(&few);
	play_stop(&play);
}

static _Atomic unsigned int n_made_way;

static void note_line(int level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	if (strstr(line, "makes way"))
		atomic_fetch_add(&n_made_way, 1);
}

/* Leaves no descriptor to this process; returns the limit that was there. */
static struct rlimit take_descriptors(void)
{
	struct rlimit before, none;
	int lowest = dup(STDOUT_FILENO);

	assert_true(lowest >= 0);
	(void)close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = (rlim_t)lowest;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	return before;
}

static void one_at_a_time_makes_way_for_descriptors(void **state)
{
	struct play_dummy many[2];
	int sockets[2][N_JOINED], status = 0;
	struct rlimit before;
	struct play play;
	pid_t pid;

	(void)state;
	te_log_set(note_line, NULL);
	play_start(&play, 2, 0);
	atomic_store(&play_store.shut, true);
	for (size_t i = 0; i < 2; i++) {
		play_attach(&play, &many[i]);
		for (size_t n = 0; n < N_JOINED; n++)
			sockets[i][n] = play_join(&play, &many[i]);
		play_ask_piece(&many[i], AGENT__AGENT_TYPE__AGENT_GET,
			       many[i].session.region, 0, 1, PLAY_MS);
	}
	play_await(&play_store.n_waiting, 2);
	before = take_descriptors();
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		(void)setrlimit(RLIMIT_NOFILE, &before);
		_exit(attach_elsewhere(&play, PLAY_SIZE));
	}
	play_await(&n_made_way, 1);
	/* Its descriptors come when its call is over: nobody else goes. */
	atomic_store(&play_store.shut, false);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(play_result(&many[i]), 1);
	assert_true(play_ends(many[0].socket));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), TES_GREETED);
	assert_int_equal(exist(&many[1]), 1);
	assert_int_equal(atomic_load(&n_made_way), 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	for (size_t i = 0; i < 2; i++) {
		for (size_t n = 0; n < N_JOINED; n++)
			(void)close(sockets[i][n]);
		play_leave(&many[i]);
	}
	play_stop(&play);
	te_log_set(NULL, NULL);
}

static void nobody_goes_where_that_would_not_do(void **state)
{
	struct play_dummy all[16];
	struct play play;

	(void)state;
	play_start(&play, 1, 16 * PLAY_SIZE);
	for (size_t i = 0; i < 16; i++)
		play_attach(&play, &all[i]);
	/* Four may go for it, by what it asks for: too few. */
	assert_int_equal(attach_elsewhere(&play, 12 * (uint64_t)PLAY_SIZE),
			 TES_GREETING_NO_MEMORY);
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(exist(&all[i]), 1);
	for (size_t i = 0; i < 16; i++)
		play_leave(&all[i]);
	play_stop(&play);
}

#define N_SILENT 100

static void who_says_nothing_shuts_nobody_out(void **state)
{
	struct play_dummy dummy;
	int sockets[N_SILENT];
	struct play play;

	(void)state;
	play_start(&play, 1, 0);
	for (size_t i = 0; i < N_SILENT; i++)
		sockets[i] = play_connect(&play);
	play_attach(&play, &dummy);
	/* The first had to make room, and the others have their time. */
	for (size_t i = 0; i < N_SILENT; i++) {
		assert_true(play_ends(sockets[i]));
		(void)close(sockets[i]);
	}
	play_ask_piece(&dummy, AGENT__AGENT_TYPE__AGENT_EXIST, 0, 0, 0, 0);
	assert_int_equal(play_result(&dummy), 1);
	play_leave(&dummy);
	play_stop(&play);
}

static void memory_that_is_taken_cannot_shrink(void **state)
{
	struct play_dummy dummy;
	struct play play;

	(void)state;
	play_start(&play, 1, 0);
	play_attach(&play, &dummy);
	assert_int_equal(ftruncate(dummy.fd, 4096), -1);
	assert_int_equal(ftruncate(dummy.fd, 2 * PLAY_SIZE), -1);
	/* What can be taken away reads as zeros. */
	memset(dummy.memory, 1, PLAY_SIZE);
	assert_int_equal(fallocate(dummy.fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   4096, PLAY_SIZE - 4096),
			 0);
	play_ask_piece(&dummy, AGENT__AGENT_TYPE__AGENT_PUT,
		       dummy.session.region, 0, PLAY_SIZE, 0);
	assert_int_equal(play_result(&dummy), 0);
	assert_int_equal(atomic_load(&play_store.sum), 4096);
	play_leave(&dummy);
	play_stop(&play);
}

static void starting_fails_cleanly(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	struct tes_agent_config config = {.n_threads = 2,
					  .socket_path = path,
					  .memory_max = PLAY_SIZE,
					  .host = "127.0.0.1"};
	static const enum tei_fault kinds[] = {
		TEI_FAULT_ALLOC, TEI_FAULT_SOCKET, TEI_FAULT_THREAD};

	(void)state;
	test_tmpdir_create(dir);
	(void)snprintf(path, sizeof(path), "%s/socket", dir);
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		struct test_faults f = {.kind = kinds[i]};

		while (test_faults_next(&f)) {
			struct tes_agent *agent = NULL;
			int rc = tes_agent_start(&config, &agent);

			assert_int_equal(rc == 0, agent != NULL);
			if (!rc)
				assert_true(tes_agent_stop(agent, PLAY_MS));
		}
	}
	config.socket_group = "no such group";
	{
		struct tes_agent *agent = NULL;

		assert_int_equal(tes_agent_start(&config, &agent), -ENOENT);
	}
	test_tmpdir_remove(dir);
}

static int start_at(const char *path)
{
	struct tes_agent_config config = {.n_threads = 1,
					  .socket_path = path,
					  .memory_max = PLAY_SIZE,
					  .host = "127.0.0.1"};
	struct tes_agent *agent = NULL;
	int rc = tes_agent_start(&config, &agent);

	if (!rc)
		assert_true(tes_agent_stop(agent, PLAY_MS));
	return rc;
}

static void only_a_socket_that_was_left_is_taken_away(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16], *long_path;
	char link[TEST_PATH_MAX + 16];
	struct stat st;
	int fd;

	(void)state;
	test_tmpdir_create(dir);
	(void)snprintf(path, sizeof(path), "%s/file", dir);
	(void)snprintf(link, sizeof(link), "%s/link", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "mine", 4), 4);
	(void)close(fd);
	assert_int_equal(symlink("file", link), 0);
	assert_int_equal(start_at(path), -EEXIST);
	assert_int_equal(start_at(link), -EEXIST);
	assert_true(!lstat(path, &st) && S_ISREG(st.st_mode));
	assert_int_equal(st.st_size, 4);
	assert_true(!lstat(link, &st) && S_ISLNK(st.st_mode));
	long_path = calloc(1, 200);
	assert_non_null(long_path);
	memset(long_path, 'a', 199);
	assert_int_equal(start_at(long_path), -ENAMETOOLONG);
	free(long_path);
	test_tmpdir_remove(dir);
}

static void what_took_the_place_of_a_socket_stays(void **state)
{
	struct play play;
	struct stat st;
	int fd;

	(void)state;
	play_start(&play, 1, 0);
	assert_int_equal(unlink(play.path), 0);
	fd = open(play.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_true(tes_agent_stop(play.agent, PLAY_MS));
	assert_int_equal(stat(play.path, &st), 0);
	test_tmpdir_remove(play.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_that_cannot_be_trusted_is_refused),
		cmocka_unit_test(
			descriptors_come_alone_and_only_where_one_is_due),
		cmocka_unit_test(what_is_no_greeting_is_refused),
		cmocka_unit_test(a_refusal_is_told_with_who_it_was),
		cmocka_unit_test(another_user_is_let_in_by_the_settings_alone),
		cmocka_unit_test(the_directory_is_nobody_elses),
		cmocka_unit_test(who_says_nothing_is_hung_up_on),
		cmocka_unit_test(a_session_is_joined_by_who_knows_it),
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(no_dummy_takes_what_is_there_for_all),
		cmocka_unit_test(sessions_of_one_process_shut_no_other_out),
		cmocka_unit_test(memory_of_one_process_shuts_no_other_out),
		cmocka_unit_test(a_call_that_runs_ends_before_its_session),
		cmocka_unit_test(
			connections_make_way_when_descriptors_are_gone),
		cmocka_unit_test(one_at_a_time_makes_way_for_descriptors),
		cmocka_unit_test(nobody_goes_where_that_would_not_do),
		cmocka_unit_test(who_says_nothing_shuts_nobody_out),
		cmocka_unit_test(memory_that_is_taken_cannot_shrink),
		cmocka_unit_test(starting_fails_cleanly),
		cmocka_unit_test(only_a_socket_that_was_left_is_taken_away),
		cmocka_unit_test(what_took_the_place_of_a_socket_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
