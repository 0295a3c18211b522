/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_gate.c - gates in streams of NVIDIA's GPUs
 *
 * A gate is three things in a stream, one behind the other: a function that the
 * driver calls on the host, a wait for a word of pinned memory, and a write to
 * the word beside it, which says that the stream has passed the gate.
 *
 *   put --the stream gets there--> reached --open()--> passed
 *
 * Words belong to the context of the stream and are used again once they have
 * been passed. Pages of words outlive the engine while a stream is to pass one
 * of them: the next one that puts or closes anything sweeps them up.
 */
#include "te/device/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "te/core/engine.h"

#define PAGE_LEN  4096u
#define WORDS     (PAGE_LEN / sizeof(struct words))
#define PASS_MS   100u   /* for streams that are about to pass */
#define PASS_STEP 50000u /* ns between two looks */

/* What the GPU reads and writes. */
struct words {
	_Atomic uint64_t opened; /* the GPU waits until it is `number` */
	_Atomic uint64_t passed; /* the stream sets it to `number` */
};

struct slot {
	_Atomic bool used; /* by a gate that is not open yet */
	uint64_t number;   /* of its last gate; guarded by the runtime's mu */
};

struct page {
	struct tei_list link;     /* the runtime's, or abandoned */
	struct tei_runtime *cuda; /* a reference */
	unsigned int forks;       /* of the process whose it is */
	CUcontext context;
	struct cuda_entered entered; /* the context, until it is freed */
	bool flushes;                /* a flush must precede a word */
	unsigned int wait_flags;
	struct words *words; /* words[WORDS], registered */
	CUdeviceptr at;      /* the same, as the GPU has it */
	struct slot slots[WORDS];
};

struct tei_gpu_gate {
	_Atomic uint32_t refs; /* who arms, who opens, the stream's function */
	struct page *page;
	uint32_t slot;
	uint64_t number;
	void (*reached)(void *arg);
	void *arg;
	struct tei_mutex mu; /* lock 23 */
	/* Guarded by mu. */
	bool is_reached, is_armed, is_open;
};

/* ---- pages of words ---- */

/* Pages of engines that are gone, which some stream is still to pass. */
static struct tei_mutex abandoned_mu = {PTHREAD_MUTEX_INITIALIZER}; /* 22 */
static struct tei_list abandoned = {&abandoned, &abandoned};
static _Atomic uint32_t n_abandoned;

static bool is_free(const struct page *page, uint32_t i)
{
	return !atomic_load(&page->slots[i].used) &&
	       atomic_load(&page->words[i].passed) == page->slots[i].number;
}

static bool is_unused(const struct page *page)
{
	for (uint32_t i = 0; i < WORDS; i++)
		if (!is_free(page, i))
			return false;
	return true;
}

/*
 * Maps a page that forks do not copy: with a copy the process might go on with
 * another page than the GPU looks at. NULL: no memory.
 */
static struct words *map_words(void)
{
	void *at;

