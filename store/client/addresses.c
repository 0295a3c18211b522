/* SPDX-License-Identifier: Apache-2.0 */
/* addresses.c - what is registered, and the check of what calls name */
#include "store/client/addresses.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "store/client/client.h"

#define PAGE_SHIFT   12u /* of the smallest pages */
#define LINES_MINUTE 6u

void tes_addresses_init(struct tes_addresses *a)
{
	memset(a, 0, sizeof(*a));
	a->maps = tei_maps_open();
	tei_mutex_init(&a->mu);
}

void tes_addresses_fini(struct tes_addresses *a)
{
	if (a->maps >= 0)
		(void)close(a->maps);
	tei_free(a->at);
	tei_mutex_fini(&a->mu);
}

/* ---- what is registered ---- */

/* Returns the place of the first registration that ends above @addr. */
static size_t place_of(const struct tes_addresses *a, uint64_t addr)
	TEI_REQUIRES(a->mu)
{
	size_t low = 0, high = a->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (a->at[mid].end > addr)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* Returns the registration that @addr lies in, or NULL. */
static struct tes_registration *find_registration(struct tes_addresses *a,
						  uint64_t addr)
	TEI_REQUIRES(a->mu)
{
	size_t place = place_of(a, addr);

	return place < a->n && a->at[place].begin <= addr ? &a->at[place]
							  : NULL;
}

static int insert(struct tes_addresses *a, const struct tes_registration *r)
	TEI_REQUIRES(a->mu)
{
	size_t place = place_of(a, r->begin);
	size_t room = a->room ? 2 * a->room : 8;
	struct tes_registration *more;

	if (place < a->n && a->at[place].begin < r->end)
		return -EINVAL;
	if (a->n == a->room) {
		more = tei_realloc(a->at, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		a->at = more;
		a->room = room;
	}
	memmove(&a->at[place + 1], &a->at[place],
		(a->n - place) * sizeof(a->at[0]));
	a->at[place] = *r;
	a->n++;
	return 0;
}

int tes_addresses_add(struct tes_addresses *a, uint64_t addr, uint64_t length)
{
	struct tes_registration r = {.begin = addr, .end = addr + length};
	int rc;

	r.protection = tei_protection(addr, length);
	tei_mutex_lock(&a->mu);
	rc = insert(a, &r);
	tei_mutex_unlock(&a->mu);
	return rc;
}

void tes_addresses_keep(struct tes_addresses *a, uint64_t addr,
			te_region_id region, bool is_gpu)
{
	struct tes_registration *r;

	tei_mutex_lock(&a->mu);
	r = find_registration(a, addr);
	if (r) {
		r->region = region;
		r->is_gpu = is_gpu;
		r->is_whole = true;
	}
	if (is_gpu)
		atomic_store_explicit(&a->any_gpu, true, memory_order_relaxed);
	tei_mutex_unlock(&a->mu);
}

bool tes_addresses_is_gpu(struct tes_addresses *a, const void *addr)
{
	const struct tes_registration *r;
	bool is_gpu;

	if (!atomic_load_explicit(&a->any_gpu, memory_order_relaxed))
		return false;
	tei_mutex_lock(&a->mu);
	r = find_registration(a, (uintptr_t)addr);
	is_gpu = r && r->is_gpu;
	tei_mutex_unlock(&a->mu);
	return is_gpu;
}

static void take_out(struct tes_addresses *a, struct tes_registration *r)
	TEI_REQUIRES(a->mu)
{
	size_t place = (size_t)(r - a->at);

	memmove(r, r + 1, (a->n - place - 1) * sizeof(*r));
	a->n--;
}

void tes_addresses_remove(struct tes_addresses *a, uint64_t addr)
{
	struct tes_registration *r;

	tei_mutex_lock(&a->mu);
	r = find_registration(a, addr);
	if (r)
		take_out(a, r);
	tei_mutex_unlock(&a->mu);
}

bool tes_addresses_take(struct tes_addresses *a, uint64_t addr,
			te_region_id *region)
{
	struct tes_registration *r = NULL;

	tei_mutex_lock(&a->mu);
	if (addr)
		r = find_registration(a, addr);
	else if (a->n)
		r = &a->at[a->n - 1];
	if (r && ((addr && r->begin != addr) || !r->is_whole))
		r = NULL;
	if (r) {
		*region = r->region;
		take_out(a, r);
	}
	tei_mutex_unlock(&a->mu);
	return r != NULL;
}

uint64_t tes_addresses_left(struct tes_addresses *a, uint64_t addr)
{
	const struct tes_registration *r;
	uint64_t left = 0;

	tei_mutex_lock(&a->mu);
	r = find_registration(a, addr);
	if (r)
		left = r->end - addr;
	tei_mutex_unlock(&a->mu);
	if (!left && addr >= a->pool_begin && addr < a->pool_end)
		left = tes_buffer_left(a->pool, addr);
	return left;
}

/* ---- a check ---- */

/* A registration, or the gap between two of them. */
struct area {
	uint64_t begin, end;
	int protection;
	bool is_registered, is_usable;
};

struct check {
	struct tes_addresses *addresses;
	uint64_t number;
	bool writable;
	struct area area; /* of the last piece; empty at first */
	/* A mapping that permits the access, as the kernel said; or empty. */
	struct tei_stretch known;
	/* Pieces of other memory that lie side by side, not yet looked at. */
	uint64_t run_begin, run_end;
	/* Something is wrong with some piece of other memory. */
	bool in_doubt;
	/* Looks at each piece alone, and says what is wrong with it. */
	bool is_exact;
};

/* ---- registered memory ---- */

/* Copies the area that @addr lies in. True: the kernel is to be asked of it. */
static bool read_area(struct check *c, uint64_t addr)
{
	struct tes_addresses *a = c->addresses;
	struct tes_registration *r;
	bool ask = false;
	size_t place;

	tei_mutex_lock(&a->mu);
	place = place_of(a, addr);
	r = place < a->n ? &a->at[place] : NULL;
	if (r && r->begin <= addr) {
		c->area = (struct area){r->begin, r->end, r->protection, true,
					true};
		ask = r->found_by != c->number && !r->is_gpu;
		r->found_by = c->number;
	} else {
		c->area = (struct area){
			.begin = a->at && place ? a->at[place - 1].end : 0,
			.end = r ? r->begin : UINT64_MAX,
		};
	}
	tei_mutex_unlock(&a->mu);
	return ask;
}

/* Pieces of the registration are looked at one by one. */
static void note_unusable(struct check *c)
{
	struct tes_addresses *a = c->addresses;
	struct tes_registration *r;

	c->area.is_usable = false;
	tei_mutex_lock(&a->mu);
	r = find_registration(a, c->area.begin);
	if (r)
		r->found_by = 0;
	tei_mutex_unlock(&a->mu);
}

static void find_area(struct check *c, uint64_t addr)
{
	if (addr >= c->area.begin && addr < c->area.end)
		return;
	/* Freed without a word? Once in a call is enough. */
	if (read_area(c, addr) &&
	    (!(c->area.protection & (c->writable ? PROT_WRITE : PROT_READ)) ||
	     !tei_is_mapped(c->area.begin, c->area.end - c->area.begin)))
		note_unusable(c);
}

static void say(const struct check *c, uint64_t addr, uint64_t length,
		const char *what)
{
	static struct tei_log_limit limit = {.per_minute = LINES_MINUTE};

	if (tei_log_allowed(&limit))
		LOG_WARN("store: %" PRIu64 " bytes at 0x%" PRIx64
			 " cannot be %s: %s",
			 length, addr, c->writable ? "read into" : "put from",
			 what);
}

static bool is_piece_usable(struct check *c, uint64_t addr, uint64_t length)
{
	const struct tei_stretch piece = {addr, addr + length};

	if (c->addresses->maps >= 0)
		return tei_maps_permit(c->addresses->maps, &piece, c->writable,
				       &c->known);
	return tei_is_usable(addr, length, c->writable);
}

static const char *wrong_in_area(struct check *c, uint64_t addr,
				 uint64_t length)
{
	if (length > c->area.end - addr)
		return "they begin in registered memory and run past its end";
	if (c->area.is_usable || is_piece_usable(c, addr, length))
		return NULL;
	return tei_is_mapped(addr, length)
		       ? "the registered memory is protected against that"
		       : "the memory is registered, but unmapped by now";
}

/* ---- other memory ---- */

/* Asks at both ends only: pages are not committed for rooms that stay empty. */
static bool are_ends_usable(const struct check *c, uint64_t begin, uint64_t end)
{
	return tei_is_touchable(begin, c->writable) &&
	       (begin >> PAGE_SHIFT == (end - 1) >> PAGE_SHIFT ||
		tei_is_touchable(end - 1, c->writable));
}

/*
 * Looks at what lies between the ends. A kernel that cannot be asked what a
 * mapping permits would have to commit the pages: it does so for what will be
 * read; what is to be written only has to be mapped.
 */
static bool is_middle_usable(struct check *c, uint64_t begin, uint64_t end)
{
	const struct tei_stretch run = {begin, end};

	if (((end - 1) >> PAGE_SHIFT) - (begin >> PAGE_SHIFT) <= 1)
		return true;
	if (c->addresses->maps >= 0)
		return tei_maps_permit(c->addresses->maps, &run, c->writable,
				       &c->known);
	return c->writable ? tei_is_mapped(begin, end - begin)
			   : tei_is_there(begin, end - begin, false);
}

static bool is_run_usable(struct check *c, uint64_t begin, uint64_t end)
{
	return are_ends_usable(c, begin, end) &&
	       is_middle_usable(c, begin, end);
}

static void end_run(struct check *c)
{
	if (c->run_end > c->run_begin &&
	    !is_run_usable(c, c->run_begin, c->run_end))
		c->in_doubt = true;
	c->run_begin = c->run_end = 0;
}

static void add_to_run(struct check *c, uint64_t addr, uint64_t length)
{
	if (addr != c->run_end) {
		end_run(c);
		c->run_begin = addr;
	}
	c->run_end = addr + length;
}

static const char *wrong_outside(struct check *c, uint64_t addr,
				 uint64_t length)
{
	const struct tes_addresses *a = c->addresses;

	if (addr >= a->pool_begin && addr < a->shared_end)
		return addr < a->pool_end && length <= a->pool_end - addr
			       ? NULL
			       : "they run past the end of the shared memory";
	if (!addr || length > UINT64_MAX - addr)
		return "there is no memory at that address";
	if (!c->is_exact) {
		add_to_run(c, addr, length);
		return NULL;
	}
	if (is_run_usable(c, addr, addr + length))
		return NULL;
	return tei_is_mapped(addr, length)
		       ? "the memory is protected against that"
		       : "not all of that is mapped";
}

/* ---- all pieces of a call ---- */

static bool is_good(struct check *c, const void *at, uint64_t length)
{
	uint64_t addr = (uintptr_t)at;
	const char *wrong;

	if (!length)
		return true;
	find_area(c, addr);
	wrong = c->area.is_registered ? wrong_in_area(c, addr, length)
				      : wrong_outside(c, addr, length);
	if (wrong)
		say(c, addr, length, wrong);
	return !wrong;
}

static bool is_value_good(struct check *c, const struct te_store_value *value)
{
	if (!tes_value_bytes(value))
		return true;
	for (uint32_t i = 0; i < value->n_pieces; i++)
		if (!is_good(c, value->pieces[i].iov_base,
			     value->pieces[i].iov_len))
			return false;
	return true;
}

static void check_items(struct check *c, const struct tes_named *named,
			bool *bad)
{
	for (size_t i = 0; i < named->n; i++) {
		if (bad[i] || (named->skip && named->skip[i]))
			continue;
		bad[i] = named->values ? !is_value_good(c, &named->values[i])
				       : !is_good(c, named->ranges[i].addr,
						  named->ranges[i].length);
	}
	end_run(c);
}

void tes_addresses_check(struct tes_addresses *a, const struct tes_named *named,
			 bool *bad)
{
	struct check c = {
		.addresses = a,
		.writable = named->writable,
		/* Relaxed: each check needs a number of its own, no order. */
		.number = atomic_fetch_add_explicit(&a->n_checks, 1,
						    memory_order_relaxed) +
			  1,
	};

	if (!named->n)
		return;
	check_items(&c, named, bad);
	if (!c.in_doubt)
		return;
	c.is_exact = true;
	check_items(&c, named, bad);
}
