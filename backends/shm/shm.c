/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.c - the shm backend: its settings and its table of operations
 *
 * Peers on the same host and of the same user map each other's memory and copy
 * with the CPU that asks. docs/decisions/009-shm.md has the reasons.
 */
#include "backends/shm/shm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <te/te.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"

/*
 * The directory of the sockets is made, checked and swept.
 *
 * Ours alone (0700), or open to pass through (0711) when other users are
 * allowed to attach. A directory that somebody else has put there, or that
 * others may write to, is not used: in its stead, unless a setting names it,
 * one of another name, which the rail removes.
 */

#define SWEEP_MAX 256
#define TEMPORARY "/tmp/te-"

/* Tells whether a setting says which directory it is. */
static bool is_named(const struct shm_rail *rail)
{
	const char *set = shm_config(rail)->dir;

	return set && *set;
}

static int choose(struct shm_rail *rail)
{
	const char *set = shm_config(rail)->dir, *run;
	int n;

	run = getenv("XDG_RUNTIME_DIR");
	if (is_named(rail))
		n = snprintf(rail->dir, SHM_DIR_MAX, "%s", set);
	else if (run && *run == '/' && !rail->uids.n)
		n = snprintf(rail->dir, SHM_DIR_MAX, "%s/te", run);
	else
		n = snprintf(rail->dir, SHM_DIR_MAX, TEMPORARY "%u%s",
			     rail->host.uid, rail->uids.n ? "-open" : "");
	if (n < 0 || n >= SHM_DIR_MAX || rail->dir[0] != '/')
		return -ENAMETOOLONG;
	return 0;
}

static int check_owner(const struct shm_rail *rail, int fd, mode_t mode)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_uid != rail->host.uid || (st.st_mode & 07777 & ~mode))
		return -EPERM;
	return 0;
}

/* Opens a directory that is ours, and lets others through where they may. */
static int open_own(struct shm_rail *rail)
{
	mode_t mode = rail->uids.n ? 0711 : 0700;
	int fd, rc;

	fd = open(rail->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = check_owner(rail, fd, mode);
	if (!rc && rail->uids.n && fchmod(fd, mode))
		rc = -errno;
	if (rc)
		close(fd);
	else
		rail->dir_fd = fd;
	return rc;
}

/* Anybody can put something under the name that is ours in /tmp. */
static int open_another(struct shm_rail *rail)
{
	char dir[SHM_DIR_MAX];
	int rc;

	if (snprintf(dir, sizeof(dir), "%s-XXXXXX", rail->dir) >=
	    (int)sizeof(dir))
		return -ENAMETOOLONG;
	if (!mkdtemp(dir))
		return -errno;
	LOG_WARN("rail shm/0: directory %s is not ours alone: %s is used",
		 rail->dir, dir);
	memcpy(rail->dir, dir, sizeof(dir));
	rail->dir_is_temporary = true;
	rc = open_own(rail);
	if (rc)
		(void)rmdir(rail->dir);
	return rc;
}

/* Find or make the directory; fills dir_fd and dir. Logs the cause. */
static int shm_dir_open(struct shm_rail *rail)
{
	int rc = choose(rail);

	if (!rc && mkdir(rail->dir, 0700) && errno != EEXIST)
		rc = -errno;
	if (!rc)
		rc = open_own(rail);
	if ((rc == -EPERM || rc == -EACCES || rc == -ENOTDIR || rc == -ELOOP) &&
	    !strncmp(rail->dir, TEMPORARY, strlen(TEMPORARY)) &&
	    !is_named(rail))
		rc = open_another(rail);
	if (rc)
		LOG_WARN("rail shm/0: directory %s: %s", rail->dir,
			 rc == -EPERM ? "not ours alone" : strerror(-rc));
	return rc;
}

/* "te-PID-..." whose process is gone and where nobody listens. */
static bool is_left(const struct shm_rail *rail, const char *name)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char *end;
	long pid;
	int fd, rc;

	if (strncmp(name, "te-", 3))
		return false;
	pid = strtol(name + 3, &end, 10);
	if (pid <= 0 || *end != '-' || !kill((pid_t)pid, 0) || errno == EPERM)
		return false;
	if ((size_t)snprintf(un.sun_path, sizeof(un.sun_path),
			     "/proc/self/fd/%d/%s", rail->dir_fd,
			     name) >= sizeof(un.sun_path))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	rc = connect(fd, (const struct sockaddr *)&un, sizeof(un));
	rc = rc ? errno : 0;
	close(fd);
	return rc == ECONNREFUSED;
}

