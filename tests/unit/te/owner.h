/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.h - a plain socket that an engine takes for its peer
 *
 * It answers as it is told, well or badly, on a thread of its own.
 */
#ifndef TESTS_UNIT_TE_OWNER_H
#define TESTS_UNIT_TE_OWNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What it says on one connection. */
struct owner_script {
	const char *refusal; /* the answer to any frame, and hangs up */
	bool for_now;        /* that refusal */
	uint32_t hello_status;
	uint32_t hello_version; /* 0: the right one */
	uint64_t hello_taken, hello_losses;
	bool hangs_up;   /* instead of an answer */
	bool garbage;    /* as an answer */
	uint32_t status; /* else these */
	uint64_t taken;
	bool is_last; /* also for all connections after it */
};

struct owner {
	char name[64];
	int listener;
	unsigned int n_answers, n_answered;
	const struct owner_script *scripts;
	_Atomic unsigned int n_notified; /* frames with notifications */
	pthread_t thread;
};

/*
 * On each connection it answers the first @n_answers frames and then only
 * notifications. @scripts: one a connection; NULL: it takes none of these.
 */
void owner_start(struct owner *o, unsigned int n_answers,
		 const struct owner_script *scripts);
/* After the engine is gone, and with it the connections. */
void owner_stop(struct owner *o);

#endif
