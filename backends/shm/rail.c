/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rail.c - the rail: epoll, young connections, reports, progress
 *
 * One epoll holds the sockets and the peers' pidfds, and its fd is what the core
 * waits for. Copies that are due are announced by rail->busy instead, and while
 * there are any the epoll is looked at only now and then.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "backends/shm/shm.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include <te/te.h>

#define EVENTS_MAX  64
#define ACCEPTS_MAX 16
#define LOOK_EVERY  32  /* turns of copying between two looks at the epoll */
#define DRAIN_MS    1   /* between two looks at a mark */
#define YOUNG_MS    250 /* or at the age of young connections */
#define YAMA        "/proc/sys/kernel/yama/ptrace_scope"

int tei_shm_watch(const struct shm_rail *rail, struct shm_source *source)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = source};

	return epoll_ctl(rail->epoll_fd, EPOLL_CTL_ADD, source->fd, &ev)
		       ? -errno
		       : 0;
}

/*
 * Taken out of the epoll and shut down by hand: a forked child has the
 * descriptor as well, so events would go on coming, and the peer would not see
 * the end.
 */
void tei_shm_source_close(const struct shm_rail *rail,
			  struct shm_source *source)
{
	if (source->fd >= 0) {
		epoll_ctl(rail->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
		(void)shutdown(source->fd, SHUT_RDWR);
		close(source->fd);
	}
	source->fd = -1;
}

void tei_shm_kick(struct shm_rail *rail)
{
	if (!rail->in_progress)
		(void)eventfd_write(rail->kick.fd, 1);
}

void tei_shm_bad(struct shm_rail *rail, const char *what)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	atomic_fetch_add_explicit(&rail->base->bad_frames, 1,
				  memory_order_relaxed);
	if (tei_log_allowed(&limit))
		LOG_WARN("rail shm/0: connection closed: %s", what);
}

/* ---- opening ---- */

static void init(struct shm_rail *rail, struct tei_rail *base)
{
	rail->base = base;
	rail->epoll_fd = rail->dir_fd = -1;
	rail->listener = (struct shm_source){SHM_SOURCE_LISTENER, -1};
	rail->kick = (struct shm_source){SHM_SOURCE_KICK, -1};
	rail->tick = (struct shm_source){SHM_SOURCE_TICK, -1};
	rail->stream = tei_shm_copy_streaming();
	tei_list_init(&rail->young);
	tei_list_init(&rail->dead);
	tei_list_init(&rail->waiting);
	tei_list_init(&rail->draining);
	tei_list_init(&rail->active);
	tei_list_init(&rail->broken);
	tei_list_init(&rail->refused);
}

static int open_fds(struct shm_rail *rail)
{
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (rail->epoll_fd < 0)
		return -errno;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	rail->kick.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rail->kick.fd < 0)
		return -errno;
	rail->tick.fd =
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return rail->tick.fd < 0 ? -errno : 0;
}

static void close_fds(struct shm_rail *rail)
{
	tei_shm_source_close(rail, &rail->tick);
	tei_shm_source_close(rail, &rail->kick);
	if (rail->dir_fd >= 0)
		close(rail->dir_fd);
	if (rail->epoll_fd >= 0)
		close(rail->epoll_fd);
}

static int watch_all(struct shm_rail *rail)
{
	int rc = tei_shm_watch(rail, &rail->kick);

	if (!rc)
		rc = tei_shm_watch(rail, &rail->tick);
	if (!rc)
		rc = tei_shm_watch(rail, &rail->listener);
	rail->listening = !rc;
	return rc;
}

