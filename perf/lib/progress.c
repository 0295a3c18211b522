/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.c - a bar on stderr, only when that is a terminal
 */
#include "perf/lib/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define WIDTH 40

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
	char bar[WIDTH + 1];
	int filled;

	if (!p->shown || now - p->last_ns < 100 * TEI_NS_PER_MS)
		return;
	p->last_ns = now;
	if (share > 1)
		share = 1;
	filled = (int)(share * WIDTH);
	memset(bar, '#', (size_t)filled);
	memset(bar + filled, '.', (size_t)(WIDTH - filled));
	bar[WIDTH] = 0;
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
