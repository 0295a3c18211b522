/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - lists in; tables, JSON, the machine and progress out */
#include "perf/lib/report.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <te/version.h>
#include <unistd.h>

#include "base/clock.h"

#define PART_LEN 32

static int bad_part(const char *program, const char *setting, const char *text)
{
	fprintf(stderr,
		"%s: %s: \"%s\" is wrong, give up to %d numbers such as "
		"4k,64k or 4k..16m\n",
		program, setting, text, TEI_SIZES_MAX);
	return -EINVAL;
}

/* "4k" or "4k..1m", the latter doubling; how many have been put to @out. */
static int parse_part(char *part, uint64_t max, uint64_t *out, int room)
{
	char *to = strstr(part, "..");
	uint64_t first, last;
	int n = 0;

	if (to)
		*to = 0;
	if (tei_parse_size(part, &first) || !first)
		return -EINVAL;
	last = first;
	if (to && tei_parse_size(to + 2, &last))
		return -EINVAL;
	if (last < first || last > max)
		return -EINVAL;
	for (; first <= last; first *= 2) {
		if (n == room)
			return -EINVAL;
		out[n++] = first;
	}
	return n;
}

int tei_sizes_parse(const char *program, const char *setting, const char *text,
		    uint64_t max, uint64_t out[TEI_SIZES_MAX])
{
	char part[PART_LEN];
	const char *at = text;
	size_t len;
	int n = 0, more;

	do {
		len = strcspn(at, ",");
		if (len >= sizeof(part))
			return bad_part(program, setting, text);
		memcpy(part, at, len);
		part[len] = 0;
		more = parse_part(part, max, out + n, TEI_SIZES_MAX - n);
		if (more < 0)
			return bad_part(program, setting, text);
		n += more;
		at += len;
	} while (*at++ == ',');
	return n;
}

int tei_report_json(const char *program, json_t *object)
{
	int rc;

	if (!object) {
		fprintf(stderr, "%s: no memory for the report\n", program);
		return -ENOMEM;
	}
	rc = json_dumpf(object, stdout,
			JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	json_decref(object);
	if (rc || fputc('\n', stdout) == EOF || fflush(stdout)) {
		fprintf(stderr, "%s: cannot write to stdout\n", program);
		return -EIO;
	}
	return 0;
}

/* A full disk shows when what was printed is written at last. */
static int end_output(void)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	if (errno == EPIPE) /* who read it has seen enough */
		return 0;
	fprintf(stderr, "%s: cannot write to stdout%s%s\n",
		program_invocation_short_name, errno ? ": " : "",
		errno ? strerror(errno) : "");
	return 1;
}

int tei_tool_main(struct tei_conf *conf, int argc, char **argv,
		  const char *about, int (*run)(const struct tei_conf *conf))
{
	int code;

	signal(SIGPIPE, SIG_IGN);
	code = tei_conf_program(conf, argc, argv, about, run);
	return code ? code : end_output();
}

#define TEXT_LEN 128

/* Reads the first line of a file, without its end; "": there is none. */
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

void tei_table_row(struct tei_table *t)
{
	t->n_rows++;
	t->column = 0;
}

void tei_table_cell(struct tei_table *t, const char *format, ...)
{
	va_list args;

	if (!t->n_rows || t->n_rows > TEI_TABLE_ROWS ||
	    t->column >= TEI_TABLE_COLUMNS)
		return;
	va_start(args, format);
	vsnprintf(t->cell[t->n_rows - 1][t->column], TEI_TABLE_CELL, format,
		  args);
	va_end(args);
	t->column++;
	if (t->column > t->n_columns)
		t->n_columns = t->column;
}

void tei_table_texts(struct tei_table *t, const char *const texts[], size_t n)
{
	tei_table_row(t);
	for (size_t i = 0; i < n; i++)
		tei_table_cell(t, "%s", texts[i]);
}

static int width_of(const struct tei_table *t, size_t n_rows, size_t column)
{
	size_t width = 0, len;

	for (size_t r = 0; r < n_rows; r++) {
		len = strlen(t->cell[r][column]);
		if (len > width)
			width = len;
	}
	return (int)width;
}

static void print_row(const struct tei_table *t, size_t r, const int *width,
		      FILE *out)
{
	for (size_t c = 0; c < t->n_columns; c++)
		fprintf(out, "%s%*s", c ? "  " : "", c ? width[c] : -width[c],
			t->cell[r][c]);
	fputc('\n', out);
}

static void print_line(const struct tei_table *t, const int *width, FILE *out)
{
	int total = -2;

	for (size_t c = 0; c < t->n_columns; c++)
		total += width[c] + 2;
	while (total-- > 0)
		fputc('-', out);
	fputc('\n', out);
}

void tei_table_print(const struct tei_table *t, FILE *out)
{
	size_t n = t->n_rows < TEI_TABLE_ROWS ? t->n_rows : TEI_TABLE_ROWS;
	int width[TEI_TABLE_COLUMNS] = {0};

	for (size_t c = 0; c < t->n_columns; c++)
		width[c] = width_of(t, n, c);
	for (size_t r = 0; r < n; r++) {
		print_row(t, r, width, out);
		if (r == 0)
			print_line(t, width, out);
	}
}

const char *tei_text_bytes(uint64_t bytes, char out[24])
{
	static const char *const unit[] = {"B",   "KiB", "MiB", "GiB",
					   "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t u = 0;

	while (value >= 1024 && u < 6) {
		value /= 1024;
		u++;
	}
	if (value == (double)(uint64_t)value)
		snprintf(out, 24, "%" PRIu64 " %s", (uint64_t)value, unit[u]);
	else
		snprintf(out, 24, "%.1f %s", value, unit[u]);
	return out;
}

const char *tei_text_count(uint64_t n, char out[32])
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			out[at++] = ',';
		out[at++] = digits[i];
	}
	out[at] = 0;
	return out;
}

#define BAR_WIDTH 40

void tei_progress_begin(struct tei_progress *p, const char *what)
{
	const char *term = getenv("TERM");

	memset(p, 0, sizeof(*p));
	p->what = what;
	p->shown = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
	p->start_ns = tei_now_ns();
}

void tei_progress_show(struct tei_progress *p, uint64_t done, uint64_t total)
{
	uint64_t now = tei_now_ns();
	double share = total ? (double)done / (double)total : 1;
	double elapsed = (double)(now - p->start_ns) / 1e9;
	char bar[BAR_WIDTH + 1];
	int filled;

	if (!p->shown || now - p->last_ns < 100 * TEI_NS_PER_MS)
		return;
	p->last_ns = now;
	if (share > 1)
		share = 1;
	filled = (int)(share * BAR_WIDTH);
	memset(bar, '#', (size_t)filled);
	memset(bar + filled, '.', (size_t)(BAR_WIDTH - filled));
	bar[BAR_WIDTH] = 0;
	fprintf(stderr, "\r%s [%s] %3.0f %%  %.0f s", p->what, bar, share * 100,
		elapsed);
	if (share > 0.01)
		fprintf(stderr, ", %.0f s left ",
			elapsed / share * (1 - share));
	fputs("\033[K", stderr);
}

void tei_progress_end(struct tei_progress *p)
{
	if (p->shown && p->last_ns)
		fputs("\r\033[K", stderr);
	p->shown = false;
}
