/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped.h - whether memory is there, as the kernel says
 *
 * For memory that others vouch for: callers who name it by a number, owners of
 * regions. A wrong one must end as an error, not as a signal. Another thread
 * may still unmap it in between.
 */
#ifndef BASE_MAPPED_H
#define BASE_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

/* Every page is mapped, in whatever way. Nothing is touched. */
bool tei_is_mapped(uint64_t addr, uint64_t length);

/*
 * Tells whether memory is mapped and can be read, or @writable: written. Its
 * pages are there afterwards, so ask only of what is used at once. Blocks:
 * while the kernel finds them.
 */
bool tei_is_usable(uint64_t addr, uint64_t length, bool writable);

/*
 * The same for each piece of a copy: a kernel before 5.14, which would take
 * long, is only asked whether it is mapped.
 */
bool tei_is_there(uint64_t addr, uint64_t length, bool writable);

/* The same for one byte, at the cost of a system call that does little else. */
bool tei_is_touchable(uint64_t addr, bool writable);

/*
 * Access that all of mapped memory permits: PROT_READ | PROT_WRITE, or part of
 * that. Before Linux 6.11 only both ends are tested if they may be written.
 * Blocks: as above, for them.
 */
int tei_protection(uint64_t addr, uint64_t length);

/* ---- what mappings permit ---- */

struct tei_stretch {
	uint64_t begin, end;
};

/*
 * Opens the kernel's list of this process's mappings; close() it. -1: it cannot
 * be asked about one of them, as before Linux 6.11. A forked child needs its
 * own.
 */
int tei_maps_open(void);
/*
 * Tells whether all of @asked, which is not empty, is mapped so that it may be
 * read, or @writable: written. Nothing is touched: a file that was made shorter
 * is not noticed. *@known: a mapping that permits it; in: of the last answer,
 * or empty; out: where @asked ends. Costs a system call for each other mapping.
 */
bool tei_maps_permit(int maps, const struct tei_stretch *asked, bool writable,
		     struct tei_stretch *known);
/*
 * Tells the same as tei_is_there(), but only where the kernel knows it at once:
 * of memory whose pages are there already. It costs a fiftieth of finding them
 * again. False: that is not so, or not known; ask tei_is_there(). @maps may be
 * -1.
 */
bool tei_is_resident(int maps, uint64_t addr, uint64_t length, bool writable);

#endif
