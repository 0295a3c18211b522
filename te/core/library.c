/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - public functions that need no engine: version, log, CRC32C */
#include <te/te.h>
#include <te/version.h>

#include "base/crc.h"
#include "base/log.h"

const char *te_version(void)
{
	return TE_VERSION;
}

/* ---- the public face of base/log.h ---- */

void te_log_set(te_log_fn *fn, void *arg)
{
	tei_log_set_sink(fn, arg);
}

void te_log_set_level(int level)
{
	tei_log_set_level(level);
}

void te_log_refusal(const char *call, const char *why)
{
	tei_log_refusal(call, why);
}

void te_log_write(int level, const char *line)
{
	tei_log_line(level, line);
}

/* ---- CRC32C of bytes ---- */

#define INVERSE 0xffffffffu

uint32_t te_crc32c(uint32_t crc, const void *bytes, size_t len)
{
	return tei_crc32c_raw(crc ^ INVERSE, bytes, len) ^ INVERSE;
}

uint32_t te_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b)
{
	return tei_crc32c_join(crc_a, crc_b, len_b);
}
