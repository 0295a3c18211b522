/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime.h - what the engine needs of the driver of GPUs, whoever makes them
 *
 * Each vendor's driver has a table of operations, filled by a file that
 * alone knows the driver's names. A driver is a library of the process: it is
 * loaded when it is needed, and never unloaded, since its threads go on.
 *
 * Threads: any, except where an operation says otherwise. No operation leaves
 * another context current in a thread. None but alloc() makes one on a GPU.
 */
#ifndef TE_DEVICE_RUNTIME_H
#define TE_DEVICE_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEI_RUNTIME_WHY_LEN 160 /* bytes of a reason, its end included */
#define TEI_GPU_BUS_LEN     16  /* bytes of "0000:1a:00.0", its end included */
#define TEI_GPU_MODEL_LEN   64

enum tei_memory_kind {
	TEI_MEMORY_HOST,    /* of the host; no driver knows it */
	TEI_MEMORY_PINNED,  /* of the host, locked for GPUs to copy from */
	TEI_MEMORY_MANAGED, /* moves to who touches it, GPU or processor */
	TEI_MEMORY_DEVICE,  /* of a GPU: the processor must not touch it */
};

/* Facts that a driver knows of one address. */
struct tei_memory_facts {
	enum tei_memory_kind kind;
	int gpu; /* the driver's number of the GPU; -1: of none */
	/* Range that was allocated; chunked: one chunk. HOST: 0, 0. */
	uint64_t base, length;
	uintptr_t context; /* the driver's, that it is of; 0: of none */
	bool chunked;      /* DEVICE: mapped in chunks, maybe side by side */
	bool pooled; /* DEVICE: of a pool, allocated in order of streams */
};

struct tei_gpu {
	char bus_id[TEI_GPU_BUS_LEN]; /* of PCI, lower case, as in sysfs */
	char model[TEI_GPU_MODEL_LEN];
};

struct tei_config;
struct tei_runtime;    /* a driver that is loaded; each table's own */
struct tei_gpu_copier; /* what copies between host and GPU need; the same */
struct tei_gpu_gate;   /* a place in a stream; the same */

enum tei_copy_way {
	TEI_COPY_OUT, /* from the GPU to the host */
	TEI_COPY_IN,
	TEI_COPY_ACROSS, /* from a GPU's memory to a GPU's, the same or not */
	TEI_COPY_WAYS
};

#define TEI_COPY_MARKS 64u /* that a copier has for each way */

/* Bytes to be copied between a GPU's memory and the host's, or a GPU's. */
struct tei_copy {
	uint64_t gpu;  /* address of the GPU's; ACROSS: to which */
	void *host;    /* in the copier's memory; not ACROSS */
	uint64_t from; /* ACROSS: address of the GPU's */
	uint64_t length;
};

#define TEI_COPIES_MAX 256u /* that are begun at once */

#define TEI_SHARED_LEN 64u /* bytes of a name that share() gives */

/* Place of a gate, and whom to tell when the stream gets there. */
struct tei_gate_place {
	uint64_t stream; /* the driver's, or the number of a default one */
	/*
	 * Memory that is moved: a default stream is that of the context that
	 * it is of, or for the host's of the context that the thread has.
	 */
	uint64_t addr;
	void (*reached)(void *arg);
	void *arg;
};

struct tei_runtime_ops {
	const char *name; /* "cuda": before the colon of a location */
	size_t library;   /* offset of its file's name in struct tei_config */

	/*
	 * Finds the driver in this process. @library: its file; NULL: where it
	 * usually is. @load: loads it if nobody has; else that is -ENOENT.
	 * Returns 0, or @why says what is missing and: -ENOENT (no such
	 * library), -ENOSYS (it is too old, or another one), -ENOMEM. Blocks:
	 * for the disk. One thread at a time.
	 */
	int (*open)(const char *library, bool load, struct tei_runtime **out,
		    char why[TEI_RUNTIME_WHY_LEN]);
	/*
	 * Frees what open() has made. All gates are open; what streams have not
	 * passed yet of them is freed by a later close() or gate_put() of the
	 * process. The library stays. Blocks: for streams that are about to
	 * pass, 100 ms at most.
	 */
	void (*close)(struct tei_runtime *runtime);

