/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - blobs and messages to bytes and back; descriptors */
#include "backends/shm/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <te/te.h>

#include "backends/shm/shm.h"
#include "base/bytes.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/net.h"

#define MAGIC 0x31534554u /* "TES1" */

static void write_zeros(struct tei_writer *w, size_t n)
{
	while (n--)
		tei_write_u8(w, 0);
}

/* ---- blobs ---- */

void tei_shm_host_encode(const struct shm_host *h, uint8_t out[SHM_HOST_LEN])
{
	struct tei_writer w;

	tei_writer_init(&w, out, SHM_HOST_LEN);
	tei_write_u32(&w, SHM_VERSION);
	tei_write_u32(&w, h->uid);
	tei_write_bytes(&w, h->boot, sizeof(h->boot));
	tei_write_u64(&w, h->pid_ns);
	tei_write_u64(&w, h->user_ns);
	tei_write_u64(&w, h->start);
	tei_write_u32(&w, h->pid);
	tei_write_u32(&w, 0);
}

bool tei_shm_host_decode(const void *in, size_t len, struct shm_host *h)
{
	const void *boot;
	struct tei_reader r;
	uint32_t version;

	tei_reader_init(&r, in, len);
	version = tei_read_u32(&r);
	h->uid = tei_read_u32(&r);
	boot = tei_read_bytes(&r, sizeof(h->boot));
	h->pid_ns = tei_read_u64(&r);
	h->user_ns = tei_read_u64(&r);
	h->start = tei_read_u64(&r);
	h->pid = tei_read_u32(&r);
	tei_read_u32(&r);
	if (!tei_reader_done(&r) || version != SHM_VERSION)
		return false;
	memcpy(h->boot, boot, sizeof(h->boot));
	return true;
}

/*
 * A GPU's region is foreign memory to engines that do not know this flag: they
 * ask for it, are refused, and go by another backend.
 */
#define FLAG_GPU 1u

void tei_shm_key_encode(const struct shm_key *k, uint8_t out[SHM_KEY_LEN])
{
	struct tei_writer w;

	tei_writer_init(&w, out, SHM_KEY_LEN);
	tei_write_u64(&w, k->id);
	tei_write_u64(&w, k->addr);
	tei_write_u64(&w, k->length);
	tei_write_u8(&w, (uint8_t)SHM_VERSION);
	tei_write_u8(&w, k->kind == SHM_GPU ? SHM_FOREIGN : k->kind);
	tei_write_u16(&w, k->access);
	tei_write_u32(&w, k->kind == SHM_GPU ? FLAG_GPU : 0);
}

bool tei_shm_key_decode(const void *in, size_t len, struct shm_key *k)
{
	struct tei_reader r;
	uint8_t version;

	tei_reader_init(&r, in, len);
	k->id = tei_read_u64(&r);
	k->addr = tei_read_u64(&r);
	k->length = tei_read_u64(&r);
	version = tei_read_u8(&r);
	k->kind = tei_read_u8(&r);
	k->access = tei_read_u16(&r);
	if (tei_read_u32(&r) & FLAG_GPU && k->kind == SHM_FOREIGN)
		k->kind = SHM_GPU;
	return tei_reader_done(&r) && version == SHM_VERSION &&
	       k->kind >= SHM_ARENA && k->kind <= SHM_GPU && k->length &&
	       k->length <= TE_LENGTH_MAX && k->addr + k->length > k->addr;
}

size_t tei_shm_address_encode(const struct shm_address *a,
			      uint8_t out[SHM_ADDRESS_MAX])
{
	size_t path_len = strlen(a->path);
	struct tei_writer w;

	tei_writer_init(&w, out, SHM_ADDRESS_MAX);
	tei_write_u32(&w, SHM_VERSION);
	tei_write_u32(&w, a->uid);
	tei_write_u32(&w, a->pid);
	tei_write_u32(&w, 0);
	tei_write_u64(&w, a->start);
	tei_write_bytes(&w, a->token, SHM_TOKEN_LEN);
	tei_write_bytes(&w, a->path, path_len);
	return SHM_ADDRESS_HEAD + path_len;
}

