/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_driver.c - NVIDIA's kernel modules, and how NICs get to GPUs by them */
#include "cmd/doctor/gpu_driver.h"

#include <stdlib.h>
#include <string.h>

#define OPEN_SINCE 515 /* first version with open kernel modules */

size_t tei_gpu_version_len(const char *text)
{
	static const char digits[] = "0123456789";
	size_t len = strspn(text, "0123456789."), first = strspn(text, digits);

	return first > 0 && text[first] == '.' &&
			       strspn(text + first + 1, digits) > 0 &&
			       len < TEI_GPU_VERSION_LEN
		       ? len
		       : 0;
}

/* A word of "NVRM version: ... Kernel Module  550.54.14  Thu Feb 22 ..." */
static void find_version(const char *line, char out[TEI_GPU_VERSION_LEN])
{
	size_t len = 0;

	for (; *line && !len; line += strcspn(line, " ")) {
		line += strspn(line, " ");
		len = tei_gpu_version_len(line);
		if (line[len] != ' ' && line[len] != '\0')
			len = 0;
		memcpy(out, line, len);
	}
	out[len] = '\0';
}

void tei_gpu_driver_find(const struct tei_host *h, struct tei_gpu_driver *out)
{
	char line[256], version[256];
	size_t len;

	*out = (struct tei_gpu_driver){.open = TEI_NOT_KNOWN};
	if (tei_host_line(h, line, sizeof(line), "proc/driver/nvidia/version"))
		find_version(line, out->version);
	if (strstr(line, "Open Kernel Module"))
		out->open = TEI_YES;
	else if (strstr(line, "Kernel Module"))
		out->open = TEI_NO;
	(void)tei_host_line(h, version, sizeof(version),
			    "sys/module/nvidia/version");
	len = tei_gpu_version_len(version);
	if (len && !version[len])
		memcpy(out->version, version, len + 1);
}

enum tei_known tei_gpu_has_dma_buf(const struct tei_host *h,
				   const struct tei_gpu_driver *driver,
				   char *why, size_t room)
{
	unsigned long since = strtoul(driver->version, NULL, 10);
	unsigned long linux_major, linux_minor = 0;
	char release[64], *end;
	bool is_old;

	(void)tei_host_line(h, release, sizeof(release),
			    "proc/sys/kernel/osrelease");
	linux_major = strtoul(release, &end, 10);
	if (*end == '.')
		linux_minor = strtoul(end + 1, NULL, 10);
	is_old = linux_major < 5 || (linux_major == 5 && linux_minor < 12);
	(void)snprintf(why, room, "kernel modules %s%s, Linux %.32s",
		       *driver->version ? driver->version : "?",
		       driver->open == TEI_NO ? ", which are not open" : "",
		       release);
	if (driver->open == TEI_NO ||
	    (*driver->version && since < OPEN_SINCE) || (linux_major && is_old))
		return TEI_NO;
	if (driver->open == TEI_YES && *driver->version && linux_major)
		return TEI_YES;
	(void)snprintf(why, room, "%s does not tell",
		       linux_major ? "/proc/driver/nvidia/version"
				   : "/proc/sys/kernel/osrelease");
	return TEI_NOT_KNOWN;
}

bool tei_gpu_has_peermem(const struct tei_host *h)
{
	return tei_host_exists(h, "sys/module/nvidia_peermem") ||
	       tei_host_exists(h, "sys/module/nv_peer_mem"); /* older name */
}

const char *tei_gpu_way(const struct tei_host *h)
{
	struct tei_gpu_driver driver;
	enum tei_known dma_buf;
	char why[128];

	tei_gpu_driver_find(h, &driver);
	dma_buf = tei_gpu_has_dma_buf(h, &driver, why, sizeof(why));
	if (dma_buf == TEI_YES)
		return "dma-buf";
	if (tei_gpu_has_peermem(h))
		return "peermem";
	return dma_buf == TEI_NO ? "staged" : NULL;
}
