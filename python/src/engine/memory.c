/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - registered memory, by its address
 *
 * A range is claimed in the table before the library is asked, which may take a
 * while, so that of two threads with overlapping ranges one is refused.
 */
#include "python/src/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <te/memory.h>

/* Place of the first region that ends behind @addr. */
static size_t place_of(const struct py_engine *self, uint64_t addr)
{
	size_t low = 0, high = self->n_regions;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct py_region *r = &self->regions[middle];

		if (r->addr + r->length <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Tells whether registered regions, side by side where there are several, cover
 * all of it with this access.
 */
static bool is_registered(const struct py_engine *self, uint64_t addr,
			  uint64_t length, int wanted, uint64_t *sure)
{
	size_t i = place_of(self, addr);

	for (; i < self->n_regions && self->regions[i].addr <= addr; i++) {
		const struct py_region *r = &self->regions[i];
		uint64_t room = r->addr + r->length - addr;

		if (!r->id || !(r->protection & wanted))
			return false;
		/* Freed without a word? */
		if (*sure != r->addr && !r->is_gpu &&
		    !te_memory_is_mapped(r->addr, r->length))
			return false;
		*sure = r->addr;
		if (length <= room)
			return true;
		addr += room;
		length -= room;
	}
	return false;
}

/*
 * Tells whether memory begins in registered memory and ends where nothing is
 * registered any more.
 */
static bool runs_past(const struct py_engine *self, uint64_t addr,
		      uint64_t length)
{
	size_t i = place_of(self, addr);
	uint64_t at = addr;

	if (i == self->n_regions || self->regions[i].addr > addr)
		return false;
	for (; i < self->n_regions && self->regions[i].addr <= at; i++) {
		at = self->regions[i].addr + self->regions[i].length;
		if (length <= at - addr)
			return false;
	}
	return true;
}

bool py_is_there(const struct py_engine *self, uint64_t addr, uint64_t length,
		 bool writable, uint64_t *sure)
{
	bool is_there;

	if (is_registered(self, addr, length, writable ? PROT_WRITE : PROT_READ,
			  sure))
		return true;
	if (runs_past(self, addr, length))
		return false;
	Py_BEGIN_ALLOW_THREADS;
	is_there = te_memory_is_usable(addr, length, writable);
	Py_END_ALLOW_THREADS;
	return is_there;
}

bool py_is_gpu(const struct py_engine *self, uint64_t addr, uint64_t length)
{
	size_t i = place_of(self, addr);

	for (; i < self->n_regions && self->regions[i].addr < addr + length;
	     i++)
		if (self->regions[i].is_gpu)
			return true;
	return false;
}

static int claim(struct py_engine *self, uint64_t addr, uint64_t length)
{
	size_t i = place_of(self, addr);
	struct py_region *more;

	if (i < self->n_regions && self->regions[i].addr < addr + length)
		return PY_OVERLAPPED;
	more = realloc(self->regions, (self->n_regions + 1) * sizeof(*more));
	if (!more)
		return PY_NO_MEMORY;
	self->regions = more;
	memmove(&more[i + 1], &more[i], (self->n_regions - i) * sizeof(*more));
	more[i] = (struct py_region){.addr = addr, .length = length};
	self->n_regions++;
	return 0;
}

/* The claim that begins at @addr; there is one. */
static struct py_region *claimed(struct py_engine *self, uint64_t addr)
{
	return &self->regions[place_of(self, addr)];
}

static void give_up(struct py_engine *self, uint64_t addr)
{
	struct py_region *r = claimed(self, addr);
	size_t behind = (size_t)(&self->regions[self->n_regions] - (r + 1));

	memmove(r, r + 1, behind * sizeof(*r));
	self->n_regions--;
}

static const char *reason(int code)
{
	switch (code) {
	case PY_OVERLAPPED:
		return "part of it is registered already";
	case PY_NO_MEMORY:
		return "out of memory";
	default:
		return "no such memory is mapped, or its length is 0";
	}
}

/* The access that peers get to memory of this protection. */
static uint32_t access_of(int protection)
{
	return (protection & PROT_READ ? TE_ACCESS_REMOTE_READ : 0u) |
	       (protection & PROT_WRITE ? TE_ACCESS_REMOTE_WRITE : 0u);
}

/* How peers may use it: of a page without access between its ends they hear. */
static int protection_of_ends(uint64_t addr, uint64_t length)
{
	return te_memory_protection(addr, 1) &
	       te_memory_protection(addr + length - 1, 1);
}

static bool is_gpu(struct te_engine *te, te_region_id id)
{
	struct te_region_facts facts;

	return !te_region_describe(te, id, &facts) &&
	       facts.memory == TE_MEMORY_GPU;
}

/*
 * Registers what no page here can be read of, if it is a GPU's. -EFAULT: it is
 * not.
 */
static int publish_gpu(struct te_engine *te, struct te_region *region,
		       struct py_region *out)
{
	int rc;

	region->access = TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE;
	rc = te_region_add(te, region, &out->id);
	if (rc)
		return rc;
	if (!is_gpu(te, out->id)) {
		(void)te_region_remove(te, out->id);
		return -EFAULT;
	}
	out->is_gpu = true;
	out->protection = PROT_READ | PROT_WRITE;
	return 0;
}

/* Registers the claimed range. -EFAULT: it cannot be read. */
static int publish_memory(struct py_engine *self, uint64_t addr,
			  uint64_t length, const char *location,
			  struct py_region *out)
{
	struct te_region region = {
		.addr = (void *)(uintptr_t)addr,
		.length = length,
		.location = *location ? location : "*",
	};
	int rc, ends;

	Py_BEGIN_ALLOW_THREADS;
	out->protection = te_memory_protection(addr, length);
	ends = protection_of_ends(addr, length);
	region.access = access_of(ends);
	if (ends & PROT_READ)
		rc = te_region_add(self->te, &region, &out->id);
	else
		rc = publish_gpu(self->te, &region, out);
	Py_END_ALLOW_THREADS;
	return rc;
}

/* False: there is a hole in it, or nothing; of a GPU's only a driver knows. */
static bool may_be_there(uint64_t addr, uint64_t length)
{
	return length && addr + length > addr &&
	       (te_memory_is_mapped(addr, length) ||
		!te_memory_is_mapped(addr, 1));
}

int py_region_add(struct py_engine *self, const char *method, uint64_t addr,
		  uint64_t length, const char *location)
{
	int code = may_be_there(addr, length) ? claim(self, addr, length)
					      : PY_FAILED;
	struct py_region region = {.addr = addr, .length = length};
	const char *why = reason(code);
	int rc;

	if (!code) {
		rc = publish_memory(self, addr, length, location, &region);
		why = rc == -EFAULT ? reason(PY_FAILED) : te_strerror(rc);
		if (rc)
			code = rc == -ENOMEM ? PY_NO_MEMORY : PY_FAILED;
		if (rc)
			give_up(self, addr);
		else
			*claimed(self, addr) = region;
	}
	if (code)
		py_warn(method, "%llu bytes at %#llx, \"%s\": %s",
			(unsigned long long)length, (unsigned long long)addr,
			location, why);
	return code;
}

int py_region_drop(struct py_engine *self, const char *method, uint64_t addr)
{
	size_t i = place_of(self, addr);
	te_region_id id = 0;

	if (i < self->n_regions && self->regions[i].addr == addr)
		id = self->regions[i].id;
	if (!id) {
		py_warn(method, "nothing is registered at %#llx",
			(unsigned long long)addr);
		return PY_NOT_REGISTERED;
	}
	self->regions[i].id = 0;
	Py_BEGIN_ALLOW_THREADS;
	(void)te_region_remove(self->te, id);
	Py_END_ALLOW_THREADS;
	give_up(self, addr);
	return 0;
}

static PyObject *register_memory(PyObject *object, PyObject *args,
				 PyObject *kwargs)
{
	static char *names[] = {"buffer_addr", "capacity", "location", NULL};
	const char *method = "register_memory", *location = "*";
	PyObject *addr, *capacity, *where = NULL;
	uint64_t begin, length;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O:register_memory",
					 names, &addr, &capacity, &where))
		return NULL;
	rc = py_arg_uint64(addr, names[0], &begin);
	if (rc)
		return py_bad_argument(method, names[0], rc);
	rc = py_arg_uint64(capacity, names[1], &length);
	if (rc)
		return py_bad_argument(method, names[1], rc);
	rc = where ? py_arg_text(where, names[2], &location) : PY_ARG_OK;
	if (rc)
		return py_bad_argument(method, names[2], rc);
	if (!py_is_ready((struct py_engine *)object, method))
		return PyLong_FromLong(PY_FAILED);
	return PyLong_FromLong(py_region_add((struct py_engine *)object, method,
					     begin, length, location));
}