bool tei_shm_address_decode(const void *in, size_t len, struct shm_address *a)
{
	const void *token, *path;
	size_t path_len;
	struct tei_reader r;
	uint32_t version;

	if (len < SHM_ADDRESS_HEAD || len - SHM_ADDRESS_HEAD >= SHM_PATH_MAX)
		return false;
	path_len = len - SHM_ADDRESS_HEAD;
	tei_reader_init(&r, in, len);
	version = tei_read_u32(&r);
	a->uid = tei_read_u32(&r);
	a->pid = tei_read_u32(&r);
	tei_read_u32(&r);
	a->start = tei_read_u64(&r);
	token = tei_read_bytes(&r, SHM_TOKEN_LEN);
	path = tei_read_bytes(&r, path_len);
	if (!tei_reader_done(&r) || version != SHM_VERSION ||
	    memchr(path, 0, path_len))
		return false;
	memcpy(a->token, token, SHM_TOKEN_LEN);
	memcpy(a->path, path, path_len);
	a->path[path_len] = 0;
	return true;
}

/* ---- messages ---- */

_Static_assert(SHM_CHUNKS_BURST * sizeof(uint64_t) == SHM_NAME_LEN,
	       "a GRANT has a name or lengths");
_Static_assert(SHM_CHUNKS_BURST == TEI_FDS_MAX, "there is room for them");

static bool has_name(const struct shm_message *m)
{
	return m->op == SHM_GRANT && m->kind == SHM_GPU;
}

static bool has_lengths(const struct shm_message *m)
{
	return m->op == SHM_GRANT && m->kind == SHM_CHUNKS;
}

static void encode_rest(const struct shm_message *m, struct tei_writer *w)
{
	if (has_name(m)) {
		tei_write_bytes(w, m->name, SHM_NAME_LEN);
	} else if (has_lengths(m)) {
		for (unsigned int i = 0; i < SHM_CHUNKS_BURST; i++)
			tei_write_u64(w, m->lengths[i]);
	} else {
		tei_write_bytes(w, m->key, SHM_KEY_LEN);
		write_zeros(w, 32);
	}
}

static void decode_rest(struct shm_message *m, struct tei_reader *r)
{
	if (has_name(m))
		memcpy(m->name, tei_read_bytes(r, SHM_NAME_LEN), SHM_NAME_LEN);
	else if (has_lengths(m))
		for (unsigned int i = 0; i < SHM_CHUNKS_BURST; i++)
			m->lengths[i] = tei_read_u64(r);
	else
		memcpy(m->key, tei_read_bytes(r, SHM_KEY_LEN), SHM_KEY_LEN);
}

static void encode(const struct shm_message *m, uint8_t out[SHM_MESSAGE_LEN])
{
	struct tei_writer w;

	tei_writer_init(&w, out, SHM_MESSAGE_LEN);
	tei_write_u32(&w, MAGIC);
	tei_write_u8(&w, (uint8_t)SHM_VERSION);
	tei_write_u8(&w, m->op);
	tei_write_u8(&w, m->status);
	tei_write_u8(&w, m->kind);
	tei_write_u64(&w, m->id);
	tei_write_bytes(&w, m->token, SHM_TOKEN_LEN);
	tei_write_u64(&w, m->generation);
	tei_write_u64(&w, m->addr);
	tei_write_u64(&w, m->length);
	tei_write_u32(&w, m->slot);
	tei_write_u32(&w, m->access);
	encode_rest(m, &w);
}

static bool decode(const uint8_t in[SHM_MESSAGE_LEN], struct shm_message *m)
{
	struct tei_reader r;
	uint32_t magic;
	uint8_t version;

	tei_reader_init(&r, in, SHM_MESSAGE_LEN);
	magic = tei_read_u32(&r);
	version = tei_read_u8(&r);
	m->op = tei_read_u8(&r);
	m->status = tei_read_u8(&r);
	m->kind = tei_read_u8(&r);
	m->id = tei_read_u64(&r);
	memcpy(m->token, tei_read_bytes(&r, SHM_TOKEN_LEN), SHM_TOKEN_LEN);
	m->generation = tei_read_u64(&r);
	m->addr = tei_read_u64(&r);
	m->length = tei_read_u64(&r);
	m->slot = tei_read_u32(&r);
	m->access = tei_read_u32(&r);
	decode_rest(m, &r);
	return magic == MAGIC && version == SHM_VERSION && m->op >= SHM_HELLO &&
	       m->op <= SHM_RETURN;
}

