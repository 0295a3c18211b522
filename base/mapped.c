/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped.c - whether memory is there, as the kernel says
 */
#include "base/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* of Linux 5.14 */
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* The pages of a range; false: it is empty or wraps around. */
static bool pages_of(uint64_t addr, uint64_t length, void **begin, size_t *len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t first = addr / page * page;

	if (!addr || !length || addr + length < addr ||
	    addr + length > UINT64_MAX - page)
		return false;
	*begin = (void *)(uintptr_t)first;
	*len = (size_t)((addr + length - first + page - 1) / page * page);
	return true;
}

bool tei_is_mapped(uint64_t addr, uint64_t length)
{
	void *begin;
	size_t len;

	/* MS_ASYNC does nothing but this check. */
	return pages_of(addr, length, &begin, &len) &&
	       !msync(begin, len, MS_ASYNC);
}

/*
 * PROT_READ | PROT_WRITE as far as all of a range has it, by the kernel's list.
 */
static int listed_protection(uint64_t addr, uint64_t length)
{
	uint64_t begin, end, at = addr, last = addr + length - 1;
	FILE *maps = fopen("/proc/self/maps", "re");
	int protection = PROT_READ | PROT_WRITE;
	bool covered = false;
	char *line = NULL;
	size_t room = 0;
	char r, w;

	while (maps && !covered && getline(&line, &room, maps) > 0) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %c%c", &begin, &end,
			   &r, &w) != 4 ||
		    end <= at)
			continue;
		if (begin > at)
			break;
		protection &= (r == 'r' ? PROT_READ : 0) |
			      (w == 'w' ? PROT_WRITE : 0);
		covered = last < end;
		at = end;
	}
	free(line);
	if (maps)
		(void)fclose(maps);
	return covered ? protection : 0;
}

/*
 * Have the kernel find all pages. 0; -EINVAL: it does not know how, being older
 * than 5.14, or will not, for a driver's memory or what may not be used so;
 * else negative.
 */
static int populate(uint64_t addr, uint64_t length, bool writable)
{
	void *begin;
	size_t len;

	if (!pages_of(addr, length, &begin, &len))
		return -EFAULT;
	return madvise(begin, len,
		       writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ)
		       ? -errno
		       : 0;
}

/*
 * The kernel looks at a set of signals before it finds that there is no such
 * way to block them.
 */
static bool can_read(uint64_t addr)
{
	return syscall(SYS_rt_sigprocmask, -1, addr & ~7ull, NULL, 8) &&
	       errno == EINVAL;
}

/*
 * The kernel writes a word with no further bit set. Who waits for a change of
 * that very word may be woken, finds it as it was, and waits on.
 */
static bool can_write(uint64_t addr)
{
	uint64_t word = addr & ~3ull;

	return syscall(SYS_futex, word, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0,
		       NULL, word,
		       FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
}

/* Tells whether the kernel says that it does not get at a byte. */
static bool is_out_of_reach(uint64_t addr, bool writable)
{
	return !(writable ? can_write(addr) : can_read(addr)) &&
	       errno == EFAULT;
}

/*
 * Tells whether the kernel's list has all of a range. A driver may list memory
 * that no processor gets at, a GPU's for example: so both ends are tried.
 */
static bool is_listed(uint64_t addr, uint64_t length, bool writable)
{
	return !is_out_of_reach(addr, writable) &&
	       !is_out_of_reach(addr + length - 1, writable) &&
	       listed_protection(addr, length) &
		       (writable ? PROT_WRITE : PROT_READ);
}

bool tei_is_usable(uint64_t addr, uint64_t length, bool writable)
{
	int rc = populate(addr, length, writable);

	return !rc || (rc == -EINVAL && is_listed(addr, length, writable));
}

bool tei_is_there(uint64_t addr, uint64_t length, bool writable)
{
	int rc = populate(addr, length, writable);

	if (rc != -EINVAL)
		return !rc;
	if (madvise(NULL, 0, MADV_POPULATE_READ)) /* before 5.14 */
		return tei_is_mapped(addr, length);
	return is_listed(addr, length, writable);
}

bool tei_is_touchable(uint64_t addr, bool writable)
{
	if (writable ? can_write(addr) : can_read(addr))
		return true;
	/* Or these calls do not say so here. */
	return tei_is_usable(addr, 1, writable);
}

/* ---- what mappings permit ---- */

/* Mapping that an address lies in, as Linux 6.11 has it in <linux/fs.h>. */
struct maps_query {
	uint64_t size;
	uint64_t wanted; /* MAPS_* */
	uint64_t addr;
	uint64_t begin, end; /* out, as what follows */
	uint64_t flags, page_size, offset, inode;
	uint32_t dev_major, dev_minor;
	uint32_t name_size, build_id_size; /* 0: neither is asked for */
	uint64_t name, build_id;
};

#define MAPS_QUERY    _IOWR('f', 17, struct maps_query)
#define MAPS_READABLE 1u
#define MAPS_WRITABLE 2u
#define MAPS_SHARED   8u

/* Asks for the mapping of @addr, if it permits that. */
static bool ask_maps(int maps, uint64_t addr, bool writable,
		     struct maps_query *out)
{
	*out = (struct maps_query){
		.size = sizeof(*out),
		.wanted = writable ? MAPS_WRITABLE : MAPS_READABLE,
		.addr = addr,
	};
	return !ioctl(maps, MAPS_QUERY, out);
}

/* Finds the mapping of @addr, if it permits that. */
static bool find_mapping(int maps, uint64_t addr, bool writable,
			 struct tei_stretch *out)
{
	struct maps_query query;

	if (!ask_maps(maps, addr, writable, &query))
		return false;
	*out = (struct tei_stretch){query.begin, query.end};
	return true;
}

int tei_maps_open(void)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct tei_stretch own;

	if (maps >= 0 && !find_mapping(maps, (uintptr_t)&own, true, &own)) {
		(void)close(maps);
		maps = -1;
	}
	return maps;
}