/* Where only parents may look at a process's memory, peers may not at ours. */
static bool memory_is_open(void)
{
	char scope = '0';
	int fd;

	fd = open(YAMA, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	if (read(fd, &scope, 1) != 1)
		scope = '0';
	close(fd);
	return scope == '0';
}

static int open_dir(struct shm_rail *rail)
{
	int rc = tei_shm_host_read(&rail->host);

	if (rc)
		LOG_WARN("rail shm/0: /proc does not say which host this is");
	else
		rc = tei_shm_uids_parse(rail, shm_config(rail)->allow_uids);
	if (!rc)
		rc = tei_shm_dir_open(rail);
	if (rc)
		return rc == -EINVAL || tei_is_shortage(rc) ? rc : -ENODEV;
	tei_shm_dir_sweep(rail);
	return 0;
}

int tei_shm_rail_open(struct tei_rail *base)
{
	struct shm_rail *rail = shm_rail(base);
	int rc;

	init(rail, base);
	rail->foreign = shm_config(rail)->foreign && memory_is_open();
	rc = open_dir(rail);
	if (!rc)
		rc = open_fds(rail);
	if (rc)
		goto close_fds;
	rc = -ENOMEM;
	rail->bounce = tei_aligned_calloc(4096, SHM_BOUNCE_LEN);
	if (!rail->bounce)
		goto close_fds;
	rc = tei_hash_init(&rail->regions);
	if (rc)
		goto free_bounce;
	rc = tei_shm_listen(rail);
	if (rc)
		goto fini_regions;
	rc = watch_all(rail);
	if (rc)
		goto unlisten;
	tei_mutex_init(&rail->mu);
	return 0;

unlisten:
	tei_shm_unlisten(rail);
fini_regions:
	tei_hash_fini(&rail->regions);
free_bounce:
	tei_free(rail->bounce);
close_fds:
	close_fds(rail);
	return rc;
}

static void free_dead(struct shm_rail *rail)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&rail->dead)))
		tei_free(tei_list_entry(node, struct shm_young, link));
}

static void young_end(struct shm_rail *rail, struct shm_young *young)
{
	tei_shm_source_close(rail, &young->source);
	tei_list_del(&young->link);
	tei_list_add_tail(&rail->dead, &young->link);
	rail->n_young--;
}

void tei_shm_rail_close(struct tei_rail *base)
{
	struct shm_rail *rail = shm_rail(base);

	while (!tei_list_empty(&rail->young))
		young_end(rail, tei_list_entry(rail->young.next,
					       struct shm_young, link));
	free_dead(rail);
	tei_shm_unlisten(rail);
	tei_hash_fini(&rail->regions);
	tei_mutex_fini(&rail->mu);
	tei_free(rail->bounce);
	close_fds(rail);
}

int tei_shm_wait_fd(struct tei_rail *base)
{
	return shm_rail(base)->epoll_fd;
}

/* ---- the clock ---- */

void tei_shm_tick(struct shm_rail *rail)
{
	struct itimerspec spec = {0};
	uint64_t ms = 0;

	if (!tei_list_empty(&rail->young) || !rail->listening)
		ms = YOUNG_MS;
	if (!tei_list_empty(&rail->draining))
		ms = DRAIN_MS;
	if (ms == rail->tick_ms)
		return;
	rail->tick_ms = ms;
	spec.it_value.tv_nsec = (long)(ms * TEI_NS_PER_MS);
	spec.it_interval = spec.it_value;
	(void)timerfd_settime(rail->tick.fd, 0, &spec, NULL);
}

static void handle_tick(struct shm_rail *rail)
{
	uint64_t now = tei_now_ms(), times;

	if (read(rail->tick.fd, &times, sizeof(times)) < 0)
		return;
	tei_list_for_each_safe (node, tmp, &rail->draining) {
		tei_shm_drained(
			tei_list_entry(node, struct shm_endpoint, draining));
	}
	tei_list_for_each_safe (node, tmp, &rail->young) {
		struct shm_young *young =
			tei_list_entry(node, struct shm_young, link);

		if (young->deadline_ms > now)
			break;
		tei_shm_bad(rail, "no hello in time");
		young_end(rail, young);
	}
	if (!rail->listening)
		rail->listening = !tei_shm_watch(rail, &rail->listener);
	tei_shm_tick(rail);
}

/* ---- accepting ---- */

static void pause_accept(struct shm_rail *rail)
{
	epoll_ctl(rail->epoll_fd, EPOLL_CTL_DEL, rail->listener.fd, NULL);
	rail->listening = false;
	tei_shm_tick(rail);
}

static int take_young(struct shm_rail *rail, int fd)
{
	struct shm_young *young;
	uint32_t uid = 0, pid = 0;
	int rc = tei_shm_peer(fd, &uid, &pid);

	if (rc || !tei_shm_uid_is_allowed(rail, uid)) {
		tei_shm_bad(rail, "user is not allowed to attach");
		return -EACCES;
	}
	young = tei_calloc(1, sizeof(*young));
	if (!young)
		return -ENOMEM;
	young->source = (struct shm_source){SHM_SOURCE_YOUNG, fd};
	young->deadline_ms = tei_now_ms() + shm_config(rail)->connect_timeout;
	rc = tei_shm_watch(rail, &young->source);
	if (rc) {
		tei_free(young);
		return rc;
	}
	tei_list_add_tail(&rail->young, &young->link);
	rail->n_young++;
	tei_shm_tick(rail);
	return 0;
}

