/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - which host, namespaces, user and process this is */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/shm/shm.h"
#include "base/bytes.h"
#include "base/net.h"

/* Reads a small file as text. -ENOSYS: it cannot be had; -EMFILE. */
static int read_text(const char *path, char *out, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return tei_is_shortage(-errno) ? -errno : -ENOSYS;
	n = read(fd, out, room - 1);
	close(fd);
	if (n <= 0)
		return -ENOSYS;
	out[n] = 0;
	return 0;
}

static int read_boot(uint8_t boot[16])
{
	unsigned int n = 0;
	char text[64] = "";
	int rc;

	rc = read_text("/proc/sys/kernel/random/boot_id", text, sizeof(text));
	if (rc)
		return rc;
	for (const char *p = text; *p && n < 32; p++) {
		int digit = tei_hex_digit(*p);

		if (digit < 0)
			continue;
		boot[n / 2] = (uint8_t)(boot[n / 2] << 4 | digit);
		n++;
	}
	return n == 32 ? 0 : -ENOSYS;
}

/* Reads when a process began: the 22nd field of its stat, whose 2nd, in
 * brackets, may hold anything. */
static int read_start(uint32_t pid, uint64_t *start)
{
	char path[32], text[1024], *at;
	int rc, field;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	rc = read_text(path, text, sizeof(text));
	if (rc)
		return rc;
	at = strrchr(text, ')');
	for (field = 2; at && field < 22; field++) {
		at = strchr(at, ' ');
		at += at != NULL;
	}
	if (!at)
		return -ENOSYS;
	*start = strtoull(at, NULL, 10);
	return 0;
}

static int inode(const char *path, uint64_t *out)
{
	struct stat st;

	if (stat(path, &st))
		return -ENOSYS;
	*out = st.st_ino;
	return 0;
}

int tei_shm_host_read(struct shm_host *host)
{
	int rc;

	host->uid = geteuid();
	host->pid = (uint32_t)getpid();
	rc = read_boot(host->boot);
	if (!rc)
		rc = inode("/proc/self/ns/pid", &host->pid_ns);
	if (!rc)
		rc = inode("/proc/self/ns/user", &host->user_ns);
	if (!rc)
		rc = read_start(host->pid, &host->start);
	return rc;
}

bool tei_shm_is_process(uint32_t pid, uint64_t start)
{
	uint64_t now;

	return read_start(pid, &now) || now == start;
}

bool tei_shm_host_is_same(const struct shm_host *a, const struct shm_host *b)
{
	return !memcmp(a->boot, b->boot, sizeof(a->boot)) &&
	       a->pid_ns == b->pid_ns && a->user_ns == b->user_ns;
}

bool tei_shm_uid_is_allowed(const struct shm_rail *rail, uint32_t uid)
{
	return uid == rail->host.uid || tei_uids_has(&rail->uids, uid);
}
