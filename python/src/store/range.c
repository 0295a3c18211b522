/* SPDX-License-Identifier: Apache-2.0 */
/*
 * range.c - methods that put and get values in parts
 *
 * Python's nested lists become one list of ranges, in their order. A range that
 * cannot be is marked in `reserved`, which the library refuses.
 */
#include <te/memory.h>

#include "python/src/args.h"
#include "python/src/store/methods.h"
#include "python/src/store/types.h"

struct ranges {
	struct te_store_range *ranges; /* ranges[n], of room */
	uint64_t *buffers; /* buffers[n], of room: where each begins */
	int64_t *results;  /* results[n]; NULL: not done yet */
	size_t n, room;
	bool is_by_buffer; /* memory of empty ranges is looked at, too */
};

/* te_store_put_ranges() or te_store_get_ranges(). */
typedef int ranges_fn(struct te_store *store, const struct te_store_key *keys,
		      size_t n_keys, const struct te_store_range *ranges,
		      size_t n_ranges, int64_t *results);

static void ranges_free(struct ranges *list)
{
	PyMem_Free(list->ranges);
	PyMem_Free(list->buffers);
	PyMem_Free(list->results);
}

/* Makes room for @n more. */
static int grow_ranges(struct ranges *list, size_t n)
{
	size_t room = list->room ? list->room : 64;
	struct te_store_range *more;
	uint64_t *buffers;

	while (room < list->n + n)
		room *= 2;
	if (room == list->room)
		return PY_ARG_OK;
	more = PyMem_Realloc(list->ranges, room * sizeof(*more));
	if (more)
		list->ranges = more;
	buffers = PyMem_Realloc(list->buffers, room * sizeof(*buffers));
	if (buffers)
		list->buffers = buffers;
	if (!more || !buffers) {
		PyErr_NoMemory();
		return PY_ARG_RAISED;
	}
	list->room = room;
	return PY_ARG_OK;
}

/* A range at @skip in a buffer, which it must not leave. */
static void add_range(struct ranges *list, size_t key, uint64_t buffer,
		      uint64_t skip, uint64_t offset, uint64_t length)
{
	uint64_t addr = buffer + skip;
	bool holds = (addr || !length) && length <= UINTPTR_MAX - addr;

	list->buffers[list->n] = buffer;
	list->ranges[list->n++] = (struct te_store_range){
		.key = (uint32_t)key,
		.offset = offset,
		.addr = (void *)(uintptr_t)addr,
		.length = length,
		.reserved = !holds,
	};
}

/*
 * Takes out ranges that end behind the registered memory that their buffer
 * begins in; the library only knows where they begin themselves, and does not
 * look at empty ones.
 */
static void keep_inside(struct te_store *te, struct ranges *list)
{
	uint64_t buffer = 0, left = 0;

	for (size_t i = 0; i < list->n; i++) {
		struct te_store_range *range = &list->ranges[i];
		uint64_t skip = (uintptr_t)range->addr - list->buffers[i];

		if (range->reserved || (!skip && !list->is_by_buffer))
			continue;
		if (list->buffers[i] != buffer) {
			buffer = list->buffers[i];
			left = te_store_registered_bytes(
				te, (void *)(uintptr_t)buffer);
		}
		if (left ? skip <= left && range->length <= left - skip
			 : range->length ||
				    te_memory_is_usable(buffer, 1, true))
			continue;
		range->reserved = true;
	}
}

/*
 * The library refuses a range before it looks for its key: here, what is not
 * there comes first.
 */
static void resolve_refused(struct te_store *te, const struct ps_batch *batch,
			    struct ranges *list, int64_t *sizes)
{
	bool is_asked = false;

	for (size_t i = 0; i < list->n; i++) {
		const struct te_store_range *range = &list->ranges[i];
		int64_t size;

		if (list->results[i] != TE_STORE_INVALID_PARAMS ||
		    !list->buffers[i])
			continue;
		if (!is_asked)
			(void)te_store_size(te, batch->keys, batch->n, sizes);
		is_asked = true;
		size = sizes[range->key];
		if (size < 0)
			list->results[i] = size;
	}
}

/* Reads without the GIL, in as many calls as it takes. False: raised. */
static bool read_ranges(struct ps_store *self, const struct ps_batch *batch,
			struct ranges *list, ranges_fn *op)
{
	struct ps_client *client = NULL;
	int64_t *sizes = ps_sizes(batch->n);

