/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - the fake driver's lock, and errors that tests want of its calls */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/fake_cuda/private.h"

#define FAILS_MAX 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static struct {
	const char *function;
	int error;
	unsigned int n_left; /* calls that work before */
} fails[FAILS_MAX];

void fake_cuda_need(bool condition)
{
	if (!condition)
		abort();
}

int fake_cuda_fault_of(const char *function)
{
	for (int i = 0; i < FAILS_MAX; i++) {
		if (!fails[i].function || strcmp(fails[i].function, function))
			continue;
		if (!fails[i].n_left)
			return fails[i].error;
		fails[i].n_left--;
	}
	return 0;
}

void fake_cuda_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fake_cuda_await_change(void)
{
	pthread_cond_wait(&change, &lock);
}

void fake_cuda_changed(void)
{
	pthread_cond_broadcast(&change);
}

void fake_cuda_rest(unsigned int us)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += us * 1000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	(void)pthread_cond_timedwait(&change, &lock, &until);
}

int fake_cuda_leave(int error)
{
	pthread_mutex_unlock(&lock);
	return error;
}

FAKE_CUDA_EXPORT void fake_cuda_fail_after(const char *function, unsigned int n,
					   int error)
{
	int free_row = -1;

	pthread_mutex_lock(&lock);
	for (int i = FAILS_MAX - 1; i >= 0; i--) {
		if (fails[i].function && !strcmp(fails[i].function, function))
			fails[i].function = NULL;
		if (!fails[i].function)
			free_row = i;
	}
	fake_cuda_need(free_row >= 0);
	if (error) {
		fails[free_row].function = function;
		fails[free_row].error = error;
		fails[free_row].n_left = n;
	}
	pthread_mutex_unlock(&lock);
}

FAKE_CUDA_EXPORT void fake_cuda_fail(const char *function, int error)
{
	fake_cuda_fail_after(function, 0, error);
}

void fake_cuda_faults_reset(void)
{
	memset(fails, 0, sizeof(fails));
}
