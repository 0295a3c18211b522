/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - other programs, started and watched by a test */
#include "tests/lib/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define N_ARGS_MAX 64

struct test_process {
	pid_t pid;
	int out_fd;    /* a memory file that the child writes to */
	char *out;     /* what was read of it */
	size_t n_seen; /* bytes of out that line() has gone past */
	char *line;
	int status; /* of wait(), once ended */
	bool ended;
	char name[64];
};

/* In the child, between fork and exec. */
static void run(const char *program, char *const argv[], int out_fd,
		pid_t parent)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(out_fd, STDOUT_FILENO);
	dup2(out_fd, STDERR_FILENO);
	execv(program, argv);
	dprintf(STDERR_FILENO, "%s: %s\n", program, strerror(errno));
	_exit(127);
}

static void find_program(const char *program, char path[PATH_MAX])
{
	const char *dir = "";

	if (!strchr(program, '/')) {
		snprintf(path, PATH_MAX, TEST_HELPER_DIR "/%s", program);
		dir = access(path, X_OK) ? TEST_BIN_DIR "/"
					 : TEST_HELPER_DIR "/";
	}
	snprintf(path, PATH_MAX, "%s%s", dir, program);
}

struct test_process *test_process_start(const char *program,
					const char *const args[])
{
	struct test_process *p = calloc(1, sizeof(*p));
	char path[PATH_MAX], *argv[N_ARGS_MAX + 2];
	pid_t parent = getpid();
	size_t n = 0;

	assert_non_null(p);
	find_program(program, path);
	snprintf(p->name, sizeof(p->name), "%s", program);
	argv[n++] = path;
	for (; args && *args; args++) {
		assert_true(n <= N_ARGS_MAX);
		argv[n++] = (char *)(uintptr_t)*args;
	}
	argv[n] = NULL;
	p->out_fd = memfd_create("output", MFD_CLOEXEC);
	assert_true(p->out_fd >= 0);
	/* A memfd's offset has no lock: two threads would write at one place. */
	assert_int_equal(fcntl(p->out_fd, F_SETFL, O_APPEND), 0);
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (p->pid == 0)
		run(path, argv, p->out_fd, parent);
	return p;
}

pid_t test_process_pid(const struct test_process *p)
{
	return p->pid;
}

const char *test_process_output(struct test_process *p)
{
	struct stat st;
	ssize_t n;

	assert_int_equal(fstat(p->out_fd, &st), 0);
	free(p->out);
	p->out = malloc((size_t)st.st_size + 1);
	assert_non_null(p->out);
	n = pread(p->out_fd, p->out, (size_t)st.st_size, 0);
	p->out[n > 0 ? n : 0] = '\0';
	return p->out;
}

static bool has_ended(void *arg)
{
	struct test_process *p = arg;

	if (!p->ended && waitpid(p->pid, &p->status, WNOHANG) == p->pid)
		p->ended = true;
	return p->ended;
}

struct search {
	struct test_process *p;
	const char *text;
};

/* Goes past whole lines until one has the text; also true at the end. */
static bool find_line(void *arg)
{
	struct search *s = arg;
	struct test_process *p = s->p;
	bool ended = has_ended(p); /* before reading: nothing comes after */
	const char *at = test_process_output(p) + p->n_seen, *end;

	for (; (end = strchr(at, '\n')); at = end + 1) {
		p->n_seen = (size_t)(end + 1 - p->out);
		free(p->line);
		p->line = strndup(at, (size_t)(end - at));
		assert_non_null(p->line);
		if (strstr(p->line, s->text))
			return true;
		free(p->line);
		p->line = NULL;
	}
	return ended;
}

const char *test_process_line(struct test_process *p, const char *text,
			      unsigned int timeout_ms)
{
	struct search s = {p, text};

	free(p->line);
	p->line = NULL;
	test_wait_until(find_line, &s, timeout_ms);
	if (!p->line)
		print_message("%s: no line with \"%s\" in:\n%s\n", p->name,
			      text, test_process_output(p));
	return p->line;
}

void test_process_signal(struct test_process *p, int sig)
{
	siginfo_t how;

	if (has_ended(p))
		return;
	kill(p->pid, sig);
	if (sig == SIGSTOP) /* or it has died meanwhile */
		waitid(P_PID, (id_t)p->pid, &how, WSTOPPED | WEXITED | WNOWAIT);
}

int test_process_wait(struct test_process *p, unsigned int timeout_ms)
{
	if (!test_wait_until(has_ended, p, timeout_ms))
		return TEST_STILL_RUNNING;
	if (WIFSIGNALED(p->status))
		return -WTERMSIG(p->status);
	return WEXITSTATUS(p->status);
}

void test_process_end(struct test_process *p)
{
	if (!p)
		return;
	if (!has_ended(p)) {
		kill(p->pid, SIGKILL);
		waitpid(p->pid, &p->status, 0);
	}
	close(p->out_fd);
	free(p->out);
	free(p->line);
	free(p);
}

char *test_process_run(const char *program, const char *const args[], int code,
		       unsigned int timeout_ms)
{
	struct test_process *p = test_process_start(program, args);
	int ended = test_process_wait(p, timeout_ms);
	char *text = strdup(test_process_output(p));

	test_process_end(p);
	assert_non_null(text);
	if (ended != code)
		print_error("%s ended with %d:\n%s\n", program, ended, text);
	assert_int_equal(ended, code);
	return text;
}