int tei_shm_send_fds(int socket, const struct shm_message *m,
		     const struct shm_fds *fds)
{
	union tei_fds_room room;
	uint8_t bytes[SHM_MESSAGE_LEN];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	encode(m, bytes);
	if (fds->n)
		tei_fds_attach_all(&msg, &room, fds->at, fds->n);
	if (sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return 0;
	return errno == EPIPE ? -ECONNRESET : -errno;
}

int tei_shm_send(int socket, const struct shm_message *m, int fd)
{
	const struct shm_fds fds = {.at = {fd}, .n = fd >= 0};

	return tei_shm_send_fds(socket, m, &fds);
}

void tei_shm_fds_close(struct shm_fds *fds)
{
	while (fds->n)
		close(fds->at[--fds->n]);
}

/*
 * Tells whether a message may have come with so many descriptors. @cut: this
 * process had no descriptor left for one of them.
 */
static bool may_have(const struct shm_message *m, unsigned int n, bool cut)
{
	return has_lengths(m) || n + (n && cut) <= 1;
}

int tei_shm_receive_fds(int socket, struct shm_message *m, struct shm_fds *fds)
{
	union tei_fds_room room;
	uint8_t bytes[SHM_MESSAGE_LEN];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = room.bytes,
			     .msg_controllen = sizeof(room.bytes)};
	unsigned int n_fds;
	ssize_t n;

	fds->n = 0;
	if (tei_fault_check(TEI_FAULT_IO))
		return -ECONNRESET;
	n = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	n_fds = fds->n = tei_fds_take_all(&msg, fds->at);
	if (n == SHM_MESSAGE_LEN && !(msg.msg_flags & MSG_TRUNC) &&
	    decode(bytes, m) && may_have(m, n_fds, msg.msg_flags & MSG_CTRUNC))
		return 0;
	tei_shm_fds_close(fds);
	return n || n_fds ? -EBADMSG : -ECONNRESET;
}

int tei_shm_receive(int socket, struct shm_message *m, int *fd)
{
	struct shm_fds fds;
	int rc = tei_shm_receive_fds(socket, m, &fds);

	*fd = -1;
	if (rc)
		return rc;
	if (fds.n > 1) {
		tei_shm_fds_close(&fds);
		return -EBADMSG;
	}
	if (fds.n)
		*fd = fds.at[0];
	return 0;
}

/*
 * The listening socket, connecting, who is at the other end.
 *
 * Paths are used from an open directory, which cannot be exchanged meanwhile,
 * by way of /proc/self/fd; so they may also be longer than a socket address.
 */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#ifndef RESOLVE_CACHED /* since Linux 5.12 */
#define RESOLVE_CACHED 0x20
#endif

#define BACKLOG 128

static int open_socket(void)
{
	int fd;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd < 0 ? -errno : fd;
}

static int address(int dir_fd, const char *name, struct sockaddr_un *un)
{
	int n;

	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(un->sun_path, sizeof(un->sun_path), "/proc/self/fd/%d/%s",
		     dir_fd, name);
	return n < 0 || (size_t)n >= sizeof(un->sun_path) ? -ENAMETOOLONG : 0;
}

/*
 * Binds under a name that nobody knows first: a socket that refuses connections
 * is taken for one that was left behind.
 */
static int bind_and_listen(struct shm_rail *rail, int fd, const char *fresh)
{
	struct sockaddr_un un;
	int rc = address(rail->dir_fd, fresh, &un);

	if (rc)
		return rc;
	if (bind(fd, (const struct sockaddr *)&un, sizeof(un)))
		return -errno;
	if ((rail->uids.n && fchmodat(rail->dir_fd, fresh, 0666, 0)) ||
	    listen(fd, BACKLOG) ||
	    renameat(rail->dir_fd, fresh, rail->dir_fd, rail->name)) {
		rc = -errno;
		(void)unlinkat(rail->dir_fd, fresh, 0);
	}
	return rc;
}