	list->results = ps_sizes(list->n);
	if (list->results && sizes && list->n)
		client = ps_client_pin(self, batch->function);
	if (!client) {
		PyMem_Free(sizes);
		return list->results && sizes;
	}
	Py_BEGIN_ALLOW_THREADS;
	keep_inside(client->te, list);
	for (size_t at = 0, n; at < list->n; at += n) {
		n = list->n - at < TE_STORE_RANGES_MAX ? list->n - at
						       : TE_STORE_RANGES_MAX;
		(void)op(client->te, batch->keys, batch->n, &list->ranges[at],
			 n, &list->results[at]);
	}
	if (list->is_by_buffer)
		resolve_refused(client->te, batch, list, sizes);
	Py_END_ALLOW_THREADS;
	PyMem_Free(sizes);
	for (size_t i = 0; i < list->n; i++)
		if (list->results[i] == TE_STORE_INVALID_PARAMS) {
			py_warn(batch->function,
				"key %u: a range is not inside the value, or "
				"its memory is not ours or ends before it "
				"does",
				list->ranges[i].key);
			break;
		}
	ps_client_unpin(client);
	return true;
}

static PyObject *item(PyObject *tuple, size_t i)
{
	return PyTuple_GetItem(tuple, (Py_ssize_t)i);
}

/* ---- lists of each key ---- */

enum { ADDRS, SIZES, OFFSETS, COLUMNS };
static const char *const column_names[COLUMNS] = {"all_buffer_ptrs",
						  "all_sizes", "all_offsets"};

/*
 * The ranges of one key. PY_ARG_RANGE: its lists do not go together; it has one
 * range that cannot be.
 */
static int add_key(struct ranges *list, size_t key, PyObject *const columns[])
{
	struct py_numbers n[COLUMNS] = {{0}};
	int rc = PY_ARG_OK;

	for (int c = 0; !rc && c < COLUMNS; c++)
		rc = py_arg_numbers(columns[c], column_names[c], &n[c]);
	if (!rc && (n[ADDRS].n != n[SIZES].n || n[ADDRS].n != n[OFFSETS].n))
		rc = PY_ARG_RANGE;
	if (rc != PY_ARG_RAISED && grow_ranges(list, n[ADDRS].n + 1))
		rc = PY_ARG_RAISED;
	for (size_t i = 0; !rc && i < n[ADDRS].n; i++)
		add_range(list, key, n[ADDRS].values[i], 0,
			  n[OFFSETS].values[i], n[SIZES].values[i]);
	if (rc == PY_ARG_RANGE)
		add_range(list, key, 0, 0, 0, UINT64_MAX);
	for (int c = 0; c < COLUMNS; c++)
		py_numbers_free(&n[c]);
	return rc;
}

static int add_keys(struct ranges *list, const struct ps_batch *batch,
		    PyObject *const columns[])
{
	PyObject *tuples[COLUMNS] = {NULL}, *of_key[COLUMNS];
	int rc = PY_ARG_OK;

	for (int c = 0; !rc && c < COLUMNS; c++)
		rc = py_arg_tuple(columns[c], column_names[c], &tuples[c]);
	for (int c = 0; !rc && c < COLUMNS; c++)
		if ((size_t)PyTuple_Size(tuples[c]) != batch->n) {
			py_warn(batch->function, "%s has %zd entries for %zu",
				column_names[c], PyTuple_Size(tuples[c]),
				batch->n);
			rc = PY_ARG_RANGE;
		}
	for (size_t i = 0; !rc && i < batch->n; i++) {
		for (int c = 0; c < COLUMNS; c++)
			of_key[c] = item(tuples[c], i);
		if (add_key(list, i, of_key) == PY_ARG_RAISED)
			rc = PY_ARG_RAISED;
	}
	for (int c = 0; c < COLUMNS; c++)
		Py_XDECREF(tuples[c]);
	return rc;
}

/* A list with, for each key, the bytes of its ranges or the first code. */
static PyObject *sum_up(const struct ps_batch *batch, const struct ranges *list)
{
	int64_t *sums = PyMem_Calloc(batch->n + 1, sizeof(*sums));
	PyObject *result;

	if (!sums)
		return PyErr_NoMemory();
	for (size_t i = 0; i < list->n; i++) {
		int64_t *sum = &sums[list->ranges[i].key];

		if (list->results[i] < 0 && *sum >= 0)
			*sum = list->results[i];
		else if (*sum >= 0)
			*sum += list->results[i];
	}
	result = ps_list_of_sizes(sums, batch->n);
	PyMem_Free(sums);
	return result;
}