	if (tei_fault_check(TEI_FAULT_ALLOC))
		return NULL;
	at = mmap(NULL, PAGE_LEN, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	if (!madvise(at, PAGE_LEN, MADV_DONTFORK))
		return at;
	(void)munmap(at, PAGE_LEN);
	return NULL;
}

/* Frees a page that all have passed. */
static void free_page(struct page *page)
{
	struct tei_runtime *cuda = page->cuda;
	int mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	CUcontext popped;

	/* A context that was destroyed has forgotten its memory. */
	if (!cuda->call.ctx_push(page->context)) {
		(void)cuda->call.mem_host_unregister(page->words);
		(void)cuda->call.ctx_pop(&popped);
	}
	tei_cuda_leave(cuda, &page->entered);
	(void)tei_cuda_relax(cuda, mode);
	(void)munmap(page->words, PAGE_LEN);
	tei_free(page);
	tei_cuda_put(cuda);
}

static void sweep(void)
{
	if (!atomic_load(&n_abandoned))
		return;
	tei_mutex_lock(&abandoned_mu);
	tei_list_for_each_safe (node, tmp, &abandoned) {
		struct page *page = tei_list_entry(node, struct page, link);

		if (page->forks != tei_forks() || !is_unused(page))
			continue;
		tei_list_del(node);
		atomic_fetch_sub(&n_abandoned, 1);
		free_page(page);
	}
	tei_mutex_unlock(&abandoned_mu);
}

/* Waits for streams that are just passing, until @until (ns). */
static void await_unused(const struct page *page, uint64_t until)
{
	const struct timespec step = {.tv_nsec = PASS_STEP};

	while (!is_unused(page) && tei_now_ns() < until)
		(void)nanosleep(&step, NULL);
}

void tei_cuda_gates_close(struct tei_runtime *cuda)
{
	uint64_t until = tei_now_ns() + PASS_MS * TEI_NS_PER_MS;
	struct tei_list *node;

	while ((node = tei_list_pop(&cuda->pages))) {
		struct page *page = tei_list_entry(node, struct page, link);

		await_unused(page, until);
		if (is_unused(page)) {
			free_page(page);
			continue;
		}
		tei_mutex_lock(&abandoned_mu);
		tei_list_add_tail(&abandoned, node);
		atomic_fetch_add(&n_abandoned, 1);
		tei_mutex_unlock(&abandoned_mu);
	}
	sweep();
}

/* Registers the words in the current context. 0 or an error. */
static int register_words(struct page *page)
{
	const struct cuda_functions *call = &page->cuda->call;
	int error = call->mem_host_register(
		page->words, PAGE_LEN,
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

	if (error)
		return error;
	error = call->mem_host_get_device_pointer(&page->at, page->words, 0);
	if (error)
		(void)call->mem_host_unregister(page->words);
	return error;
}

static int attribute_of(const struct cuda_functions *call, int which,
			CUdevice device)
{
	int value = 0;

	return call->device_get_attribute(&value, which, device) ? 0 : value;
}

/*
 * Finds out how writes of NICs become visible to what follows in a stream: in
 * order by themselves, by a flag of the wait, or by a flush before its word.
 */
static void choose_flush(struct page *page, CUdevice device)
{
	const struct cuda_functions *call = &page->cuda->call;

	page->wait_flags = CU_STREAM_WAIT_VALUE_GEQ;
	if (!tei_cuda_needs_flush(call, device))
		return;
	if (attribute_of(call, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
			 device))
		page->wait_flags |= CU_STREAM_WAIT_VALUE_FLUSH;
	else
		page->flushes = call->flush_writes != NULL;
}

/* Keeps the current context in use, and registers the words. 0 or an error. */
static int fill_page(struct page *page, CUdevice device)
{
	int error;

	page->entered = (struct cuda_entered){.retained = -1};
	error = tei_cuda_keep(page->cuda, (uintptr_t)page->context, device,
			      &page->entered);
	if (!error)
		error = register_words(page);
	if (error)
		tei_cuda_leave(page->cuda, &page->entered);
	return error;
}

static int out_of_memory(char *why)
{
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "out of memory");
	return -ENOMEM;
}

/* Adds a page to the context, which is current. 0, -errno; @why. */
static int add_page(struct tei_runtime *cuda, CUcontext context,
		    CUdevice device, char *why) TEI_REQUIRES(cuda->mu)
{
	struct page *page = tei_calloc(1, sizeof(*page));
	int error;

	if (!page)
		return out_of_memory(why);
	page->cuda = cuda;
	page->forks = tei_forks();
	page->context = context;
	page->words = map_words();
	error = page->words ? fill_page(page, device)
			    : CUDA_ERROR_OUT_OF_MEMORY;
	if (error) {
		if (page->words)
			(void)munmap(page->words, PAGE_LEN);
		tei_free(page);
		if (error == CUDA_ERROR_OUT_OF_MEMORY)
			return out_of_memory(why);
		return tei_cuda_fail(cuda, "cuMemHostRegister", error, why);
	}
	choose_flush(page, device);
	atomic_fetch_add(&cuda->refs, 1);
	tei_list_add_tail(&cuda->pages, &page->link);
	return 0;
}

static bool take_free(struct page *page, struct tei_gpu_gate *gate)
{
	for (uint32_t i = 0; i < WORDS; i++) {
		if (!is_free(page, i))
			continue;
		atomic_store(&page->slots[i].used, true);
		gate->page = page;
		gate->slot = i;
		gate->number = ++page->slots[i].number;
		return true;
	}
	return false;
}

/* Takes a word of the context's pages. False: none is free. */
static bool take_any(struct tei_runtime *cuda, CUcontext context,
		     struct tei_gpu_gate *gate) TEI_REQUIRES(cuda->mu)
{
	tei_list_for_each (node, &cuda->pages) {
		struct page *page = tei_list_entry(node, struct page, link);

		if (page->context == context && take_free(page, gate))
			return true;
	}
	return false;
}

/* Takes a word of the context, which is current. 0, -errno; @why. */
static int take_word(struct tei_runtime *cuda, CUcontext context,
		     CUdevice device, struct tei_gpu_gate *gate, char *why)
{
	int rc = 0;

	tei_mutex_lock(&cuda->mu);
	while (!rc && !take_any(cuda, context, gate))
		rc = add_page(cuda, context, device, why);
	tei_mutex_unlock(&cuda->mu);
	return rc;
}

/* ---- opening ---- */

static void drop(struct tei_gpu_gate *gate, uint32_t n)
{
	if (atomic_fetch_sub(&gate->refs, n) > n)
		return;
	tei_mutex_fini(&gate->mu);
	tei_free(gate);
}

/* Called by the driver. In a context that has died it is never called. */
static void stream_reached(void *arg)
{
	struct tei_gpu_gate *gate = arg;

	tei_mutex_lock(&gate->mu);
	gate->is_reached = true;
	if (gate->is_armed && !gate->is_open)
		gate->reached(gate->arg);
	tei_mutex_unlock(&gate->mu);
	drop(gate, 1);
}

void tei_cuda_gate_arm(struct tei_gpu_gate *gate)
{
	tei_mutex_lock(&gate->mu);
	gate->is_armed = true;
	if (gate->is_reached && !gate->is_open)
		gate->reached(gate->arg);
	tei_mutex_unlock(&gate->mu);
	drop(gate, 1);
}

/* Sets the word. The page may go as soon as `used` is false. */
static void set_word(const struct tei_gpu_gate *gate)
{
	struct page *page = gate->page;

	atomic_store(&page->words[gate->slot].opened, gate->number);
	atomic_store(&page->slots[gate->slot].used, false);
}

void tei_cuda_gate_open(struct tei_gpu_gate *gate)
{
	tei_mutex_lock(&gate->mu);
	gate->is_open = true;
	tei_mutex_unlock(&gate->mu);
	if (gate->page->flushes)
		tei_cuda_flush(gate->page->cuda, gate->page->context);
	set_word(gate);
	drop(gate, 1);
}

/* ---- putting ---- */

static bool has_functions(const struct cuda_functions *call)
{
	return call->device_get_attribute && call->ctx_get_current &&
	       call->ctx_get_device && call->mem_host_get_device_pointer &&
	       call->stream_get_ctx && call->stream_is_capturing &&
	       call->launch_host_func && call->stream_wait_value &&
	       call->stream_write_value;
}

static CUstream handle_of(const struct tei_gate_place *place)
{
	return (CUstream)(uintptr_t)place->stream;
}

/*
 * Puts the three into the stream. *n: those that are in it. 0, or an error and
 * the call that had it.
 */
static int put_all(const struct tei_gpu_gate *gate, CUstream stream, int *n,
		   const char **function)
{
	const struct page *page = gate->page;
	const struct cuda_functions *call = &page->cuda->call;
	CUdeviceptr at = page->at + gate->slot * sizeof(struct words);
	int error;

	*n = 0;
	*function = "cuLaunchHostFunc";
	error = call->launch_host_func(stream, stream_reached,
				       (void *)(uintptr_t)gate);
	if (error)
		return error;
	*n = 1;
	*function = "cuStreamWaitValue64";
	error = call->stream_wait_value(stream,
					at + offsetof(struct words, opened),
					gate->number, page->wait_flags);
	if (error)
		return error;
	*n = 2;
	*function = "cuStreamWriteValue64";
	return call->stream_write_value(
		stream, at + offsetof(struct words, passed), gate->number,
		CU_STREAM_WRITE_VALUE_DEFAULT);
}

/* Called by the driver, of a gate that was given up, behind its wait. */
static void stream_passed(void *arg)
{
	struct tei_gpu_gate *gate = arg;

	/* The page may go as soon as this is set. */
	atomic_store(&gate->page->words[gate->slot].passed, gate->number);
	drop(gate, 1);
}

/*
 * Has a function say when the stream has passed the word, in place of the write
 * that was refused. Where that is refused as well the word is not used again.
 */
static void report_pass(struct tei_gpu_gate *gate, CUstream stream)
{
	atomic_fetch_add(&gate->refs, 1);
	if (gate->page->cuda->call.launch_host_func(stream, stream_passed,
						    gate))
		drop(gate, 1);
}

/*
 * Gives up a gate of which only @n things are in the stream: its function finds
 * it not armed. A word that is waited for is free once the stream has passed.
 */
static void give_up(struct tei_gpu_gate *gate, CUstream stream, int n)
{
	if (n < 2)
		atomic_store(&gate->page->words[gate->slot].passed,
			     gate->number);
	else
		report_pass(gate, stream);
	set_word(gate);
	drop(gate, n ? 1 : 2);
}

static int refuse_stream(const struct tei_runtime *cuda, const char *function,
			 int error, char *why)
{
	(void)tei_cuda_fail(cuda, function, error, why);
	return error == CUDA_ERROR_INVALID_HANDLE ||
			       error == CUDA_ERROR_INVALID_VALUE ||
			       error == CUDA_ERROR_INVALID_CONTEXT
		       ? -EINVAL
		       : -EIO;
}

static int check_capture(struct tei_runtime *cuda, CUstream stream, char *why)
{
	int status = CU_STREAM_CAPTURE_STATUS_NONE;
	int error = cuda->call.stream_is_capturing(stream, &status);
	bool recorded = status != CU_STREAM_CAPTURE_STATUS_NONE ||
			(error >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
			 error <= CUDA_ERROR_CAPTURED_EVENT);

	if (recorded) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "stream: it is being recorded into a graph, "
			       "which cannot contain transfers");
		return -EBUSY;
	}
	return error ? refuse_stream(cuda, "stream: cuStreamIsCapturing", error,
				     why)
		     : 0;
}