int tei_shm_listen(struct shm_rail *rail)
{
	char fresh[SHM_NAME_MAX + 4];
	uint64_t random;
	int fd = open_socket(), rc;

	if (fd < 0)
		return fd;
	rc = -EIO;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		goto close_fd;
	snprintf(rail->name, sizeof(rail->name), "te-%u-%016" PRIx64,
		 rail->host.pid, random);
	snprintf(fresh, sizeof(fresh), "new-%s", rail->name + 3);
	rc = bind_and_listen(rail, fd, fresh);
	if (rc)
		goto close_fd;
	rail->listener.fd = fd;
	return 0;

close_fd:
	close(fd);
	return rc;
}

void tei_shm_unlisten(struct shm_rail *rail)
{
	close(rail->listener.fd);
	(void)unlinkat(rail->dir_fd, rail->name, 0);
}

void tei_shm_path(const struct shm_rail *rail, char out[SHM_PATH_MAX])
{
	size_t len = strlen(rail->dir);

	memcpy(out, rail->dir, len);
	out[len] = '/';
	memcpy(out + len + 1, rail->name, strlen(rail->name) + 1);
}

/* ---- connecting ---- */

/*
 * The path comes from outside, and walking it must not take long: no network,
 * no daemon is asked. What its owner has open is in the cache of names.
 */
static int open_at_once(const char *dir)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	struct open_how how = {
		.flags = (uint64_t)flags,
		.resolve = RESOLVE_CACHED,
	};
	long fd = syscall(SYS_openat2, AT_FDCWD, dir, &how, sizeof(how));

	if (fd >= 0)
		return (int)fd;
	if (errno != ENOSYS && errno != EINVAL && errno != EPERM)
		return -errno;
	fd = open(dir, flags); /* an older kernel, or a filter of calls */
	return fd < 0 ? -errno : (int)fd;
}

/* Opens the folder of the path, which must be one that only its user writes. */
static int open_dir(const struct shm_address *to, const char **name)
{
	char dir[SHM_PATH_MAX], *slash;
	struct stat st;
	int fd;

	memcpy(dir, to->path, sizeof(dir));
	slash = strrchr(dir, '/');
	if (dir[0] != '/' || !slash || strncmp(slash + 1, "te-", 3))
		return -EPROTO;
	*name = to->path + (slash + 1 - dir);
	*slash = 0;
	fd = open_at_once(dir);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) || st.st_uid != to->uid || (st.st_mode & 022)) {
		close(fd);
		return -EACCES;
	}
	return fd;
}

static int check_peer(int fd, const struct shm_address *to)
{
	uint32_t uid = 0, pid = 0;
	int rc = tei_shm_peer(fd, &uid, &pid);

	if (rc)
		return rc;
	return uid == to->uid && pid == to->pid ? 0 : -EACCES;
}

int tei_shm_connect(const struct shm_rail *rail, const struct shm_address *to)
{
	struct sockaddr_un un;
	const char *name;
	int dir_fd, fd, rc;

	if (!tei_shm_uid_is_allowed(rail, to->uid))
		return -EACCES;
	dir_fd = open_dir(to, &name);
	if (dir_fd < 0)
		return dir_fd;
	fd = open_socket();
	rc = fd < 0 ? fd : address(dir_fd, name, &un);
	if (!rc && connect(fd, (const struct sockaddr *)&un, sizeof(un)))
		rc = -errno;
	if (!rc)
		rc = check_peer(fd, to);
	close(dir_fd);
	if (!rc)
		return fd;
	if (fd >= 0)
		close(fd);
	return rc;
}

int tei_shm_peer(int socket, uint32_t *uid, uint32_t *pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	*uid = cred.uid;
	*pid = (uint32_t)cred.pid;
	return cred.pid > 0 ? 0 : -EACCES; /* 0: of another namespace */
}

/*
 * Opens a pidfd by number where the kernel does not give one for the socket.
 * The number might be another process by now: one that has begun at another
 * time.
 */
int tei_shm_peer_process(int socket, uint32_t pid, uint64_t start)
{
	socklen_t len = sizeof(int);
	int fd = -1;

	if (!getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &len))
		return fd;
	if (errno != ENOPROTOOPT)
		return -errno;
	fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	if (fd < 0)
		return -errno;
	if (tei_shm_is_process(pid, start))
		return fd;
	close(fd);
	return -ESRCH;
}
