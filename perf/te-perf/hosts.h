/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosts.h - hosts of a scheme, which move bytes among themselves as they are
 * told
 *
 * A host is a te-perf that listens, on another machine, or a process that this
 * one starts. With --bidirectional alone there are two: a process for this
 * side, and the target. What goes wrong with a host is said on stderr with its
 * name; then it is lost, and is asked for nothing more.
 */
#ifndef PERF_TE_PERF_HOSTS_H
#define PERF_TE_PERF_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "perf/lib/process.h"
#include "perf/te-perf/options.h"

struct host {
	char name[TE_NAME_LEN_MAX + 1]; /* "a:7000", or of a process */
	struct tei_process process;
	char engine[TEI_PROCESS_LINE]; /* the name of its engine */
	bool submits; /* it is the first of a pair: a submitter */
	bool lost;
	uint64_t deadline_ns; /* of all its answers; UINT64_MAX: none yet */
};

struct hosts {
	const struct options *options; /* not owned */
	uint32_t n;
	struct host host[HOSTS_MAX];
};

/*
 * Reaches or starts all hosts and sets up the pairs of o->pairs. -EIO; -EINVAL:
 * a name is wrong; both said. hosts_close() them after a failure, too. Blocks:
 * for hosts that serve others, and while memory is touched.
 */
int hosts_open(struct hosts *h, const struct options *o);
/* Ends all processes and connections. -EIO: a process did not end well. */
int hosts_close(struct hosts *h);
/*
 * Says a line to all, or to submitters only, and hears the answers, which begin
 * with @word. -EIO: one is lost; the others have answered.
 */
int hosts_ask(struct hosts *h, bool all, const char *line, const char *word);
/* Says @line to the submitters that are not lost. */
void hosts_say(struct hosts *h, const char *line);
/*
 * Hears the next line of a host, which begins with @word, or with one of
 * several ("one|two"). -EIO: the host is lost.
 */
int host_hear(struct host *host, const char *word,
	      char answer[TEI_PROCESS_LINE]);
/*
 * Says that @answer, by which a line of ours was answered, cannot be read: the
 * host is lost. Returns -EIO.
 */
int host_misheard(struct host *host, const char *answer);
/* Returns the CPU time of all so far, or 0 when one is lost. */
uint64_t hosts_cpu_ns(struct hosts *h);
bool hosts_lost(const struct hosts *h);
/*
 * Gives all hosts ten more seconds for all their answers together: requests to
 * a host that is lost may never end.
 */
void hosts_hurry(struct hosts *h);

#endif