/* Remove sockets of processes that are gone. */
static void shm_dir_sweep(const struct shm_rail *rail)
{
	int fd = openat(rail->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int n = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (n++ < SWEEP_MAX && (entry = readdir(dir))) {
		if (is_left(rail, entry->d_name))
			(void)unlinkat(rail->dir_fd, entry->d_name, 0);
	}
	closedir(dir);
}

/*
 * The rail's epoll holds the sockets and the peers' pidfds; the core waits for
 * its fd. Copies that are due set rail->busy instead, and while there are any
 * the epoll is polled only now and then.
 */

#define EVENTS_MAX  64
#define ACCEPTS_MAX 16
#define LOOK_EVERY  32  /* turns of copying between two looks at the epoll */
#define DRAIN_MS    1   /* between two looks at a mark */
#define ACCEPTED_MS 250 /* or at the age of accepted connections */
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
		tei_shm_unwatch(rail, source);
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
	rail->copies.named = base->copier;
	tei_list_init(&rail->accepted);
	tei_list_init(&rail->dead);
	tei_list_init(&rail->waiting);
	tei_list_init(&rail->draining);
	tei_list_init(&rail->active);
	tei_list_init(&rail->gpus);
	tei_list_init(&rail->orphans);
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
	return rail->kick.fd < 0 ? -errno : 0;
}

static void close_fds(struct shm_rail *rail)
{
	tei_shm_source_close(rail, &rail->kick);
	if (rail->dir_fd >= 0)
		close(rail->dir_fd);
	if (rail->dir_is_temporary)
		(void)rmdir(rail->dir);
	if (rail->epoll_fd >= 0)
		close(rail->epoll_fd);
}

static int watch_all(struct shm_rail *rail)
{
	int rc = tei_shm_watch(rail, &rail->kick);

	if (!rc)
		rc = tei_shm_watch(rail, &rail->listener);
	rail->listening = !rc;
	return rc;
}

/* Tells whether peers may look at our memory: not where only parents may. */
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
		LOG_WARN("rail shm/0: not used: /proc does not identify this "
			 "host: %s",
			 strerror(-rc));
	else
		rc = tei_uids_parse(shm_config(rail)->allow_uids, &rail->uids);
	if (!rc)
		rc = shm_dir_open(rail);
	if (rc)
		return rc == -EINVAL || tei_is_shortage(rc) ? rc : -ENODEV;
	shm_dir_sweep(rail);
	return 0;
}

static int shm_rail_open(struct tei_rail *base)
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
		tei_free(tei_list_entry(node, struct shm_accepted, link));
}

static void accepted_end(struct shm_rail *rail, struct shm_accepted *accepted)
{
	tei_shm_source_close(rail, &accepted->source);
	tei_list_del(&accepted->link);
	tei_list_add_tail(&rail->dead, &accepted->link);
	rail->n_accepted--;
}

static void shm_rail_close(struct tei_rail *base)
{
	struct shm_rail *rail = shm_rail(base);

	while (!tei_list_empty(&rail->accepted))
		accepted_end(rail, tei_list_entry(rail->accepted.next,
						  struct shm_accepted, link));
	free_dead(rail);
	tei_shm_orphans_end(rail);
	tei_shm_unlisten(rail);
	tei_hash_fini(&rail->regions);
	tei_mutex_fini(&rail->mu);
	tei_free(rail->bounce);
	close_fds(rail);
}

static int shm_wait_fd(struct tei_rail *base)
{
	return shm_rail(base)->epoll_fd;
}

/* ---- the timer ---- */

void tei_shm_set_timer(struct shm_rail *rail)
{
	uint64_t *timer = &rail->base->timer_ns, ms = 0;

	if (!tei_list_empty(&rail->accepted) || !rail->listening)
		ms = ACCEPTED_MS;
	if (!tei_list_empty(&rail->draining))
		ms = DRAIN_MS;
	if (ms == rail->timer_ms && (*timer || !ms))
		return;
	rail->timer_ms = ms;
	*timer = ms ? tei_now_ns() + ms * TEI_NS_PER_MS : 0;
}