	/*
	 * Starts the driver, if nobody in the process has: up to a second, and
	 * memory. Any number of times. Returns 0, or @why says why and:
	 * -ENODEV (no GPU that the process may use), -EIO.
	 */
	int (*start)(struct tei_runtime *runtime,
		     char why[TEI_RUNTIME_WHY_LEN]);

	/*
	 * Tells whose memory is at @addr, without touching it. Returns 0: HOST
	 * where the driver does not know it, also a driver that nobody has
	 * started. -EIO: the driver fails, @why says how.
	 */
	int (*look)(struct tei_runtime *runtime, uint64_t addr,
		    struct tei_memory_facts *out,
		    char why[TEI_RUNTIME_WHY_LEN]);

	/*
	 * Describes GPU @number, from 0, as the process counts them: it may see
	 * fewer than the machine has. Returns 0, -ENOENT (no such GPU), -EIO
	 * (@why). The driver was started.
	 */
	int (*gpu)(struct tei_runtime *runtime, int number, struct tei_gpu *out,
		   char why[TEI_RUNTIME_WHY_LEN]);

	/*
	 * Orders copies of the memory that the process calls synchronous: some
	 * of them are not, and a NIC that accessed it after the call might get
	 * the old bytes. @facts: of a GPU's. Returns 0, or -EIO, and @why says
	 * why not.
	 */
	int (*order)(struct tei_runtime *runtime,
		     const struct tei_memory_facts *facts,
		     char why[TEI_RUNTIME_WHY_LEN]);
	/*
	 * Exports whole pages of a GPU's memory as a dma-buf, whose first byte
	 * is at @addr. *fd: the caller's to close. Returns 0, or @why says why
	 * and: -EOPNOTSUPP (not this memory, or nothing on this host), -EIO.
	 */
	int (*export)(struct tei_runtime *runtime, uint64_t addr,
		      uint64_t length, const struct tei_memory_facts *facts,
		      int *fd, char why[TEI_RUNTIME_WHY_LEN]);
	/*
	 * Tells whether drivers of NICs register the memory by its address as
	 * they do the host's. *@how: what to do where not; static.
	 */
	bool (*by_address)(const struct tei_config *config, const char **how);

	/*
	 * Allocates memory of GPU @number in its primary context, which is made
	 * if nobody uses the GPU, and stays in use until free(). The driver was
	 * started. Returns 0, or @why says why and: -ENODEV (no such GPU),
	 * -ENOMEM, -EIO.
	 */
	int (*alloc)(struct tei_runtime *runtime, int number, uint64_t length,
		     uint64_t *addr, char why[TEI_RUNTIME_WHY_LEN]);
	void (*free)(struct tei_runtime *runtime, int number, uint64_t addr);
	/*
	 * The same in chunks that other processes and NICs can be given, and
	 * that all GPUs which can reach it may access. *@length: of what was
	 * asked; out: of what there is. It needs no context, and none stays.
	 * -EOPNOTSUPP: the driver or the GPU has none, which can_map() tells
	 * before, as it does -ENODEV. unmap() waits for work
	 * of @stream, of the driver's (0: its default one), which may use it;
	 * it returns 0, or @why says why and -EIO.
	 */
	int (*can_map)(struct tei_runtime *runtime, int number,
		       char why[TEI_RUNTIME_WHY_LEN]);
	int (*map)(struct tei_runtime *runtime, int number, uint64_t *length,
		   uint64_t *addr, char why[TEI_RUNTIME_WHY_LEN]);
	int (*unmap)(struct tei_runtime *runtime, int number, uint64_t addr,
		     uint64_t length, uintptr_t stream,
		     char why[TEI_RUNTIME_WHY_LEN]);
	/*
	 * Locks the host's memory for copies by all GPUs; *@number: of the one
	 * by which, for unpin(). Returns 0, or @why says why and: -ENODEV (the
	 * process can use no GPU, or uses none now), -ENOMEM, -EIO.
	 */
	int (*pin)(struct tei_runtime *runtime, void *addr, uint64_t length,
		   int *number, char why[TEI_RUNTIME_WHY_LEN]);
	void (*unpin)(struct tei_runtime *runtime, int number, void *addr);
	/*
	 * Copies from any memory of the host into a GPU's, of @facts, in a
	 * context that is in use, and waits for it. The order of copies is its
	 * own: no other work of the process is waited for. Returns 0, or @why
	 * says why and: -EOPNOTSUPP (as copier_open()), -EIO.
	 */
	int (*fill)(struct tei_runtime *runtime,
		    const struct tei_memory_facts *facts,
		    const struct tei_copy *copies, uint32_t n,
		    char why[TEI_RUNTIME_WHY_LEN]);

