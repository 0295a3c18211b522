/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h - fail the n-th allocation or system call, for tests
 *
 * Off unless armed; an unarmed check is one relaxed load. Compiled into every
 * build, so that what is tested is what is shipped.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>

enum tei_fault {
	TEI_FAULT_ALLOC,  /* mem.h returns NULL */
	TEI_FAULT_SOCKET, /* socket(), accept(), eventfd(), epoll_create() */
	TEI_FAULT_THREAD, /* thread.h: start fails with -EAGAIN */
	TEI_FAULT_IO,     /* send and receive fail with ECONNRESET */
	TEI_FAULT_N,
};

/* The @nth check of @kind from now fails, once; 0 disarms. */
void tei_fault_arm(enum tei_fault kind, unsigned int nth);
void tei_fault_disarm_all(void);
/* Tells whether an armed fault has struck since it was armed. */
bool tei_fault_struck(enum tei_fault kind);
/*
 * Every look-up of a name takes up to @ms longer, also one that is waiting
 * just now; 0: none does.
 */
void tei_fault_slow_names(unsigned int ms);
/* Wait as long as tei_fault_slow_names() wants it. */
void tei_fault_wait_for_name(void);
/* True: fail now. Any thread. */
bool tei_fault_check(enum tei_fault kind);

#endif