static PyObject *unregister_memory(PyObject *object, PyObject *args,
				   PyObject *kwargs)
{
	static char *names[] = {"buffer_addr", NULL};
	const char *method = "unregister_memory";
	PyObject *addr;
	uint64_t begin;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:unregister_memory",
					 names, &addr))
		return NULL;
	rc = py_arg_uint64(addr, names[0], &begin);
	if (rc)
		return py_bad_argument(method, names[0], rc);
	if (!py_is_ready((struct py_engine *)object, method))
		return PyLong_FromLong(PY_FAILED);
	return PyLong_FromLong(
		py_region_drop((struct py_engine *)object, method, begin));
}

/* All are registered, or none is. */
static int add_all(struct py_engine *self, const char *method,
		   const struct py_numbers *addrs,
		   const struct py_numbers *lengths, const char *location)
{
	int rc = 0;
	size_t i;

	for (i = 0; !rc && i < addrs->n; i++)
		rc = py_region_add(self, method, addrs->values[i],
				   lengths->values[i], location);
	if (rc && i--) /* the last one is not there */
		while (i--)
			(void)py_region_drop(self, method, addrs->values[i]);
	return rc;
}

static PyObject *batch_register_memory(PyObject *object, PyObject *args,
				       PyObject *kwargs)
{
	static char *names[] = {"buffer_addresses", "capacities", "location",
				NULL};
	const char *method = "batch_register_memory", *location = "*";
	PyObject *list, *capacities, *where = NULL, *result = NULL;
	struct py_numbers addrs = {0}, lengths = {0};
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs,
					 "OO|O:batch_register_memory", names,
					 &list, &capacities, &where))
		return NULL;
	rc = py_arg_numbers(list, names[0], &addrs);
	if (rc)
		return py_bad_argument(method, names[0], rc);
	rc = py_arg_numbers(capacities, names[1], &lengths);
	if (rc) {
		result = py_bad_argument(method, names[1], rc);
		goto out;
	}
	rc = where ? py_arg_text(where, names[2], &location) : PY_ARG_OK;
	if (rc)
		result = py_bad_argument(method, names[2], rc);
	else if (addrs.n != lengths.n)
		result = py_refuse(method, names[1],
				   "not as many as buffer_addresses");
	else if (!py_is_ready((struct py_engine *)object, method))
		result = PyLong_FromLong(PY_FAILED);
	else
		result = PyLong_FromLong(add_all((struct py_engine *)object,
						 method, &addrs, &lengths,
						 location));