static int check_device(struct tei_runtime *cuda, CUdevice *device, char *why)
{
	int error = cuda->call.ctx_get_device(device);

	if (error)
		return tei_cuda_fail(cuda, "cuCtxGetDevice", error, why);
	if (attribute_of(&cuda->call,
			 CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
			 *device))
		return 0;
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
		       "cuda:%d cannot have a stream wait for a word "
		       "(CAN_USE_64_BIT_STREAM_MEM_OPS)",
		       *device);
	return -EOPNOTSUPP;
}

/* Puts the gate, whose context is current. 0, -errno; @why. */
static int put_here(struct tei_runtime *cuda, CUstream stream,
		    struct tei_gpu_gate *gate, char *why)
{
	CUcontext context = NULL;
	CUdevice device = 0;
	const char *function;
	int n, error, rc;

	rc = check_capture(cuda, stream, why);
	if (!rc)
		rc = check_device(cuda, &device, why);
	if (rc)
		return rc;
	error = cuda->call.ctx_get_current(&context);
	if (error)
		return tei_cuda_fail(cuda, "cuCtxGetCurrent", error, why);
	rc = take_word(cuda, context, device, gate, why);
	if (rc)
		return rc;
	error = put_all(gate, stream, &n, &function);
	if (!error)
		return 0;
	give_up(gate, stream, n);
	return refuse_stream(cuda, function, error, why);
}