	/*
	 * Names an allocation for other processes of this host: all of the one
	 * that begins at @facts->base. Returns 0, or @why says why and:
	 * -EOPNOTSUPP (not this memory, or nothing on this host), -EIO.
	 */
	int (*share)(struct tei_runtime *runtime,
		     const struct tei_memory_facts *facts,
		     uint8_t name[TEI_SHARED_LEN],
		     char why[TEI_RUNTIME_WHY_LEN]);
	/*
	 * Opens memory that another process has named, in the copier's context,
	 * which reaches it by itself where hardware allows; *addr: of its first
	 * byte here. It must not be open there, and its owner must not free it
	 * before detach(). Blocks: for the driver. Returns 0, or @why says why
	 * and: -EOPNOTSUPP (this GPU does not get to it), -EIO.
	 */
	int (*attach)(struct tei_gpu_copier *copier,
		      const uint8_t name[TEI_SHARED_LEN], uint64_t *addr,
		      char why[TEI_RUNTIME_WHY_LEN]);
	/* Closes it, by any copier of that context. No copy touches it. */
	void (*detach)(struct tei_gpu_copier *copier, uint64_t addr);

	/*
	 * Exports one chunk, that of @facts, for other processes of this host.
	 * *@fd: the caller's to close, keeps the memory; NULL: only tells
	 * whether it can be. Returns 0, or @why says why and: -EOPNOTSUPP (not
	 * this memory, or nothing on this host), -EIO.
	 */
	int (*share_chunk)(struct tei_runtime *runtime,
			   const struct tei_memory_facts *facts, int *fd,
			   char why[TEI_RUNTIME_WHY_LEN]);
	/*
	 * Reserves addresses for chunks that another process has exported;
	 * *@addr: the first. Returns 0, or @why says why and: -EOPNOTSUPP
	 * (this driver has none), -EIO.
	 */
	int (*reserve)(struct tei_gpu_copier *copier, uint64_t length,
		       uint64_t *addr, char why[TEI_RUNTIME_WHY_LEN]);
	/*
	 * Maps a chunk of @length bytes to addresses that are reserved and
	 * free, for the copier's GPU and others that reach it. @fd: of the
	 * chunk, not needed afterwards. The chunk may be mapped elsewhere in
	 * this process, too. Blocks: for the driver. Returns 0, or @why says
	 * why and: -EOPNOTSUPP (this GPU does not get to it), -EIO; nothing is
	 * mapped then.
	 */
	int (*attach_chunk)(struct tei_gpu_copier *copier, uint64_t addr,
			    uint64_t length, int fd,
			    char why[TEI_RUNTIME_WHY_LEN]);
	/*
	 * Unmaps chunks, whose bytes are the first @mapped, and frees all that
	 * was reserved, by any copier. No copy touches it.
	 */
	void (*unreserve)(struct tei_gpu_copier *copier, uint64_t addr,
			  uint64_t mapped, uint64_t length);

