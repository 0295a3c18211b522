/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - one line per event
 *
 * A line is formatted on the stack and handed over or written at once, so
 * lines of several threads do not mix. Bytes that would break the line or the
 * terminal are shown as '?': texts of peers are logged too.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

#define LINE_MAX_LEN 1024
#define LEVEL_UNSET  (-1)
#define MINUTE_MS    60000

#define REFUSALS            64 /* texts that are remembered */
#define REFUSALS_PER_MINUTE 6

static const char *const names[] = {"error", "warn", "info", "debug", "trace"};

static _Atomic int level_now = LEVEL_UNSET;
static _Atomic(tei_log_fn *) sink;
static _Atomic(void *) sink_arg;

void tei_log_set_sink(tei_log_fn *fn, void *arg)
{
	atomic_store(&sink_arg, arg);
	atomic_store(&sink, fn);
}

int tei_log_level_parse(const char *text, int *out)
{
	for (int i = TEI_LOG_ERROR; i <= TEI_LOG_TRACE; i++) {
		bool digit = text[0] == '0' + i && text[1] == '\0';

		if (digit || strcasecmp(text, names[i]) == 0) {
			*out = i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *tei_log_level_name(int level)
{
	if (level < TEI_LOG_ERROR || level > TEI_LOG_TRACE)
		return "?";
	return names[level];
}

void tei_log_set_level(int level)
{
	atomic_store_explicit(&level_now, level, memory_order_relaxed);
}

/* The environment is read once, unless somebody has set a level before. */
static int level_from_environment(void)
{
	const char *text = getenv("TE_LOG");
	int level = TEI_LOG_WARN, unset = LEVEL_UNSET;

	if (text)
		tei_log_level_parse(text, &level);
	if (atomic_compare_exchange_strong(&level_now, &unset, level))
		return level;
	return unset; /* what another thread has set meanwhile */
}

int tei_log_level(void)
{
	int level = atomic_load_explicit(&level_now, memory_order_relaxed);

	return level == LEVEL_UNSET ? level_from_environment() : level;
}

static void write_stderr(int level, const char *line)
{
	char out[LINE_MAX_LEN + 64];
	uint64_t us = tei_wall_us();
	time_t s = (time_t)(us / 1000000);
	struct tm tm;
	size_t len;
	int n;

	localtime_r(&s, &tm);
	len = strftime(out, sizeof(out), "%Y-%m-%d %H:%M:%S", &tm);
	n = snprintf(out + len, sizeof(out) - len, ".%03u %-5s %s\n",
		     (unsigned int)(us / 1000 % 1000),
		     tei_log_level_name(level), line);
	if (n < 0)
		return;
	len += (size_t)n;
	if (len >= sizeof(out)) {
		len = sizeof(out) - 1;
		out[len - 1] = '\n';
	}
	if (write(STDERR_FILENO, out, len) < 0)
		return; /* nobody is left to report to */
}

void tei_log_line(int level, const char *line)
{
	int saved = errno;
	tei_log_fn *fn;

	if (level > tei_log_level())
		return;
	fn = atomic_load(&sink);
	if (fn)
		fn(level, line, atomic_load(&sink_arg));
	else
		write_stderr(level, line);
	errno = saved;
}

void tei_log(int level, const char *format, ...)
{
	char line[LINE_MAX_LEN];
	int saved = errno;
	va_list ap;
	int n;

	if (level > tei_log_level())
		return;
	va_start(ap, format);
	n = vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	if (n >= (int)sizeof(line))
		memcpy(line + sizeof(line) - 4, "...", 4);
	if (n >= 0) {
		tei_text_clean(line);
		tei_log_line(level, line);
	}
	errno = saved;
}

static bool is_allowed(struct tei_log_limit *limit, unsigned int per_minute)
{
	uint64_t now = tei_now_ms() + 1; /* never 0, which is "no window" */
	uint64_t start = atomic_load(&limit->window_start_ms);
	unsigned int n;

	if ((start == 0 || now - start >= MINUTE_MS) &&
	    atomic_compare_exchange_strong(&limit->window_start_ms, &start,
					   now)) {
		n = atomic_exchange(&limit->n_in_window, 0);
		if (n > per_minute)
			LOG_WARN("log: %u lines like the next were left out",
				 n - per_minute);
	}
	n = atomic_fetch_add(&limit->n_in_window, 1);
	return n < per_minute;
}

bool tei_log_allowed(struct tei_log_limit *limit)
{
	return is_allowed(limit, limit->per_minute);
}

bool tei_log_info_allowed(struct tei_log_limit *limit)
{
	return tei_log_level() >= TEI_LOG_INFO && tei_log_allowed(limit);
}

/* FNV-1a. */
static uint64_t hash_on(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash;
}

/*
 * Each place is that of the text that came last: when two take turns in one,
 * both are written each time.
 */
void tei_log_refusal(const char *call, const char *why)
{
	static struct {
		_Atomic uint64_t hash;
		struct tei_log_limit limit;
	} places[REFUSALS];
	uint64_t hash = hash_on(hash_on(0xcbf29ce484222325, call), why);
	size_t i = hash % REFUSALS;

	if (atomic_exchange(&places[i].hash, hash) != hash) {
		atomic_store(&places[i].limit.n_in_window, 0);
		atomic_store(&places[i].limit.window_start_ms, 0);
	}
	if (is_allowed(&places[i].limit, REFUSALS_PER_MINUTE))
		LOG_WARN("%s: %s", call, why);
}
