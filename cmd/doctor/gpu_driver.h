/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_driver.h - NVIDIA's kernel modules, and how NICs get to GPUs by them
 *
 * By files alone, as all checks of a host.
 */
#ifndef CMD_DOCTOR_GPU_DRIVER_H
#define CMD_DOCTOR_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/doctor/host.h"

#define TEI_GPU_VERSION_LEN 32

enum tei_known { TEI_NO, TEI_YES, TEI_NOT_KNOWN };

struct tei_gpu_driver {
	char version[TEI_GPU_VERSION_LEN]; /* "550.54.14"; "": not known */
	enum tei_known open;               /* its kernel modules */
};

/* Counts the characters of "550.54.14" that text begins with; 0: it is none. */
size_t tei_gpu_version_len(const char *text);
void tei_gpu_driver_find(const struct tei_host *h, struct tei_gpu_driver *out);
/* Says in @why of what dma-buf is made, or what it lacks. */
enum tei_known tei_gpu_has_dma_buf(const struct tei_host *h,
				   const struct tei_gpu_driver *driver,
				   char *why, size_t room);
bool tei_gpu_has_peermem(const struct tei_host *h);
/*
 * Way of GPUs' memory to RDMA devices: "dma-buf", "peermem", "staged" (copies
 * by the host); NULL: not known.
 */
const char *tei_gpu_way(const struct tei_host *h);

#endif
