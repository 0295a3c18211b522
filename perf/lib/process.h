/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - children of the benchmarks: start, talk to, stop
 *
 * Two kinds. A server writes to a log that lies in memory and is only looked
 * at for its start-up line and when it fails. A helper is this same program in
 * another role; it talks by lines over its standard input and output. Every
 * child gets SIGTERM when its parent dies, so none is left behind.
 *
 * Threads: one per process at a time. Children are to be started by the main
 * thread: the death of the thread that started them counts as the parent's.
 */
#ifndef PERF_LIB_PROCESS_H
#define PERF_LIB_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TEI_PROCESS_LINE 512

struct tei_process {
	const char *what; /* for messages: "master"; not owned */
	pid_t pid;        /* 0: none */
	int pidfd;
	int log;     /* server: memfd with its output; else -1 */
	int in, out; /* helper: pipes to and from it; else -1 */
	size_t n_heard;
	char heard[TEI_PROCESS_LINE]; /* read from out, not handed out yet */
};

/* No process: tei_process_stop() of it is a no-op. */
#define TEI_PROCESS_NONE \
	((struct tei_process){.pidfd = -1, .log = -1, .in = -1, .out = -1})

/*
 * Start a server, or nothing is left and a line is on stderr. -errno. It is in
 * a process group of its own: an interrupt of a terminal is for the benchmark,
 * which ends its servers.
 */
int tei_process_start_server(struct tei_process *p, const char *what,
			     char *const argv[]);
/* Start a helper that also inherits @keep_fd (-1: none) under that number. */
int tei_process_start_helper(struct tei_process *p, const char *what,
			     char *const argv[], int keep_fd);

/* Start one whose input and output are @fd; it ends when that does. */
int tei_process_start_session(struct tei_process *p, const char *what,
			      char *const argv[], int fd);
/* Makes lines go over a socket, which stop() closes; there is no process. */
void tei_process_adopt(struct tei_process *p, const char *what, int fd);

/*
 * Wait until a server has logged a line with @text in it and copy what follows
 * @text on that line. -ETIMEDOUT, -ECHILD (it ended). On failure its log has
 * been copied to stderr.
 */
int tei_process_await_log(struct tei_process *p, const char *text, char *rest,
			  size_t rest_len, uint64_t timeout_ms);

/* Send a helper a line (without its newline). -EPIPE: it is gone. */
int tei_process_say(struct tei_process *p, const char *line);
/* Read its next line, without newline. -ETIMEDOUT, -EPIPE (ended), -E2BIG. */
int tei_process_hear(struct tei_process *p, char line[TEI_PROCESS_LINE],
		     uint64_t timeout_ms);
/* Says on stderr that helper @i of @program ended early: @rc of say or hear. */
void tei_process_tell_end(const struct tei_process *p, const char *program,
			  unsigned int i, int rc);

/* Returns the ns of CPU that it has used so far; 0: it is gone. */
uint64_t tei_process_cpu_ns(const struct tei_process *p);
/* Returns the bytes resident; 0: not known. */
uint64_t tei_process_rss(const struct tei_process *p);
bool tei_process_alive(const struct tei_process *p);

/*
 * End it: helpers by closing their input, servers by SIGTERM, both by SIGKILL
 * after @timeout_ms. Returns the exit code, 128 + the signal, 0 for none; the
 * output of a server that did not end with 0 has been copied to stderr.
 */
int tei_process_stop(struct tei_process *p, uint64_t timeout_ms);

/* Does the same, with SIGTERM for helpers, too. */
int tei_process_terminate(struct tei_process *p, uint64_t timeout_ms);

/*
 * Path of the file @name beside this program's own; NULL: the own one.
 * -ENAMETOOLONG or another negative errno.
 */
int tei_process_path(const char *name, char out[PATH_MAX]);
/* Bind the calling thread, and those it starts, to one core. Best effort. */
void tei_process_pin(unsigned int core);
/* Returns the cores of this host, 1 or more. */
unsigned int tei_process_cores(void);
/* Raises the limit of open files to what this process may have. */
void tei_process_many_files(void);
/* Returns the CPU time of this process, of all threads. */
uint64_t tei_process_own_cpu_ns(void);

/*
 * @len bytes of zeros, in a memfd called @name. munmap() and close(). -errno.
 */
int tei_shared_create(const char *name, uint64_t len, void **out, int *out_fd);
/* Map all of another's. -EINVAL: it has less than @least bytes; -errno. */
int tei_shared_open(int fd, uint64_t least, void **out);

/* Tells whether the next line begins with @word. Blocks. */
bool tei_worker_hear(const char *word);
void tei_worker_say(const char *word);

#endif
