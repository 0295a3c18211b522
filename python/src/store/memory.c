/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - memory by address, for Python and for callbacks in C; NUMA nodes
 *
 * Allocations are whole pages, zeroed and not committed until they are used.
 * They need not be shared with a daemon: values outside of the shared pool are
 * copied on their way.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "python/src/args.h"
#include "python/src/store/types.h"

/* All that was allocated and not freed; guarded by the GIL. */
struct piece {
	struct piece *next;
	void *addr;
	size_t length;
};
static struct piece *pieces;

/* NULL: none of that size. */
static void *map(size_t size)
{
	void *addr = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return addr == MAP_FAILED ? NULL : addr;
}

static PyObject *alloc_piece(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"size", NULL};
	PyObject *wanted;
	struct piece *piece;
	uint64_t size;
	int rc;

	(void)self;
	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:alloc", names,
					 &wanted))
		return NULL;
	rc = py_arg_uint64(wanted, "size", &size);
	if (rc == PY_ARG_RAISED)
		return NULL;
	piece = PyMem_Calloc(1, sizeof(*piece));
	if (!piece)
		return PyErr_NoMemory();
	piece->length = size;
	piece->addr = rc ? NULL : map(size);
	if (!piece->addr) {
		py_warn("alloc", "size: no memory of that size");
		PyMem_Free(piece);
		return PyLong_FromLong(0);
	}
	piece->next = pieces;
	pieces = piece;
	return PyLong_FromVoidPtr(piece->addr);
}

static struct piece *take(uint64_t addr)
{
	struct piece **link = &pieces, *piece;

	while (*link && (uint64_t)(uintptr_t)(*link)->addr != addr)
		link = &(*link)->next;
	piece = *link;
	if (piece)
		*link = piece->next;
	return piece;
}

static PyObject *free_piece(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"ptr", NULL};
	PyObject *wanted;
	struct piece *piece = NULL;
	uint64_t addr;
	int rc;

	(void)self;
	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:free", names,
					 &wanted))
		return NULL;
	rc = py_arg_uint64(wanted, "ptr", &addr);
	if (rc == PY_ARG_RAISED)
		return NULL;
	if (!rc)
		piece = take(addr);
	if (piece)
		(void)munmap(piece->addr, piece->length);
	else
		py_warn("free", "ptr: not of alloc(), or freed already");
	PyMem_Free(piece);
	return PyLong_FromLong(piece ? 0 : -1);
}

static PyMethodDef methods[] = {
	{"alloc", (PyCFunction)(void (*)(void))alloc_piece,
	 METH_VARARGS | METH_KEYWORDS,
	 "alloc($self, size)\n--\n\n"
	 "Address of so many bytes, zeroed; 0 when there is no memory."},
	{"free", (PyCFunction)(void (*)(void))free_piece,
	 METH_VARARGS | METH_KEYWORDS,
	 "free($self, ptr)\n--\n\nGive back what alloc() gave. 0 or -1."},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_methods, methods},
	{Py_tp_doc, "MooncakeHostMemAllocator()\n--\n\nMemory by address."},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "mooncake.store.MooncakeHostMemAllocator",
	.basicsize = sizeof(PyObject),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

/* ---- by callbacks, on any thread and without the GIL ---- */

/* Head in the page before what is given out. */
struct head {
	size_t length; /* with that page */
};

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void *alloc_by_callback(size_t size)
{
	size_t page = page_size();
	struct head *head;

	if (!size || size > SIZE_MAX - page)
		return NULL;
	head = map(page + size);
	if (!head)
		return NULL;
	head->length = page + size;
	return (char *)head + page;
}

static void free_by_callback(void *addr)
{
	struct head *head;

	if (!addr)
		return;
	head = (struct head *)((char *)addr - page_size());
	(void)munmap(head, head->length);
}

static PyObject *get_alloc(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyLong_FromUnsignedLongLong((uintptr_t)alloc_by_callback);
}

static PyObject *get_free(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyLong_FromUnsignedLongLong((uintptr_t)free_by_callback);
}

/* ---- NUMA ---- */

#define NODES_MAX      1024
#define MPOL_PREFERRED 1

/* "0-3,8" as a set. */
static void parse_cpus(const char *text, cpu_set_t *cpus)
{
	CPU_ZERO(cpus);
	while (*text >= '0' && *text <= '9') {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < CPU_SETSIZE; first++)
			CPU_SET(first, cpus);
		text = *end == ',' ? end + 1 : end;
	}
}

static void run_on(uint64_t node)
{
	char path[64], line[4096] = "";
	cpu_set_t cpus;
	FILE *file;

	(void)snprintf(path, sizeof(path),
		       "/sys/devices/system/node/node%u/cpulist",
		       (unsigned int)node);
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	(void)fclose(file);
	parse_cpus(line, &cpus);
	if (CPU_COUNT(&cpus))
		(void)sched_setaffinity(0, sizeof(cpus), &cpus);
}

static PyObject *bind_to_node(PyObject *self, PyObject *args,
			      PyObject *keywords)
{
	static char *names[] = {"node", NULL};
	unsigned long mask[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
	size_t bits = 8 * sizeof(unsigned long);
	PyObject *wanted;
	uint64_t node;
	int rc;

	(void)self;
	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:bind_to_numa_node",
					 names, &wanted))
		return NULL;
	rc = py_arg_uint64(wanted, "node", &node);
	if (rc == PY_ARG_RAISED)
		return NULL;
	if (!rc && node < NODES_MAX) {
		mask[node / bits] = 1ul << (node % bits);
		(void)syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask,
			      (unsigned long)NODES_MAX + 1);
		run_on(node);
	}
	return Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
	{"bind_to_numa_node", (PyCFunction)(void (*)(void))bind_to_node,
	 METH_VARARGS | METH_KEYWORDS,
	 "bind_to_numa_node(node)\n--\n\n"
	 "Have this thread run on the node's CPUs and take memory there.\n\n"
	 "As far as the machine allows; nothing is said where it does not."},
	{"get_alloc_func_addr", get_alloc, METH_NOARGS,
	 "get_alloc_func_addr()\n--\n\n"
	 "Address of a C function void *(size_t): whole pages, zeroed and not\n"
	 "committed until used; NULL for 0 bytes and when there is no memory.\n"
	 "Any thread."},
	{"get_free_func_addr", get_free, METH_NOARGS,
	 "get_free_func_addr()\n--\n\n"
	 "Address of a C function void (void *) that gives back what that of\n"
	 "get_alloc_func_addr() gave; NULL does nothing. Any thread."},
	{0},
};

bool ps_memory_add(PyObject *module)
{
	PyObject *type = ps_add_type(module, "MooncakeHostMemAllocator", &spec);

	Py_XDECREF(type);
	return type && !PyModule_AddFunctions(module, functions);
}
