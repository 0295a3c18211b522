/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figures.h - what was measured, one figure a row
 */
#ifndef PERF_CORE_PERF_FIGURES_H
#define PERF_CORE_PERF_FIGURES_H

#include <stdbool.h>
#include <stddef.h>

#define FIGURES_MAX 128

struct figure {
	char what[64];
	const char *unit; /* not owned, as all texts here */
	double value;
	double least, most; /* of these 0: no such goal */
	const char *beside; /* what the bare system does instead, or NULL */
	double raw;         /* in the same unit */
};

struct figures {
	size_t n;
	struct figure row[FIGURES_MAX];
};

/* The next row, named by @format; beyond the room the last one again. */
struct figure *figures_add(struct figures *f, const char *unit, double value,
			   const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* 0, -ENOMEM, -EIO. */
int figures_report(const struct figures *f, bool json);

#endif