/* The context of a default stream: the memory's, or the thread's own. */
static int default_context(struct tei_runtime *cuda, uint64_t addr,
			   uintptr_t *context, int *gpu, char *why)
{
	const struct tei_runtime_ops *ops = &tei_cuda_ops;
	struct tei_memory_facts facts;
	CUcontext current = NULL;
	int rc = ops->look(cuda, addr, &facts, why);

	if (rc)
		return rc;
	*gpu = facts.gpu;
	*context = facts.context;
	if (*context || *gpu >= 0)
		return 0;
	if (!cuda->call.ctx_get_current(&current) && current) {
		*context = (uintptr_t)current;
		return 0;
	}
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
		       "stream: the default one of no GPU: the memory is the "
		       "host's, and this thread uses none");
	return -EINVAL;
}

static int context_of(struct tei_runtime *cuda,
		      const struct tei_gate_place *place, uintptr_t *context,
		      int *gpu, char *why)
{
	CUcontext found = NULL;
	int error;

	*gpu = -1;
	if (place->stream <= CU_STREAM_PER_THREAD)
		return default_context(cuda, place->addr, context, gpu, why);
	error = cuda->call.stream_get_ctx(handle_of(place), &found);
	*context = (uintptr_t)found;
	return error ? refuse_stream(cuda, "stream: cuStreamGetCtx", error, why)
		     : 0;
}

