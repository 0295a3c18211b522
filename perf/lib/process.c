/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.c - children of the benchmarks: start, talk to, stop
 */
#include "perf/lib/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LOG_LOOK_MS 1    /* between two looks at a server's log */
#define LOG_MAX     8192 /* bytes of a log that are looked at and shown */

/* ---- start ---- */

struct streams {
	int in, out, err; /* what the child shall have as 0, 1, 2 */
	int keep_fd;
	bool own_group; /* what a terminal signals does not reach it */
};

/*
 * Runs in the child, between fork and exec. dup2() onto itself would leave
 * close-on-exec set, but none of ours is below 3.
 */
static _Noreturn void become_program(char *const argv[],
				     const struct streams *s, pid_t parent)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(127);
	if (s->own_group)
		setpgid(0, 0);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(s->in, STDIN_FILENO);
	dup2(s->out, STDOUT_FILENO);
	dup2(s->err, STDERR_FILENO);
	syscall(SYS_close_range, 3u, ~0u, 1u << 2 /* CLOSE_RANGE_CLOEXEC */);
	if (s->keep_fd >= 0)
		fcntl(s->keep_fd, F_SETFD, 0);
	execv(argv[0], argv);
	_exit(127);
}

static int start_process(struct tei_process *p, char *const argv[],
			 const struct streams *s)
{
	pid_t parent = getpid(), pid;

	if (access(argv[0], X_OK)) {
		fprintf(stderr, "%s: cannot execute %s: %s\n", p->what, argv[0],
			strerror(errno));
		return -ENOENT;
	}
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		become_program(argv, s, parent);
	if (pid < 0) {
		fprintf(stderr, "%s: fork: %s\n", p->what, strerror(errno));
		return -EAGAIN;
	}
	p->pid = pid;
	p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int tei_process_start_server(struct tei_process *p, const char *what,
			     char *const argv[])
{
	struct streams s = {.keep_fd = -1, .own_group = true};
	int rc;

	*p = TEI_PROCESS_NONE;
	p->what = what;
	p->log = memfd_create(what, MFD_CLOEXEC);
	if (p->log < 0)
		return -errno;
	s.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	s.out = s.err = p->log;
	rc = s.in < 0 ? -errno : start_process(p, argv, &s);
	close_fd(&s.in);
	if (rc)
		close_fd(&p->log);
	return rc;
}

int tei_process_start_helper(struct tei_process *p, const char *what,
			     char *const argv[], int keep_fd)
{
	struct streams s = {.err = STDERR_FILENO, .keep_fd = keep_fd};
	int in[2] = {-1, -1}, out[2] = {-1, -1}, rc;

	*p = TEI_PROCESS_NONE;
	p->what = what;
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) {
		rc = -errno;
		goto close_pipes;
	}
	s.in = in[0];
	s.out = out[1];
	rc = start_process(p, argv, &s);
	if (rc)
		goto close_pipes;
	close_fd(&in[0]);
	close_fd(&out[1]);
	p->in = in[1];
	p->out = out[0];
	return 0;

close_pipes:
	close_fd(&in[0]);
	close_fd(&in[1]);
	close_fd(&out[0]);
	close_fd(&out[1]);
	return rc;
}

int tei_process_start_session(struct tei_process *p, const char *what,
			      char *const argv[], int fd)
{
	struct streams s = {
		.in = fd, .out = fd, .err = STDERR_FILENO, .keep_fd = -1};

	*p = TEI_PROCESS_NONE;
	p->what = what;
	return start_process(p, argv, &s);
}

void tei_process_adopt(struct tei_process *p, const char *what, int fd)
{
	*p = TEI_PROCESS_NONE;
	p->what = what;
	p->in = p->out = fd;
}

/* ---- servers ---- */

