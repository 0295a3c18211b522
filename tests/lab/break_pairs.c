/* SPDX-License-Identifier: Apache-2.0 */
/*
 * break_pairs.c - loaded before a program's own libraries (LD_PRELOAD), it puts
 * the program's queue pairs of one device, $BREAK_PAIRS, in the error state
 * whenever SIGUSR2 comes
 *
 * As a device does with one that it finds broken; nobody else may do so to a
 * program. Says how many there were.
 */
#include <infiniband/verbs.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS_MAX 64

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_qp *pairs[PAIRS_MAX]; /* guarded by mu; not owned */

/* Put @new where @old is. */
static void replace(const struct ibv_qp *old, struct ibv_qp *new)
{
	size_t i = 0;

	pthread_mutex_lock(&mu);
	while (i < PAIRS_MAX && pairs[i] != old)
		i++;
	if (i == PAIRS_MAX)
		abort();
	pairs[i] = new;
	pthread_mutex_unlock(&mu);
}

/* The library's own function of that name. */
static void *own(const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	if (!symbol)
		abort();
	return symbol;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
				    struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *(*create)(struct ibv_pd *, struct ibv_qp_init_attr *);
	struct ibv_qp *pair;

	*(void **)&create = own("ibv_create_qp");
	pair = create(pd, attr);
	if (pair)
		replace(NULL, pair);
	return pair;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *pair)
{
	int (*destroy)(struct ibv_qp *);

	*(void **)&destroy = own("ibv_destroy_qp");
	replace(pair, NULL);
	return destroy(pair);
}

static bool is_meant(const struct ibv_qp *pair)
{
	const char *device = getenv("BREAK_PAIRS");

	return pair && device &&
	       !strcmp(ibv_get_device_name(pair->context->device), device);
}

static void break_pairs(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	int n = 0;

	pthread_mutex_lock(&mu);
	for (size_t i = 0; i < PAIRS_MAX; i++)
		n += is_meant(pairs[i]) &&
		     !ibv_modify_qp(pairs[i], &attr, IBV_QP_STATE);
	pthread_mutex_unlock(&mu);
	(void)fprintf(stderr, "broke %d queue pairs\n", n);
}

static void *await_signals(void *set)
{
	int signal;

	while (!sigwait(set, &signal))
		break_pairs();
	return NULL;
}

/* Blocked in the threads that come later, too. */
__attribute__((constructor)) static void begin(void)
{
	static sigset_t set;
	pthread_t thread;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&thread, NULL, await_signals, &set))
		abort();
	pthread_detach(thread);
}
