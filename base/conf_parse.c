/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf_parse.c - numbers with units, as people write them
 *
 * Not strtod(): the host program may have set a locale with a decimal comma.
 */
#include "base/conf.h"
#include "base/conf_private.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit sizes[] = {
	{"", 1},
	{"b", 1},
	{"k", 1u << 10},
	{"kb", 1u << 10},
	{"kib", 1 << 10},
	{"m", 1u << 20},
	{"mb", 1u << 20},
	{"mib", 1u << 20},
	{"g", 1u << 30},
	{"gb", 1u << 30},
	{"gib", 1u << 30},
	{"t", 1ull << 40},
	{"tb", 1ull << 40},
	{"tib", 1ull << 40},
};

static const struct unit durations[] = {
	{"ms", 1},          {"s", 1000},           {"m", 60 * 1000},
	{"min", 60 * 1000}, {"h", 60 * 60 * 1000},
};

static const struct unit *find_unit(const struct unit *units, size_t n,
				    const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(units[i].name, name) == 0)
			return &units[i];
	return NULL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * Digits, perhaps a point and more digits. *whole is exact; *part is what
 * stands behind the point, below 1. *end: the first byte not taken.
 */
static int decimal(const char *text, uint64_t *whole, double *part,
		   const char **end)
{
	double scale = 1, digits = 0;
	const char *p = text;

	*whole = 0;
	for (; is_digit(*p); p++)
		if (__builtin_mul_overflow(*whole, 10, whole) ||
		    __builtin_add_overflow(*whole, *p - '0', whole))
			return -ERANGE;
	if (p == text)
		return -EINVAL;
	if (*p == '.') {
		if (!is_digit(*++p))
			return -EINVAL;
		for (; is_digit(*p); p++) {
			if (scale > 1e14) /* beyond what a double tells apart */
				continue;
			digits = digits * 10 + (*p - '0');
			scale *= 10;
		}
	}
	*part = digits / scale;
	*end = p;
	return 0;
}

/* @bare: the unit of a number without one. */
static int with_unit(const char *text, const struct unit *units, size_t n,
		     const char *bare, uint64_t *out)
{
	const struct unit *unit;
	const char *end;
	uint64_t whole;
	double part;
	int rc;

	rc = decimal(text, &whole, &part, &end);
	if (rc)
		return rc;
	while (*end == ' ')
		end++;
	unit = find_unit(units, n, *end ? end : bare);
	if (!unit)
		return -EINVAL;
	if (__builtin_mul_overflow(whole, unit->factor, &whole) ||
	    __builtin_add_overflow(
		    whole, (uint64_t)(part * (double)unit->factor), &whole))
		return -ERANGE;
	*out = whole;
	return 0;
}

int tei_parse_size(const char *text, uint64_t *out)
{
	return with_unit(text, sizes, sizeof(sizes) / sizeof(sizes[0]), "",
			 out);
}

int tei_parse_duration_ms(const char *text, const char *unit, uint64_t *out)
{
	return with_unit(text, durations,
			 sizeof(durations) / sizeof(durations[0]),
			 unit ? unit : "ms", out);
}

int tei_parse_uint(const char *text, uint64_t *out)
{
	const char *end;
	double part;
	uint64_t v;
	int rc;

	rc = decimal(text, &v, &part, &end);
	if (rc)
		return rc;
	if (*end || strchr(text, '.'))
		return -EINVAL;
	*out = v;
	return 0;
}

int tei_parse_double(const char *text, double *out)
{
	bool minus = *text == '-';
	const char *end;
	uint64_t whole;
	double part;
	int rc;

	rc = decimal(text + minus, &whole, &part, &end);
	if (rc)
		return rc;
	if (*end)
		return -EINVAL;
	*out = (double)whole + part;
	if (minus)
		*out = -*out;
	return 0;
}

int tei_parse_bool(const char *text, bool *out)
{
	static const char *const words[2][5] = {
		{"0", "false", "no", "off", "disable"},
		{"1", "true", "yes", "on", "enable"},
	};

	for (unsigned int i = 0; i < 10; i++) {
		if (strcasecmp(text, words[i & 1][i >> 1]) == 0) {
			*out = i & 1;
			return 0;
		}
	}
	return -EINVAL;
}