static void end_timer(struct shm_rail *rail)
{
	uint64_t now = tei_now_ms();

	rail->base->timed_out = false;
	tei_list_for_each_safe (node, tmp, &rail->draining) {
		tei_shm_drained(
			tei_list_entry(node, struct shm_endpoint, draining));
	}
	tei_list_for_each_safe (node, tmp, &rail->accepted) {
		struct shm_accepted *accepted =
			tei_list_entry(node, struct shm_accepted, link);

		if (accepted->deadline_ms > now)
			break;
		tei_shm_bad(rail, "no hello in time");
		accepted_end(rail, accepted);
	}
	if (!rail->listening)
		rail->listening = !tei_shm_watch(rail, &rail->listener);
	tei_shm_set_timer(rail);
}

/* ---- accepting ---- */

static void pause_accept(struct shm_rail *rail)
{
	epoll_ctl(rail->epoll_fd, EPOLL_CTL_DEL, rail->listener.fd, NULL);
	rail->listening = false;
	tei_shm_set_timer(rail);
}

static int add_accepted(struct shm_rail *rail, int fd)
{
	struct shm_accepted *accepted;
	uint32_t uid = 0, pid = 0;
	int rc = tei_shm_peer(fd, &uid, &pid);

	if (rc || !tei_shm_uid_is_allowed(rail, uid)) {
		tei_shm_bad(rail, "user is not allowed to attach");
		return -EACCES;
	}
	accepted = tei_calloc(1, sizeof(*accepted));
	if (!accepted)
		return -ENOMEM;
	accepted->source = (struct shm_source){SHM_SOURCE_ACCEPTED, fd};
	accepted->deadline_ms =
		tei_now_ms() + shm_config(rail)->connect_timeout;
	rc = tei_shm_watch(rail, &accepted->source);
	if (rc) {
		tei_free(accepted);
		return rc;
	}
	tei_list_add_tail(&rail->accepted, &accepted->link);
	rail->n_accepted++;
	tei_shm_set_timer(rail);
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
	if (rail->n_accepted >=
	    SHM_ACCEPTED_MAX) { /* honest ones say hello at once */
		tei_shm_bad(rail, "too many without hello");
		accepted_end(rail, tei_list_entry(rail->accepted.next,
						  struct shm_accepted, link));
	}
	if (add_accepted(rail, fd))
		close(fd);
	return true;
}

