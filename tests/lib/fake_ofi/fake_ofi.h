/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_ofi.h - a libfabric in memory, which has a provider's rules and fails as
 * it is told
 *
 * Domains of one process that reach each other. The bytes are carried, the
 * checks are those of the provider whose shape it has: how memory is
 * registered, keys, ranges and rights of both ends, sizes, room, who may be
 * closed before whom. What a NIC would do by itself happens inside cq_read(),
 * or at once while trywait() has armed a queue; so a test is the same each
 * time.
 *
 * What crashes a real provider (a fid closed twice, an address removed from a
 * vector whose endpoint has gone) is asserted not to happen.
 *
 * Threads: any; one lock guards all of it.
 */
#ifndef FAKE_OFI_H
#define FAKE_OFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/ofi/provider.h"

#define FAKE_OFI_DEVICES_MAX 32

extern const struct ofi_provider fake_ofi;

/*
 *           endpoints  keys         remote address  closing an endpoint
 * tcp       FI_EP_MSG  the caller's offset          ends all it had posted
 * verbs     FI_EP_MSG  the fake's   virtual         ends all it had posted
 * efa       FI_EP_RDM  the fake's   virtual         waits until it has ended
 * cxi       FI_EP_RDM  the caller's offset          says nothing of it
 *
 * tcp: a write without FI_DELIVERY_COMPLETE succeeds whatever its key; a wrong
 * key ends the connection, and what was posted comes back as cancelled.
 * verbs, efa: local memory is registered.
 * efa, cxi: domains take memory of devices if they were asked for FI_HMEM.
 * efa: 8 operations have room and end in any order, both sides know each
 * other's address before the first one, a closed peer is reported late.
 * cxi: keys of memory that peers reach are bound to an endpoint and enabled,
 * and closed before it. What is registered once is in a cache.
 */
enum fake_ofi_shape {
	FAKE_OFI_TCP,
	FAKE_OFI_VERBS,
	FAKE_OFI_EFA,
	FAKE_OFI_CXI,
	FAKE_OFI_SHAPES
};

/* A new fabric of @n domains "fake0" .., whose addresses are 10.9.1.1 .. */
void fake_ofi_start(enum fake_ofi_shape shape, unsigned int n);
/* Asserts that nothing is left of it: see fake_ofi_open(). */
void fake_ofi_stop(void);
/* The version of the library, an FI_VERSION(); 2.1 unless it is set. */
void fake_ofi_be_version(uint32_t version);
/* The name of a shape's provider, as in ofi.provider. */
const char *fake_ofi_provider(enum fake_ofi_shape shape);

/*
 * What getinfo() says of a domain, where @hints admit it; to be changed, also
 * to what is not so. Strings and addresses are of tei_malloc().
 */
struct fi_info *fake_ofi_info(unsigned int device);
void fake_ofi_rename(unsigned int device, const char *name); /* NULL: none */
/*
 * Has getinfo() tell of a domain twice, as efa of 2.1 does of devices that read
 * and write by themselves: the first time of the fabric "efa-direct", whose
 * endpoints are closed at once and say nothing of what they had posted. @alone:
 * of that one only.
 */
void fake_ofi_tell_bare(unsigned int device, bool alone);

/* What holds, whatever getinfo() says; to be changed before anything is open.*/
struct fake_ofi_limits {
	size_t depth;       /* posted and not read, of one endpoint */
	size_t pieces;      /* local ones, of one operation; <= 4 */
	size_t message;     /* bytes of one operation */
	size_t completions; /* room of a queue */
	size_t endpoints, keys;
	uint64_t registered; /* bytes under all keys */
	/*
	 * efa: the processes at both ends read and write, not the devices, also
	 * if only one end has this: the target looks at the key of an operation
	 * when it begins, and never again.
	 */
	bool emulated;
	bool both_know; /* targets insert the address of who reaches them*/
	/*
	 * efa: nothing is sent to a peer of the domain before that has read its
	 * queue once since it was asked to. Until then a library before 2.0 has
	 * -FI_EAGAIN, and later ones take what is posted and keep it: none of
	 * that comes back if the peer never does, nor when it is closed.
	 */
	bool handshakes;
};
struct fake_ofi_limits *fake_ofi_limits(unsigned int device);

/* ---- trouble ---- */

enum fake_ofi_call {
	FAKE_OFI_ANY, /* those below */
	FAKE_OFI_GETINFO,
	FAKE_OFI_DUPINFO,
	FAKE_OFI_FABRIC,
	FAKE_OFI_DOMAIN,
	FAKE_OFI_GETWAIT,
	FAKE_OFI_EQ_OPEN,
	FAKE_OFI_CQ_OPEN,
	FAKE_OFI_EQ_READ, /* not with ANY: the queue is dead afterwards */
	FAKE_OFI_CQ_READ, /* the same */
	FAKE_OFI_REGATTR,
	FAKE_OFI_MR_ENABLE,
	FAKE_OFI_AV_OPEN,
	FAKE_OFI_AV_INSERT,
	FAKE_OFI_PASSIVE_EP,
	FAKE_OFI_BIND,
	FAKE_OFI_LISTEN,
	FAKE_OFI_GETNAME,
	FAKE_OFI_ENDPOINT,
	FAKE_OFI_ENABLE,
	FAKE_OFI_GETOPT,
	FAKE_OFI_CONNECT,
	FAKE_OFI_ACCEPT,
	FAKE_OFI_POST,  /* readmsg(), writemsg() */
	FAKE_OFI_CLOSE, /* of an endpoint, which stays; not with ANY */
	FAKE_OFI_CALLS
};