bool tei_maps_permit(int maps, const struct tei_stretch *asked, bool writable,
		     struct tei_stretch *known)
{
	uint64_t at = asked->begin;

	while (at < asked->end) {
		if ((at < known->begin || at >= known->end) &&
		    !find_mapping(maps, at, writable, known))
			return false;
		at = known->end;
	}
	return true;
}

/* ---- pages that are there ---- */

#define PAGES_MAX 256u /* of one question */

static bool are_pages_there(uint64_t begin, uint64_t end)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n;
	unsigned char there[PAGES_MAX];

	for (begin = begin / page * page; begin < end; begin += n * page) {
		n = (end - begin + page - 1) / page;
		if (n > PAGES_MAX)
			n = PAGES_MAX;
		if (mincore((void *)(uintptr_t)begin, n * page, there))
			return false;
		for (uint64_t i = 0; i < n; i++) {
			if (!(there[i] & 1))
				return false;
		}
	}
	return true;
}

/*
 * Tells whether the kernel answers which pages are there. It says that all are
 * of a file that this process may not write: it does not tell what others read.
 */
static bool tells_of_pages(const struct maps_query *mapping)
{
	const uint64_t own = MAPS_WRITABLE | MAPS_SHARED;

	return !mapping->inode || (mapping->flags & own) == own;
}

bool tei_is_resident(int maps, uint64_t addr, uint64_t length, bool writable)
{
	uint64_t end = addr + length, part;
	struct maps_query mapping;

	if (maps < 0 || end < addr)
		return false;
	for (; addr < end; addr = part) {
		if (!ask_maps(maps, addr, writable, &mapping) ||
		    !tells_of_pages(&mapping))
			return false;
		part = mapping.end < end ? mapping.end : end;
		if (!are_pages_there(addr, part))
			return false;
	}
	return true;
}

static int permitted_protection(int maps, uint64_t addr, uint64_t length)
{
	const struct tei_stretch all = {addr, addr + length};
	struct tei_stretch readable = {0, 0}, writable = {0, 0};

	return (tei_maps_permit(maps, &all, false, &readable) ? PROT_READ : 0) |
	       (tei_maps_permit(maps, &all, true, &writable) ? PROT_WRITE : 0);
}

int tei_protection(uint64_t addr, uint64_t length)
{
	int maps = tei_maps_open(), protection;

	if (maps >= 0) {
		protection = permitted_protection(maps, addr, length);
		(void)close(maps);
		return protection;
	}
	/* Quick, and without more of its pages: there may be many. */
	if (tei_is_usable(addr, 1, true) &&
	    tei_is_usable(addr + length - 1, 1, true))
		return PROT_READ | PROT_WRITE;
	return listed_protection(addr, length);
}