/* Makes the stream's context current for a while. 0, -errno; @why. */
static int put(struct tei_runtime *cuda, const struct tei_gate_place *place,
	       struct tei_gpu_gate *gate, char *why)
{
	struct cuda_entered entered;
	uintptr_t context = 0;
	int gpu, error, rc;

	rc = context_of(cuda, place, &context, &gpu, why);
	if (rc)
		return rc;
	error = tei_cuda_enter(cuda, context, gpu, &entered);
	if (error) {
		rc = tei_cuda_fail(cuda, "cuCtxPushCurrent", error, why);
	} else if (!entered.pushed) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "stream: the default one of cuda:%d, which "
			       "nobody uses now",
			       gpu);
		rc = -EINVAL;
	} else {
		rc = put_here(cuda, handle_of(place), gate, why);
	}
	tei_cuda_leave(cuda, &entered);
	return rc;
}

int tei_cuda_gate_put(struct tei_runtime *cuda,
		      const struct tei_gate_place *place,
		      struct tei_gpu_gate **out, char *why)
{
	struct tei_gpu_gate *gate;
	int mode, rc;

	if (!has_functions(&cuda->call)) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "the driver is too old for transfers in the "
			       "order of a stream");
		return -EOPNOTSUPP;
	}
	gate = tei_calloc(1, sizeof(*gate));
	if (!gate)
		return out_of_memory(why);
	atomic_init(&gate->refs, 3);
	tei_mutex_init(&gate->mu);
	gate->reached = place->reached;
	gate->arg = place->arg;
	sweep();
	mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	rc = put(cuda, place, gate, why);
	(void)tei_cuda_relax(cuda, mode);
	if (!rc)
		*out = gate;
	else /* give_up() has let go for the others */
		drop(gate, gate->page ? 1 : 3);
	return rc;
}