/* Results of all keys of a call whose arguments do not fit each other. */
static PyObject *refuse_batch(const struct ps_batch *batch)
{
	int64_t *sizes = ps_sizes(batch->n);
	PyObject *list = sizes ? ps_list_of_sizes(sizes, batch->n) : NULL;

	PyMem_Free(sizes);
	return list;
}

static PyObject *by_keys(PyObject *self, PyObject *args, PyObject *keywords,
			 char *names[], const char *format,
			 const char *function, ranges_fn *op)
{
	struct ps_batch batch = {0};
	struct ranges list = {0};
	PyObject *keys, *columns[COLUMNS], *result = NULL;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &keys,
					 &columns[ADDRS], &columns[SIZES],
					 &columns[OFFSETS]))
		return NULL;
	rc = ps_batch_keys(&batch, function, keys);
	if (!rc)
		rc = add_keys(&list, &batch, columns);
	if (rc == PY_ARG_RANGE)
		result = refuse_batch(&batch);
	else if (!rc && read_ranges((struct ps_store *)self, &batch, &list, op))
		result = sum_up(&batch, &list);
	ranges_free(&list);
	ps_batch_free(&batch);
	return result;
}

static PyObject *batch_put_from_multi_buffer_ranges(PyObject *self,
						    PyObject *args,
						    PyObject *keywords)
{
	static char *names[] = {"keys", "all_buffer_ptrs", "all_sizes",
				"all_dst_offsets", NULL};

	return by_keys(self, args, keywords, names,
		       "OOOO:batch_put_from_multi_buffer_ranges",
		       "batch_put_from_multi_buffer_ranges",
		       te_store_put_ranges);
}

static PyObject *batch_get_into_multi_buffer_ranges(PyObject *self,
						    PyObject *args,
						    PyObject *keywords)
{
	static char *names[] = {"keys", "all_buffer_ptrs", "all_sizes",
				"all_src_offsets", NULL};

	return by_keys(self, args, keywords, names,
		       "OOOO:batch_get_into_multi_buffer_ranges",
		       "batch_get_into_multi_buffer_ranges",
		       te_store_get_ranges);
}

/* ---- lists of each buffer ---- */

enum { KEYS, DST, SRC, LENGTHS, NESTED };
static const char *const nested_names[NESTED] = {
	"all_keys", "all_dst_offsets", "all_src_offsets", "all_sizes"};

/*
 * A tuple of @n tuples of @list, a new reference; @missing stands for those
 * that it has not, and *fits is false if there are more or less.
 */
static int read_nested(PyObject *list, const char *name, size_t n,
		       PyObject *missing, PyObject **out, bool *fits)
{
	PyObject *outer, *copy, *inner;
	int rc = py_arg_tuple(list, name, &outer);
	size_t n_there;

	if (rc)
		return rc;
	n_there = (size_t)PyTuple_Size(outer);
	if (n_there != n) {
		py_warn("get_into_ranges", "%s has %zu entries for %zu", name,
			n_there, n);
		*fits = false;
	}
	copy = PyTuple_New((Py_ssize_t)n);
	if (!copy)
		rc = PY_ARG_RAISED;
	for (size_t i = 0; !rc && i < n; i++) {
		inner = missing;
		Py_INCREF(missing);
		if (i < n_there) {
			Py_DECREF(missing);
			rc = py_arg_tuple(item(outer, i), name, &inner);
		}
		if (!rc)
			rc = PyTuple_SetItem(copy, (Py_ssize_t)i, inner);
	}
	Py_DECREF(outer);
	*out = copy;
	return rc;
}

/*
 * The ranges of one key in one buffer, as many as it has places: *n_ranges. A
 * list that is not there is NULL; @fits false: nothing of the buffer is read.
 */