	/*
	 * Opens what copies to and from the GPU of @facts need, in the context
	 * that its memory is of: @length bytes of the host's, pinned (*memory),
	 * and an order of copies for each way that no other work of the process
	 * waits for. If the context is the GPU's primary one it stays in use
	 * until close; another one must not be destroyed before. Returns 0, or
	 * @why says why and: -EOPNOTSUPP (the memory is of no context, and
	 * nobody uses its GPU, so there is none), -ENOMEM, -EIO.
	 */
	int (*copier_open)(struct tei_runtime *runtime,
			   const struct tei_memory_facts *facts,
			   uint64_t length, struct tei_gpu_copier **out,
			   void **memory, char why[TEI_RUNTIME_WHY_LEN]);
	/* Waits for copies under way, and frees. */
	void (*copier_close)(struct tei_gpu_copier *copier);
	/*
	 * Begins @n copies (TEI_COPIES_MAX at most), in any order but behind
	 * those begun before the same way, and sets @mark (0 to TEI_COPY_MARKS
	 * - 1), which is free, behind them. Does not wait for them. One thread
	 * at a time. Returns 0, or @why says why and:
	 *   -EAGAIN           not now: the process records a graph
	 *   -EIO              not these; none of them touches memory any more
	 *   -ENOTRECOVERABLE  none for ever, and no copy of the copier touches
	 *                     memory any more
	 * After an error it has waited for copies that had begun.
	 */
	int (*copy)(struct tei_gpu_copier *copier, enum tei_copy_way way,
		    const struct tei_copy *copies, uint32_t n,
		    unsigned int mark, char why[TEI_RUNTIME_WHY_LEN]);
	/*
	 * Tells whether all copies before the mark have ended, so that whoever
	 * looks sees their bytes: 1; 0: not yet; -ENOTRECOVERABLE, as copy().
	 */
	int (*is_copied)(struct tei_gpu_copier *copier, enum tei_copy_way way,
			 unsigned int mark, char why[TEI_RUNTIME_WHY_LEN]);
	/*
	 * Tells whether what NICs have written to the copier's GPU becomes
	 * visible to work of it that runs already by flush() only; work that
	 * begins later sees it in any case. Any thread.
	 */
	bool (*needs_flush)(const struct tei_gpu_copier *copier);
	/* Makes it visible. Any thread. Blocks: for the driver. */
	void (*flush)(const struct tei_gpu_copier *copier);

	/*
	 * Puts a gate into a stream, behind what was put there before. When the
	 * stream gets there, a thread of the driver calls place->reached(arg),
	 * which may neither block nor call the driver; the stream goes on once
	 * the gate is open. The call is held back until gate_arm(), so that
	 * nothing begins before all of this has worked. The driver was started.
	 * Does not wait for the stream. Returns 0; or reached() is never
	 * called, the stream goes on, @why says why and:
	 *   -EINVAL      no such stream, or no context that a default one is of
	 *   -EBUSY       the stream is being recorded into a graph
	 *   -EOPNOTSUPP  the driver or the GPU cannot wait for a word
	 *   -ENOMEM, -EIO
	 */
	int (*gate_put)(struct tei_runtime *runtime,
			const struct tei_gate_place *place,
			struct tei_gpu_gate **out,
			char why[TEI_RUNTIME_WHY_LEN]);
	/*
	 * Allows the call of reached(), once, and makes it where the stream is
	 * there already. Nothing happens where the gate was opened meanwhile;
	 * the caller may not arm or open it any more after both.
	 */
	void (*gate_arm)(struct tei_gpu_gate *gate);
	/*
	 * Lets the stream go on, whatever state the driver is in. What NICs
	 * have written to the GPU before is visible to what follows in the
	 * stream. When it returns reached() does not run, and is not called any
	 * more. Blocks: for a reached() that runs just now.
	 */
	void (*gate_open)(struct tei_gpu_gate *gate);
};

/* Tables of all vendors, NULL at the end; runtimes.c alone names them. */
extern const struct tei_runtime_ops *const tei_runtimes[];
#define TEI_RUNTIMES_MAX 4 /* tables there may be */

#endif