/* The @nth of these calls from now on fails, with FI_E* @err; 0: none does. */
void fake_ofi_fail(enum fake_ofi_call call, unsigned int nth, int err);
/* Whether that has happened. */
bool fake_ofi_struck(void);

/* The @nth operation carried out from now on ends with FI_E* @err. */
void fake_ofi_spoil(unsigned int nth, int err);

/* Chances in a million, the same again from the same seed. */
struct fake_ofi_chances {
	uint64_t seed;
	unsigned int spoil;     /* an operation ends with some error */
	unsigned int reset;     /* its connection is reset instead */
	unsigned int busy;      /* this and the next few get -FI_EAGAIN */
	unsigned int no_key;    /* a key is refused as if it were in use */
	unsigned int no_memory; /* memory is not registered */
	unsigned int cut;       /* an error comes without its data, or half */
};
void fake_ofi_set_chances(const struct fake_ofi_chances *c); /* NULL: none */

/* The next @n operations that are posted get -FI_EAGAIN. */
void fake_ofi_be_busy(unsigned int n);
/* Nothing is carried out that was posted by the domain, until it is unset. */
void fake_ofi_hang(unsigned int device, bool on);
/*
 * The process behind the domain is stopped, or its host dead: what is posted to
 * it does not end, nor does closing it tell anybody, until it is unset.
 */
void fake_ofi_silence(unsigned int device, bool on);
/*
 * The same, and what is posted to it ends as a provider tells of a lost peer,
 * after its queue was read @looks times; 0: never.
 */
void fake_ofi_lose(unsigned int device, unsigned int looks);
/*
 * Each endpoint of the domain tells its event queue of an error that is of no
 * operation, FI_E* @err with the provider's own number @code.
 */
void fake_ofi_fail_aside(unsigned int device, int err, int code);
/*
 * Each endpoint of the domain has its completion queue told that a peer wrote
 * with data, with @context as operations have it.
 */
void fake_ofi_tell_of_write(unsigned int device, void *context);
/* The domain takes no memory any more, with FI_E* @err; 0: it does. */
void fake_ofi_refuse_memory(unsigned int device, int err);
/* Dma-bufs are refused, with FI_E* @err; 0: they are not. */
void fake_ofi_refuse_dmabufs(int err);
/*
 * efa from 2.1 on: the devices have no way to memory of GPUs. A dma-buf is
 * registered with none of them, but gets a key of more than 32 bits, and
 * requests that name it fail.
 */
void fake_ofi_keep_dmabufs(bool on);
/* close() of endpoints fails with FI_E* @err and changes nothing; 0: not. */
void fake_ofi_refuse_closes(int err);
/* The same, of keys. */
void fake_ofi_refuse_key_closes(int err);
/* Breaks every connection there is now, as a reset of both ends does. */
void fake_ofi_reset_all(void);
/*
 * A stranger connects to every listener and says @param[len]; returns to how
 * many. What becomes of it: counts.strangers_refused, .strangers_accepted.
 */
unsigned int fake_ofi_strangers(const void *param, size_t len);

/*
 * Where a domain finds the bytes of an address that is registered as memory of
 * a device (attr->iface), as a GPU's is. Without it such memory is refused.
 */
void fake_ofi_translate(void *(*translate)(uint64_t addr));

/*
 * Memory by dma-buf, where 1.20 was asked for: mr_regattr() with this flag, and
 * attr->mr_iov points to this. Asked for less the flag is unknown.
 */
#define FAKE_OFI_MR_DMABUF (1ull << 40)
struct fake_ofi_dmabuf {
	int fd;
	uint64_t offset;
	size_t len;
	void *base_addr;
};

/* ---- what happened ---- */

struct fake_ofi_counts {
	/* There are now. */
	unsigned int infos, fabrics, domains, queues, vectors, listeners;
	unsigned int endpoints, keys;
	unsigned int requests; /* connections asked for: neither taken nor not*/
	unsigned int fds;
	uint64_t registered; /* bytes under all keys */
	/* Since the start. */
	uint64_t posted, done, spoiled, canceled, busy;
	uint64_t refused; /* by the target: key, range, right */
	uint64_t events;  /* of memory that asked for FI_RMA_EVENT */
	uint64_t waited;  /* closes that waited for what was posted */
	size_t receives;  /* buffers for messages, of the endpoint with most */
	uint64_t by_shm;  /* domains of efa that go by shm on this host */
	uint64_t strangers_refused, strangers_accepted;
	uint64_t calls[FAKE_OFI_CALLS]; /* that may fail */
};
struct fake_ofi_counts fake_ofi_counts(void);
/* Bytes under all keys of a domain. */
uint64_t fake_ofi_registered(unsigned int device);
/* Fids, descriptors, keys, infos and requests that are open. */
unsigned int fake_ofi_open(void);

#endif
