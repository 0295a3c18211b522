/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - the machine that te-doctor looks at, and the checks of it
 *
 * A check reads files below a root and the topology of the machine, and adds
 * findings; it changes nothing and asks nothing of the kernel itself. What only
 * system calls tell is gathered beforehand (struct tei_probes), so a copy of
 * the files of any machine can be judged on any other.
 */
#ifndef CMD_DOCTOR_HOST_H
#define CMD_DOCTOR_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/topo.h>

#include "cmd/doctor/report.h"

/* Variables that decide about libfabric's providers; the last is ours. */
enum tei_variable {
	TEI_FI_PROVIDER,
	TEI_FI_HMEM,
	TEI_FI_MR_CACHE_MAX_COUNT,
	TEI_FI_EFA_ENABLE_SHM_TRANSFER,
	TEI_FI_EFA_USE_DEVICE_RDMA,
	TEI_FI_CXI_MR_MATCH_EVENTS,
	TEI_TE_OFI_PROVIDER,
	TEI_VARIABLES,
};

/* Answers of the kernel, 0 or a negative errno. */
struct tei_probes {
	bool known; /* false: of another machine, nothing was asked */
	int io_uring, memfd, process_vm, pidfd;
	uint64_t shm_bytes; /* size of /dev/shm; 0: there is none */
	/* Kernel that copies shared memory fastest; static, NULL: unknown. */
	const char *copy_kernel;
	double copy_gb_per_s, memcpy_gb_per_s;
	uint64_t wakeup_ns; /* until a woken thread runs; 0: unknown */
	/* Version of libfabric, major << 16 | minor; 0: not loaded, and why. */
	uint32_t libfabric;
	char libfabric_why[128];
	char providers[256]; /* of libfabric: "efa tcp"; "": unknown */
	/* Values in the environment, cut; "": not set. */
	char variables[TEI_VARIABLES][64];
};

struct tei_host {
	const char *root;           /* what stands before /sys, /proc, /dev */
	const struct te_topo *topo; /* not owned */
	struct tei_probes probes;
};

#define TEI_HOST_NAME 64

/* ---- files below the root (host.c) ---- */

/*
 * Reads up to @room - 1 bytes of a file, text or not. Returns how many; 0:
 * none.
 */
size_t tei_host_bytes(const struct tei_host *h, void *out, size_t room,
		      const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The first line of a file; false, and @out "": none, or not text. */
bool tei_host_line(const struct tei_host *h, char *out, size_t room,
		   const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/*
 * Copies the text behind @field ("CapEff:") in the line that begins with it,
 * without blanks around it, cut to @room. False, and @out "": no such line.
 */
bool tei_host_field(const struct tei_host *h, char *out, size_t room,
		    const char *path, const char *field);
/* Reads the decimal or 0x number that the file begins with; returns
 * @otherwise where there is none. */
int64_t tei_host_number(const struct tei_host *h, int64_t otherwise,
			const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool tei_host_exists(const struct tei_host *h, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * Tells whether this process can open the path to read and write: 0 or -errno.
 * The path is opened for that, as its mode does not tell: a container's rules
 * for devices bind root, too. Below a root nothing is opened: a path counts as
 * open where it exists and is no folder.
 */
int tei_host_may_open(const struct tei_host *h, const char *path);

/*
 * Copies the target of a link, as it stands there. False, and @out "": it is
 * none, or has no room.
 */
bool tei_host_link(const struct tei_host *h, char *out, size_t room,
		   const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Calls @fn with each entry of a folder in the order of the names, while it
 * returns true.
 */
typedef bool tei_entry_fn(const char *name, void *arg);
void tei_host_each(const struct tei_host *h, const char *folder,
		   tei_entry_fn *fn, void *arg);
/*
 * Finds the n-th entry of a folder in the order of the names; false: there are
 * fewer. Each call reads the whole folder, so it is meant for small ones.
 */
bool tei_host_entry(const struct tei_host *h, const char *folder, size_t n,
		    char out[TEI_HOST_NAME]);

/* ---- checks; each adds to the report ---- */

void tei_check_rdma(const struct tei_host *h, struct tei_report *r);
void tei_check_libfabric(const struct tei_host *h, struct tei_report *r);
void tei_check_fabric(const struct tei_host *h, struct tei_report *r);
void tei_check_pci(const struct tei_host *h, struct tei_report *r);
void tei_check_gpu(const struct tei_host *h, struct tei_report *r);
void tei_check_numa(const struct tei_host *h, struct tei_report *r);

/* Judges what the IOMMU does with a PCI device; @object is who that is. */
void tei_check_iommu(const struct tei_host *h, const char *object,
		     const char *bus_id, struct tei_report *r);

/* All of them. */
void tei_check_host(const struct tei_host *h, struct tei_report *r);

/* Ask the kernel that this process runs on. */
void tei_probe(struct tei_probes *out);
/* Loads libfabric, which stays. Part of tei_probe(). */
void tei_probe_libfabric(struct tei_probes *out);

#endif
