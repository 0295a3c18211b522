/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halt.h - a client's calls that stand still at a chosen point
 *
 * The thread that comes to the point prints "halted" and waits for SIGCONT,
 * which the program has blocked in all its threads, so that a test which has
 * read the line may send SIGSTOP and, whenever it likes, SIGCONT. The points
 * are found by wrapping functions (the linker's --wrap) and, where the process
 * copies by itself, by a page that cannot be touched.
 */
#ifndef TESTS_STORE_HALT_H
#define TESTS_STORE_HALT_H

#include <stdint.h>

enum halt_point {
	HALT_NEVER,
	HALT_START,  /* places are known, nothing has moved */
	HALT_MIDDLE, /* half of the bytes have moved */
	HALT_END,    /* put: all is written, the master does not know */
};

#define HALT_PAGE     4096u
#define HALTER_NEW_ID 7 /* pool_fill() of what replaces a value */

/* Before any other thread is there. */
void halt_init(void);
/* For the next call that comes there, once. */
void halt_at(enum halt_point point);
/*
 * HALT_MIDDLE also where @page, a whole one of ours, is touched by the next call
 * that moves bytes.
 */
void halt_at_page(uint8_t *page);
/* Until that signal comes; it is blocked. */
void halt_await(int signal);

#endif
