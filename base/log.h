/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - one line per event, lower case, object first
 *
 * error: a user loses something. warn: degraded. info: a handful per process
 * life. debug: per object. trace: per operation, compiled out of release
 * builds. Values stand after a space, without "=". Keys' values and secrets
 * are never logged. Preserves errno.
 *
 * Threads: any.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum tei_log_level {
	TEI_LOG_ERROR,
	TEI_LOG_WARN,
	TEI_LOG_INFO,
	TEI_LOG_DEBUG,
	TEI_LOG_TRACE,
};

/* @line has no newline and is borrowed for the call. */
typedef void tei_log_fn(int level, const char *line, void *arg);

/*
 * Send lines to @fn instead of stderr; NULL goes back to stderr. Set-up only.
 * To stderr a line is "2026-01-31 12:00:00.123 warn  text".
 */
void tei_log_set_sink(tei_log_fn *fn, void *arg);
/* Lines above @level are dropped. Default: TE_LOG (name or 0-4), else warn. */
void tei_log_set_level(int level);
int tei_log_level(void);
/* "error" .. "trace" or "0" .. "4"; -EINVAL. */
int tei_log_level_parse(const char *text, int *out);
const char *tei_log_level_name(int level);

void tei_log(int level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Hand over a finished line, as from another copy of this library. */
void tei_log_line(int level, const char *line);

#define LOG_ERROR(...) tei_log(TEI_LOG_ERROR, __VA_ARGS__)
#define LOG_WARN(...)  tei_log(TEI_LOG_WARN, __VA_ARGS__)
#define LOG_INFO(...)                                       \
	do {                                                \
		if (tei_log_level() >= TEI_LOG_INFO)        \
			tei_log(TEI_LOG_INFO, __VA_ARGS__); \
	} while (0)
#define LOG_DEBUG(...)                                       \
	do {                                                 \
		if (tei_log_level() >= TEI_LOG_DEBUG)        \
			tei_log(TEI_LOG_DEBUG, __VA_ARGS__); \
	} while (0)

/*
 * Lets through at most @per_minute lines a minute from one place, for lines
 * that a peer can provoke:
 *
 *   static struct tei_log_limit limit = {.per_minute = 6};
 *
 *   if (tei_log_allowed(&limit))
 *           LOG_WARN(...);
 *
 * Suppressed lines are counted and named by the next line that is let through.
 * Threads: any.
 */
struct tei_log_limit {
	unsigned int per_minute;
	_Atomic uint64_t window_start_ms;
	_Atomic unsigned int n_in_window;
};
bool tei_log_allowed(struct tei_log_limit *limit);
/* The same for LOG_INFO(): false, nothing counted, where it is not heard. */
bool tei_log_info_allowed(struct tei_log_limit *limit);

/*
 * LOG_WARN("@call: @why"), but the same line 6 times a minute at most: callers
 * do again and again what is refused. Preserves errno. Threads: any.
 */
void tei_log_refusal(const char *call, const char *why);

#endif