static void accepted_event(struct shm_rail *rail, struct shm_accepted *accepted)
{
	struct shm_message m;
	int fd, rc;

	rc = tei_shm_receive(accepted->source.fd, &m, &fd);
	if (rc == -EAGAIN)
		return;
	if (!rc && fd >= 0) {
		close(fd);
		rc = -EBADMSG;
	}
	if (!rc)
		tei_shm_hello(rail, accepted, &m);
	else if (rc == -EBADMSG)
		tei_shm_bad(rail, "malformed hello");
	accepted_end(rail, accepted);
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
	case SHM_SOURCE_ACCEPTED:
		accepted_event(rail, TEI_CONTAINER(source, struct shm_accepted,
						   source));
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

/* Reports ends that post() or an event may not report itself. */
static int report_broken(struct shm_rail *rail)
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

static int poll_sockets(struct shm_rail *rail, int budget)
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

static int shm_progress(struct tei_rail *base, int budget)
{
	struct shm_rail *rail = shm_rail(base);
	int moved, n = 0;

	rail->in_progress = true;
	if (base->timed_out)
		end_timer(rail);
	moved = tei_shm_move(rail) + tei_shm_gpu_move(rail);
	if (!moved || ++rail->unlooked >= LOOK_EVERY)
		n = poll_sockets(rail, budget);
	if (n >= 0)
		n += report_broken(rail);
	rail->in_progress = false;
	base->busy = tei_shm_is_busy(rail);
	return n < 0 ? n : n + moved;
}

static const struct tei_setting settings[] = {
	{TEI_SETTING_AS(struct shm_config, enabled, "shm.enabled"),
	 .type = TEI_CONF_BOOL, .def = "true",
	 .help = "reach peers on this host by shared memory"},
	{TEI_SETTING_AS(struct shm_config, dir, "shm.dir"),
	 .type = TEI_CONF_STRING,
	 .help = "directory of the sockets (default: a private one of this user)"},
	{TEI_SETTING_AS(struct shm_config, allow_uids, "shm.allow_uids"),
	 .type = TEI_CONF_UIDS,
	 .help = "other users that may attach (default: allow_uids)"},
	{TEI_SETTING_AS(struct shm_config, foreign, "shm.foreign"),
	 .expert = true, .type = TEI_CONF_BOOL, .def = "true",
	 .help = "reach memory not made by te_memory_alloc() through the kernel"},
	{TEI_SETTING_AS(struct shm_config, gpu, "shm.gpu"),
	 .type = TEI_CONF_BOOL, .def = "true",
	 .help = "have GPUs copy between processes of this host (CUDA IPC)"},
	{TEI_SETTING_AS(struct shm_config, gpu_parts, "shm.gpu_parts"),
	 .expert = true, .type = TEI_CONF_BOOL, .def = "false",
	 .help = "also where peers may then reach all of an allocation of which a region is a part"},
	{TEI_SETTING_AS(struct shm_config, stream_from, "shm.stream_from"),
	 .expert = true, .type = TEI_CONF_SIZE, .def = "64k", .unit = "bytes",
	 .max = 1LL << 40,
	 .help = "from this length on, of one request or all that wait, copies go past the caches"},
	{TEI_SETTING_AS(struct shm_config, hot, "shm.hot"), .expert = true,
	 .type = TEI_CONF_SIZE, .def = "2m", .unit = "bytes", .max = 1LL << 40,
	 .help = "but not to memory written this few bytes before"},
	{TEI_SETTING_AS(struct shm_config, chunk, "shm.chunk"), .expert = true,
	 .type = TEI_CONF_SIZE, .def = "64k", .unit = "bytes", .min = 4096,
	 .max = SHM_CHUNK_MAX, .help = "copied between two looks at the fence"},
	{TEI_SETTING_AS(struct shm_config, foreign_chunk, "shm.foreign_chunk"),
	 .expert = true, .type = TEI_CONF_SIZE, .def = "512k", .unit = "bytes",
	 .min = 4096, .max = 16 << 20, .help = "moved by one system call"},
	{TEI_SETTING_AS(struct shm_config, connect_timeout,
			"shm.connect_timeout"),
	 .expert = true, .type = TEI_CONF_DURATION, .def = "2s", .min = 10,
	 .max = 600000, .help = "for who connects to say hello"},
};

/* Memory is one device. */
static int shm_probe(const struct tei_search *search)
{
	static const struct tei_device memory = {.name = "0", .numa_node = -1};
	const struct shm_config *config = search->config;

	return config->enabled ? search->found(&memory, search->arg) : 0;
}

static int shm_describe(struct tei_rail *base, void *blob, size_t *len)
{
	if (*len < SHM_HOST_LEN)
		return -ENOBUFS;
	tei_shm_host_encode(&shm_rail(base)->host, blob);
	*len = SHM_HOST_LEN;
	return 0;
}

static int shm_match(struct tei_rail *base, const struct tei_address *peer,
		     const void *blob, size_t len)
{
	const struct shm_rail *rail = shm_rail(base);
	struct shm_host other;

	(void)peer;
	return tei_shm_host_decode(blob, len, &other) &&
	       tei_shm_host_is_same(&rail->host, &other) &&
	       tei_shm_uid_is_allowed(rail, other.uid);
}

extern const struct tei_backend_ops tei_backend_shm;
const struct tei_backend_ops tei_backend_shm = {
	.name = "shm",
	.abi = TEI_BACKEND_ABI,
	.caps = TEI_CAP_ONE_SIDED | TEI_CAP_BACKING | TEI_CAP_ACROSS,
	.rail_size = sizeof(struct shm_rail),
	.endpoint_size = sizeof(struct shm_endpoint),
	.slice_size = sizeof(struct shm_slice),
	.settings = settings,
	.n_settings = sizeof(settings) / sizeof(settings[0]),
	.config_size = sizeof(struct shm_config),
	.probe = shm_probe,
	.rail_open = shm_rail_open,
	.rail_close = shm_rail_close,
	.rail_describe = shm_describe,
	.rail_match = shm_match,
	.region_add = tei_shm_region_add,
	.region_is_across = tei_shm_is_across,
	.region_hide = tei_shm_region_hide,
	.region_remove = tei_shm_region_remove,
	.endpoint_open = tei_shm_endpoint_open,
	.endpoint_connect = tei_shm_endpoint_connect,
	.endpoint_close = tei_shm_endpoint_close,
	.post = tei_shm_post,
	.cancel = tei_shm_cancel,
	.flush = tei_shm_flush,
	.drop = tei_shm_drop,
	.progress = shm_progress,
	.wait_fd = shm_wait_fd,
};
