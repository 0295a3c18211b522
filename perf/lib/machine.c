/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.c - what a figure was measured on, for reports
 */
#include "perf/lib/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <te/version.h>
#include <unistd.h>

#define TEXT_LEN 128

/* First line of a file, without its end; "" when there is none. */
static void first_line(const char *path, char out[TEXT_LEN])
{
	FILE *f = fopen(path, "re");

	out[0] = 0;
	if (!f)
		return;
	if (!fgets(out, TEXT_LEN, f))
		out[0] = 0;
	out[strcspn(out, "\n")] = 0;
	fclose(f);
}

/* "model name : X" of the first core. */
static void cpu_name(char out[TEXT_LEN])
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256], *at;

	out[0] = 0;
	while (f && !out[0] && fgets(line, sizeof(line), f)) {
		at = strstr(line, ": ");
		if (!at || strncmp(line, "model name", 10) != 0)
			continue;
		snprintf(out, TEXT_LEN, "%.*s", (int)strcspn(at + 2, "\n"),
			 at + 2);
	}
	if (f)
		fclose(f);
}

json_t *tei_machine_json(void)
{
	char cpu[TEXT_LEN], governor[TEXT_LEN], congestion[TEXT_LEN];
	struct utsname kernel = {0};
	double load = 0;

	uname(&kernel);
	cpu_name(cpu);
	first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
		   governor);
	first_line("/proc/sys/net/ipv4/tcp_congestion_control", congestion);
	if (getloadavg(&load, 1) != 1)
		load = 0;
	return json_pack("{s:s, s:s, s:s, s:I, s:s, s:s, s:f}", "version",
			 te_version(), "kernel", kernel.release, "cpu", cpu,
			 "cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
			 "governor", governor, "congestion", congestion,
			 "load_average", load);
}
