/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shutdown.c - engines are given back when the process is told to end
 *
 * The handler only writes to a pipe; a thread gives the engines back and then
 * lets the signal do what it would have done. The second signal does it at
 * once.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compat/engine/engine.h"

static int to_watcher = -1, from_handler = -1;
static pid_t owner; /* a fork child has the handler, but no watcher */
static atomic_bool has_begun;

static void end_by(int signal_number)
{
	(void)signal(signal_number, SIG_DFL);
	(void)kill(getpid(), signal_number);
}

static void on_signal(int signal_number)
{
	const unsigned char byte = (unsigned char)signal_number;
	int saved = errno;

	if (getpid() != owner || atomic_exchange(&has_begun, true) ||
	    write(to_watcher, &byte, 1) != 1)
		end_by(signal_number);
	errno = saved;
}

static void *watch_signals(void *arg)
{
	unsigned char byte;
	ssize_t n;

	(void)arg;
	do
		n = read(from_handler, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1) {
		mc_engines_give_back();
		end_by(byte);
	}
	return NULL;
}

static void take_over(int signal_number)
{
	struct sigaction action, old;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	if (!sigaction(signal_number, NULL, &old) && old.sa_handler == SIG_DFL)
		(void)sigaction(signal_number, &action, NULL);
}

static int start_watcher(void)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int fds[2], rc;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	from_handler = fds[0];
	to_watcher = fds[1];
	owner = getpid();
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, &attr, watch_signals, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	if (rc) {
		(void)close(fds[0]);
		(void)close(fds[1]);
	}
	return -rc;
}

void enableGracefulShutdown(transfer_engine_t engine)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static bool is_on;
	struct mc_engine *e = mc_engine_pin(engine, __func__);
	int rc;

	if (!e)
		return;
	(void)pthread_mutex_lock(&mutex);
	rc = is_on ? 0 : start_watcher();
	if (!rc && !is_on) {
		is_on = true;
		take_over(SIGINT);
		take_over(SIGTERM);
		(void)atexit(mc_engines_give_back);
	}
	(void)pthread_mutex_unlock(&mutex);
	if (rc)
		mc_warn(__func__, "%s", te_strerror(rc));
	mc_engine_unpin(e);
}