static size_t read_log(const struct tei_process *p, char text[LOG_MAX])
{
	ssize_t n = pread(p->log, text, LOG_MAX - 1, 0);

	text[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

static void show_log(const struct tei_process *p, const char *why)
{
	char text[LOG_MAX];

	read_log(p, text);
	fprintf(stderr, "%s: %s; its output:\n%s\n", p->what, why, text);
}

/* Copy what follows @text on its line; false while the line is not complete. */
static bool find_in_log(const struct tei_process *p, const char *text,
			char *rest, size_t rest_len)
{
	char log[LOG_MAX], *at, *end;

	read_log(p, log);
	at = strstr(log, text);
	end = at ? strchr(at, '\n') : NULL;
	if (!end)
		return false;
	*end = 0;
	snprintf(rest, rest_len, "%s", at + strlen(text));
	return true;
}

static bool ends_within(const struct tei_process *p, uint64_t timeout_ms)
{
	struct pollfd pfd = {.fd = p->pidfd, .events = POLLIN};
	int ms = timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms;

	return p->pid && poll(&pfd, 1, ms) == 1;
}

int tei_process_await_log(struct tei_process *p, const char *text, char *rest,
			  size_t rest_len, uint64_t timeout_ms)
{
	uint64_t deadline = tei_now_ms() + timeout_ms;

	while (!find_in_log(p, text, rest, rest_len)) {
		if (ends_within(p, LOG_LOOK_MS)) {
			show_log(p, "ended before it was ready");
			return -ECHILD;
		}
		if (tei_now_ms() >= deadline) {
			show_log(p, "not ready in time");
			return -ETIMEDOUT;
		}
	}
	return 0;
}

/* ---- helpers ---- */

void tei_process_tell_end(const struct tei_process *p, const char *program,
			  unsigned int i, int rc)
{
	fprintf(stderr, "%s: %s %u (pid %d) ended early: %s\n", program,
		p->what, i, (int)p->pid, strerror(-rc));
}

int tei_process_say(struct tei_process *p, const char *line)
{
	char text[TEI_PROCESS_LINE + 1];
	int n = snprintf(text, sizeof(text), "%s\n", line);

	if (n >= (int)sizeof(text))
		return -E2BIG;
	/* Shorter than PIPE_BUF, so never written in part. */
	if (write(p->in, text, (size_t)n) != n)
		return -EPIPE;
	return 0;
}

/* Hand out the first line of what was heard; false: there is none yet. */
static bool take_line(struct tei_process *p, char line[TEI_PROCESS_LINE])
{
	char *end = memchr(p->heard, '\n', p->n_heard);
	size_t len;

	if (!end)
		return false;
	len = (size_t)(end - p->heard);
	memcpy(line, p->heard, len);
	line[len] = 0;
	p->n_heard -= len + 1;
	memmove(p->heard, end + 1, p->n_heard);
	return true;
}

int tei_process_hear(struct tei_process *p, char line[TEI_PROCESS_LINE],
		     uint64_t timeout_ms)
{
	struct pollfd pfd = {.fd = p->out, .events = POLLIN};
	uint64_t now = tei_now_ms(), deadline = now + timeout_ms;
	ssize_t n;

	while (!take_line(p, line)) {
		if (p->n_heard == sizeof(p->heard))
			return -E2BIG;
		now = tei_now_ms();
		if (poll(&pfd, 1, deadline > now ? (int)(deadline - now) : 0) <
		    1)
			return -ETIMEDOUT;
		n = read(p->out, p->heard + p->n_heard,
			 sizeof(p->heard) - p->n_heard);
		if (n <= 0)
			return -EPIPE;
		p->n_heard += (size_t)n;
	}
	return 0;
}

/* ---- looking and stopping ---- */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * TEI_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t tei_process_own_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t tei_process_cpu_ns(const struct tei_process *p)
{
	clockid_t clock;

	if (!p->pid || clock_getcpuclockid(p->pid, &clock))
		return 0;
	return clock_ns(clock);
}

uint64_t tei_process_rss(const struct tei_process *p)
{
	unsigned long long pages = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)p->pid);
	f = p->pid ? fopen(path, "re") : NULL;
	if (!f)
		return 0;
	if (fscanf(f, "%*s %llu", &pages) != 1)
		pages = 0;
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool tei_process_alive(const struct tei_process *p)
{
	return p->pid && !ends_within(p, 0);
}

int tei_process_stop(struct tei_process *p, uint64_t timeout_ms)
{
	int status = 0;

	if (p->out == p->in)
		p->out = -1; /* adopted: one fd for both */
	close_fd(&p->in);
	if (!p->pid)
		return 0;
	if (p->log >= 0)
		kill(p->pid, SIGTERM);
	if (!ends_within(p, timeout_ms)) {
		fprintf(stderr, "%s: did not stop within %d ms, killed\n",
			p->what, (int)timeout_ms);
		kill(p->pid, SIGKILL);
	}
	waitpid(p->pid, &status, 0);
	if (status && p->log >= 0)
		show_log(p, "did not end well");
	close_fd(&p->out);
	close_fd(&p->log);
	close_fd(&p->pidfd);
	p->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int tei_process_terminate(struct tei_process *p, uint64_t timeout_ms)
{
	if (p->pid)
		kill(p->pid, SIGTERM);
	return tei_process_stop(p, timeout_ms);
}

int tei_process_path(const char *name, char out[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
	size_t room;
	char *slash;

	if (n < 0)
		return -errno;
	out[n] = 0;
	if (!name)
		return 0;
	slash = strrchr(out, '/');
	room = (size_t)(out + PATH_MAX - (slash + 1));
	if (strlen(name) >= room)
		return -ENAMETOOLONG;
	memcpy(slash + 1, name, strlen(name) + 1);
	return 0;
}

void tei_process_pin(unsigned int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

void tei_process_many_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

unsigned int tei_process_cores(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (unsigned int)n : 1;
}

static int map_shared(int fd, uint64_t len, void **out)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*out = p;
	return 0;
}

int tei_shared_create(const char *name, uint64_t len, void **out, int *out_fd)
{
	int fd = memfd_create(name, MFD_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, (off_t)len) ? -errno : map_shared(fd, len, out);
	if (rc)
		close(fd);
	else
		*out_fd = fd;
	return rc;
}

int tei_shared_open(int fd, uint64_t least, void **out)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((uint64_t)st.st_size < least)
		return -EINVAL;
	return map_shared(fd, (uint64_t)st.st_size, out);
}

bool tei_worker_hear(const char *word)
{
	char line[64];

	return fgets(line, sizeof(line), stdin) &&
	       !strncmp(line, word, strlen(word));
}

void tei_worker_say(const char *word)
{
	puts(word);
	fflush(stdout);
}