/* False: nobody waits, or nobody can be taken now. */
static bool accept_one(struct shm_rail *rail)
{
	int fd = -1;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		errno = EMFILE;
	else
		fd = accept4(rail->listener.fd, NULL, NULL,
			     SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		    errno == ENOBUFS)
			pause_accept(rail);
		return errno == ECONNABORTED || errno == EINTR;
	}
	if (rail->n_young >=
	    SHM_YOUNG_MAX) { /* honest ones say hello at once */
		tei_shm_bad(rail, "too many without hello");
		young_end(rail, tei_list_entry(rail->young.next,
					       struct shm_young, link));
	}
	if (take_young(rail, fd))
		close(fd);
	return true;
}

static void young_event(struct shm_rail *rail, struct shm_young *young)
{
	struct shm_message m;
	int fd, rc;

	rc = tei_shm_receive(young->source.fd, &m, &fd);
	if (rc == -EAGAIN)
		return;
	if (!rc && fd >= 0) {
		close(fd);
		rc = -EBADMSG;
	}
	if (!rc)
		tei_shm_hello(rail, young, &m);
	else if (rc == -EBADMSG)
		tei_shm_bad(rail, "malformed hello");
	young_end(rail, young);
}

/* ---- progress ---- */

static void dispatch(struct shm_rail *rail, struct shm_source *source)
{
	eventfd_t times;

	if (source->fd < 0)
		return; /* closed by what came before it */
	switch (source->kind) {
	case SHM_SOURCE_LISTENER:
		for (int i = 0; i < ACCEPTS_MAX && accept_one(rail); i++)
			;
		break;
	case SHM_SOURCE_KICK:
		(void)eventfd_read(rail->kick.fd, &times);
		break;
	case SHM_SOURCE_TICK:
		handle_tick(rail);
		break;
	case SHM_SOURCE_YOUNG:
		young_event(rail,
			    TEI_CONTAINER(source, struct shm_young, source));
		break;
	case SHM_SOURCE_SOCKET:
		tei_shm_endpoint_event(
			TEI_CONTAINER(source, struct shm_endpoint, socket),
			source);
		break;
	case SHM_SOURCE_PROCESS:
		tei_shm_endpoint_event(
			TEI_CONTAINER(source, struct shm_endpoint, process),
			source);
		break;
	}
}

/* What post() or an event could not report itself. */
static int report(struct shm_rail *rail)
{
	struct tei_list *node;
	int n = 0;

	while ((node = tei_list_pop(&rail->refused))) {
		struct tei_slice *slice =
			tei_list_entry(node, struct tei_slice, link);

		tei_shm_slice_end(slice, shm_slice(slice)->err);
		n++;
	}
	while ((node = tei_list_pop(&rail->broken))) {
		struct shm_endpoint *ep =
			tei_list_entry(node, struct shm_endpoint, broken_link);

		tei_endpoint_down(ep->base, ep->broken);
		n++;
	}
	return n;
}

static int look(struct shm_rail *rail, int budget)
{
	struct epoll_event events[EVENTS_MAX];
	int i, n;

	rail->unlooked = 0;
	if (budget > EVENTS_MAX)
		budget = EVENTS_MAX;
	n = epoll_wait(rail->epoll_fd, events, budget < 1 ? 1 : budget, 0);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (i = 0; i < n; i++)
		dispatch(rail, events[i].data.ptr);
	free_dead(rail);
	return n;
}

int tei_shm_progress(struct tei_rail *base, int budget)
{
	struct shm_rail *rail = shm_rail(base);
	int moved, n = 0;

	rail->in_progress = true;
	moved = tei_shm_move(rail);
	if (!moved || ++rail->unlooked >= LOOK_EVERY)
		n = look(rail, budget);
	if (n >= 0)
		n += report(rail);
	rail->in_progress = false;
	base->busy = !tei_list_empty(&rail->active);
	return n < 0 ? n : n + moved;
}
