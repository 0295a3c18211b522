/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - ask the running kernel what it lets this process do */
#include <errno.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cmd/doctor/host.h"

static int result_of(long rc)
{
	if (rc < 0)
		return -errno;
	close((int)rc);
	return 0;
}

/* Without arguments it fails in any case; how, says whether it is there. */
static int probe_io_uring(void)
{
	int rc = result_of(syscall(SYS_io_uring_setup, 0, NULL));

	return rc == -ENOSYS || rc == -EPERM || rc == -EACCES ? rc : 0;
}

static int probe_process_vm(void)
{
	char from = 1, to = 0;
	struct iovec local = {&to, 1}, remote = {&from, 1};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1
		       ? 0
		       : -errno;
}

void tei_probe(struct tei_probes *out)
{
	struct statvfs shm;

	*out = (struct tei_probes){
		.known = true,
		.io_uring = probe_io_uring(),
		.memfd = result_of(memfd_create("te-doctor", MFD_CLOEXEC)),
		.process_vm = probe_process_vm(),
		.pidfd = result_of(syscall(SYS_pidfd_open, getpid(), 0)),
	};
	if (!statvfs("/dev/shm", &shm))
		out->shm_bytes = (uint64_t)shm.f_blocks * shm.f_frsize;
}