out:
	py_numbers_free(&addrs);
	py_numbers_free(&lengths);
	return result;
}

static PyObject *batch_unregister_memory(PyObject *object, PyObject *args,
					 PyObject *kwargs)
{
	static char *names[] = {"buffer_addresses", NULL};
	const char *method = "batch_unregister_memory";
	struct py_engine *self = (struct py_engine *)object;
	struct py_numbers addrs = {0};
	int rc, first = 0;
	PyObject *list;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "O:batch_unregister_memory", names, &list))
		return NULL;
	rc = py_arg_numbers(list, names[0], &addrs);
	if (rc)
		return py_bad_argument(method, names[0], rc);
	if (!py_is_ready(self, method))
		first = PY_FAILED;
	for (size_t i = 0; first != PY_FAILED && i < addrs.n; i++) {
		rc = py_region_drop(self, method, addrs.values[i]);
		if (rc && !first)
			first = rc;
	}
	py_numbers_free(&addrs);
	return PyLong_FromLong(first);
}

PyMethodDef py_memory_methods[] = {
	{"register_memory", (PyCFunction)(void (*)(void))register_memory,
	 METH_VARARGS | METH_KEYWORDS,
	 "register_memory(buffer_addr, capacity, location='*')\n--\n\n"
	 "Let peers read and write memory. 0; -1: no such memory; -7: part of "
	 "it is registered already."},
	{"unregister_memory", (PyCFunction)(void (*)(void))unregister_memory,
	 METH_VARARGS | METH_KEYWORDS,
	 "unregister_memory(buffer_addr)\n--\n\n"
	 "No peer touches it once this returns. 0; -3: nothing is registered "
	 "there."},
	{"batch_register_memory",
	 (PyCFunction)(void (*)(void))batch_register_memory,
	 METH_VARARGS | METH_KEYWORDS,
	 "batch_register_memory(buffer_addresses, capacities, location='*')\n"
	 "--\n\nAll are registered, or none is; codes as of one."},
	{"batch_unregister_memory",
	 (PyCFunction)(void (*)(void))batch_unregister_memory,
	 METH_VARARGS | METH_KEYWORDS,
	 "batch_unregister_memory(buffer_addresses)\n--\n\n"
	 "Goes on after a failure, and returns the first."},
	{NULL, NULL, 0, NULL},
};