static int add_nested(struct ranges *list, size_t key, uint64_t buffer,
		      PyObject *const lists[], bool fits, size_t *n_ranges)
{
	struct py_numbers n[NESTED] = {{0}};
	PyObject *places = NULL, *from;
	int rc = PY_ARG_OK;

	if (lists[DST])
		rc = py_arg_tuple(lists[DST], nested_names[DST], &places);
	*n_ranges = places ? (size_t)PyTuple_Size(places) : 1;
	for (int c = DST; rc != PY_ARG_RAISED && c < NESTED; c++) {
		from = c == DST ? places : lists[c];
		rc = from ? py_arg_numbers(from, nested_names[c], &n[c])
			  : PY_ARG_OK;
		fits = fits && from && !rc;
	}
	Py_XDECREF(places);
	fits = fits && n[DST].n == *n_ranges && n[SRC].n == *n_ranges &&
	       n[LENGTHS].n == *n_ranges;
	if (rc != PY_ARG_RAISED)
		rc = grow_ranges(list, *n_ranges);
	for (size_t i = 0; !rc && i < *n_ranges; i++) {
		if (fits && buffer && n[DST].values[i] <= UINT64_MAX - buffer)
			add_range(list, key, buffer, n[DST].values[i],
				  n[SRC].values[i], n[LENGTHS].values[i]);
		else
			add_range(list, key, 0, 0, 0, UINT64_MAX);
	}
	for (int c = DST; c < NESTED; c++)
		py_numbers_free(&n[c]);
	return rc;
}

/*
 * The ranges of one buffer, whose keys begin at @key, and how many each of them
 * has, in counts[].
 */
static int add_buffer(struct ranges *list, size_t key, uint64_t buffer,
		      PyObject *const columns[], bool fits, size_t *counts)
{
	size_t n = (size_t)PyTuple_Size(columns[KEYS]);
	PyObject *lists[NESTED];
	int rc = PY_ARG_OK;

	for (int c = DST; c < NESTED; c++)
		fits = fits && (size_t)PyTuple_Size(columns[c]) == n;
	for (size_t k = 0; !rc && k < n; k++) {
		for (int c = DST; c < NESTED; c++)
			lists[c] = k < (size_t)PyTuple_Size(columns[c])
					   ? item(columns[c], k)
					   : NULL;
		rc = add_nested(list, key + k, buffer, lists, fits, &counts[k]);
	}
	return rc;
}

/* The keys of all buffers, one after the other; a new reference. */
static PyObject *all_keys(PyObject *of_buffers)
{
	PyObject *keys = PyTuple_New(0), *longer;

	for (Py_ssize_t i = 0; keys && i < PyTuple_Size(of_buffers); i++) {
		longer =
			PySequence_Concat(keys, PyTuple_GetItem(of_buffers, i));
		Py_DECREF(keys);
		keys = longer;
	}
	return keys;
}

