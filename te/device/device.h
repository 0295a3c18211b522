/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - what memory a caller means: the host's, or that of a GPU
 *
 * No driver of a GPU is loaded, and none is started, before there is a reason:
 * a location names a GPU, or an address is in none of the process's mappings.
 * One that the process has loaded is asked of each address.
 *
 * Threads: any. tei_gpus.mu (lock 18) is held while a driver is loaded.
 */
#ifndef TE_DEVICE_DEVICE_H
#define TE_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/thread.h"
#include "te/device/runtime.h"

struct te_engine;

/* A driver as this engine knows it; guarded by mu until it is open. */
struct tei_gpu_runtime {
	struct tei_runtime *runtime; /* NULL: not open */
	bool tried;                  /* loading it, which has failed */
};

struct tei_gpus {
	struct tei_mutex mu; /* lock 18 */
	struct tei_gpu_runtime runtimes[TEI_RUNTIMES_MAX];
	struct tei_list stages; /* struct tei_stage; guarded by mu */
};

/* Memory that a caller names. */
struct tei_memory_asked {
	const void *addr;
	uint64_t length;      /* >= 1; does not wrap */
	const char *location; /* "cuda:1", "cpu:0"; NULL, "" or "*": any */
};

/* Answer of tei_memory_find(). */
struct tei_memory_found {
	struct tei_memory_facts facts;
	const struct tei_runtime_ops *ops; /* NULL: no driver knows it */
	struct tei_runtime *runtime;       /* the engine's, as long as it is */
	struct tei_gpu gpu;                /* where facts.gpu >= 0 */
};

/* A GPU that a location names. */
struct tei_gpu_named {
	const struct tei_runtime_ops *ops; /* NULL: it names none */
	struct tei_runtime *runtime;       /* the engine's, as long as it is */
	int number;
};

void tei_gpus_init(struct tei_gpus *gpus);
void tei_gpus_fini(struct tei_gpus *gpus);

/*
 * Finds out what memory it is. A GPU's is not touched, no context is made. A
 * driver that fails does not matter to memory that the host can reach and whose
 * location names no GPU. Blocks: for the disk and the driver, at the first
 * GPU's memory. Returns 0, or @why names the argument and the cause, and:
 *   -EINVAL  the location is another one than the memory's
 *   -EFAULT  a GPU's range ends behind what was allocated there, or at addr is
 *            no memory; where a driver runs, none that may be read
 *   -EIO     the driver fails
 *   -ENOMEM
 */
int tei_memory_find(struct te_engine *engine,
		    const struct tei_memory_asked *asked,
		    struct tei_memory_found *out,
		    char why[TEI_RUNTIME_WHY_LEN]);

/*
 * Asks one driver, tei_runtimes[i], which is open, as tei_memory_find() does.
 * out->ops is set where it knows the memory.
 */
int tei_memory_ask(size_t i, struct tei_runtime *runtime,
		   const struct tei_memory_asked *asked,
		   struct tei_memory_found *out, char why[TEI_RUNTIME_WHY_LEN]);

/*
 * Finds the driver of a GPU that @location names, "cuda:1", and starts it.
 * Blocks: for that. Returns 0 (also where the location names none), or @why
 * says why and: -ENODEV (no driver, or no GPU that the process may use), -EIO,
 * -ENOMEM.
 */
int tei_gpu_find(struct te_engine *engine, const char *location,
		 struct tei_gpu_named *out, char why[TEI_RUNTIME_WHY_LEN]);

/*
 * Finds the driver of GPUs of a kind, "cuda", and starts it; out->number is
 * not set. Blocks: for that. Returns 0, or @why says why and: -EINVAL (no such
 * kind), else as tei_gpu_find().
 */
int tei_runtime_find(struct te_engine *engine, const char *kind,
		     struct tei_gpu_named *out, char why[TEI_RUNTIME_WHY_LEN]);
/*
 * Tells whether the process can use GPUs of a kind, for which it loads and
 * starts their driver. Returns as tei_runtime_find().
 */
int tei_runtime_probe(const struct tei_config *config, const char *kind,
		      char why[TEI_RUNTIME_WHY_LEN]);

/*
 * Locks the host's memory for GPUs that the process uses. *@out: who has, to
 * undo it by unpin(); ops NULL: nobody, as none is in use. Returns 0, or @why
 * says why and: -EIO, -ENOMEM.
 */
int tei_gpus_pin(struct te_engine *engine, void *addr, uint64_t length,
		 struct tei_gpu_named *out, char why[TEI_RUNTIME_WHY_LEN]);

#endif