/* The results of one buffer: a list of lists. */
static PyObject *nest(const int64_t **results, const size_t *counts, size_t n)
{
	PyObject *list = PyList_New((Py_ssize_t)n), *sizes;

	for (size_t k = 0; list && k < n; k++) {
		sizes = ps_list_of_sizes(*results, counts[k]);
		*results += counts[k];
		if (!sizes || PyList_SetItem(list, (Py_ssize_t)k, sizes))
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *nest_all(const struct ranges *list, const size_t *counts,
			  PyObject *of_buffers)
{
	Py_ssize_t n = PyTuple_Size(of_buffers);
	const int64_t *results = list->results;
	PyObject *outer = PyList_New(n), *inner;

	for (Py_ssize_t b = 0; outer && b < n; b++) {
		size_t n_keys =
			(size_t)PyTuple_Size(PyTuple_GetItem(of_buffers, b));

		inner = nest(&results, counts, n_keys);
		counts += n_keys;
		if (!inner || PyList_SetItem(outer, b, inner))
			Py_CLEAR(outer);
	}
	return outer;
}

/* The arguments of get_into_ranges(), unpacked. */
struct nested {
	PyObject *buffers;         /* a tuple */
	PyObject *columns[NESTED]; /* tuples of tuples */
	struct ps_batch batch;
	struct ranges list;
	size_t *counts; /* counts[batch.n] */
};

/* The columns. A buffer of which no keys are said has one that is none. */
static int read_columns(struct nested *nested, PyObject *const lists[],
			bool *fits)
{
	PyObject *no_key = Py_BuildValue("(s)", ""), *nothing = PyTuple_New(0);
	int rc = no_key && nothing ? PY_ARG_OK : PY_ARG_RAISED;

	for (int c = 0; !rc && c < NESTED; c++)
		rc = read_nested(lists[c], nested_names[c],
				 (size_t)PyTuple_Size(nested->buffers),
				 c == KEYS ? no_key : nothing,
				 &nested->columns[c], fits);
	Py_XDECREF(no_key);
	Py_XDECREF(nothing);
	return rc;
}

static int read_keys(struct nested *nested)
{
	PyObject *keys = all_keys(nested->columns[KEYS]);
	int rc = keys ? ps_batch_keys(&nested->batch, "get_into_ranges", keys)
		      : PY_ARG_RAISED;

	Py_XDECREF(keys);
	if (rc)
		return rc;
	nested->counts =
		PyMem_Calloc(nested->batch.n + 1, sizeof(*nested->counts));
	if (nested->counts)
		return PY_ARG_OK;
	PyErr_NoMemory();
	return PY_ARG_RAISED;
}

static int add_buffers(struct nested *nested, bool fits)
{
	PyObject *of_buffer[NESTED];
	size_t n = (size_t)PyTuple_Size(nested->buffers);
	uint64_t buffer;
	int rc = PY_ARG_OK;

	for (size_t b = 0, key = 0; !rc && b < n; b++) {
		for (int c = 0; c < NESTED; c++)
			of_buffer[c] = item(nested->columns[c], b);
		rc = py_arg_number("get_into_ranges", item(nested->buffers, b),
				   "buffer_ptrs", &buffer);
		if (rc == PY_ARG_RAISED)
			break;
		rc = add_buffer(&nested->list, key, rc ? 0 : buffer, of_buffer,
				fits, &nested->counts[key]);
		key += (size_t)PyTuple_Size(of_buffer[KEYS]);
	}
	return rc;
}

static int read_nested_call(struct nested *nested, PyObject *buffers,
			    PyObject *const lists[])
{
	bool fits = true;
	int rc = py_arg_tuple(buffers, "buffer_ptrs", &nested->buffers);

	if (!rc)
		rc = read_columns(nested, lists, &fits);
	if (!rc)
		rc = read_keys(nested);
	return rc ? rc : add_buffers(nested, fits);
}

static PyObject *get_into_ranges(PyObject *self, PyObject *args,
				 PyObject *keywords)
{
	static char *names[] = {"buffer_ptrs",     "all_keys",
				"all_dst_offsets", "all_src_offsets",
				"all_sizes",       NULL};
	struct nested nested = {.list.is_by_buffer = true};
	PyObject *buffers, *lists[NESTED], *result = NULL;

	if (!PyArg_ParseTupleAndKeywords(
		    args, keywords, "OOOOO:get_into_ranges", names, &buffers,
		    &lists[KEYS], &lists[DST], &lists[SRC], &lists[LENGTHS]))
		return NULL;
	if (!read_nested_call(&nested, buffers, lists) &&
	    read_ranges((struct ps_store *)self, &nested.batch, &nested.list,
			te_store_get_ranges))
		result = nest_all(&nested.list, nested.counts,
				  nested.columns[KEYS]);
	for (int c = 0; c < NESTED; c++)
		Py_XDECREF(nested.columns[c]);
	Py_XDECREF(nested.buffers);
	PyMem_Free(nested.counts);
	ranges_free(&nested.list);
	ps_batch_free(&nested.batch);
	return result;
}

const PyMethodDef ps_range_methods[] = {
	PS_METHOD(
		"batch_put_from_multi_buffer_ranges",
		batch_put_from_multi_buffer_ranges,
		"keys, all_buffer_ptrs, all_sizes, all_dst_offsets)\n--\n\n"
		"Write parts of values that batch_put_session_start() began.\n\n"
		"Bytes written, or a negative code, for each key."),
	PS_METHOD("batch_get_into_multi_buffer_ranges",
		  batch_get_into_multi_buffer_ranges,
		  "keys, all_buffer_ptrs, all_sizes, all_src_offsets)\n--\n\n"
		  "Read parts of values.\n\n"
		  "Bytes read, or a negative code, for each key."),
	PS_METHOD("get_into_ranges", get_into_ranges,
		  "buffer_ptrs, all_keys, all_dst_offsets, all_src_offsets, "
		  "all_sizes)\n--\n\n"
		  "Read parts of values of several keys into each buffer.\n\n"
		  "Lists of [buffer][key][range], as the arguments are: bytes\n"
		  "read, or a negative code."),
	{0},
};
