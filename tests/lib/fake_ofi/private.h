/* SPDX-License-Identifier: Apache-2.0 */
/*
 * private.h - what the files of the fake libfabric share
 *
 * info.c      shapes, getinfo(), domains
 * memory.c    keys
 * cm.c        listeners and connections
 * events.c    event queues, descriptors of both kinds of queues
 * endpoint.c  endpoints: opened, bound, posted to, closed
 * av.c        addresses, address vectors
 * cq.c        completion queues
 * run.c       operations carried out, handshakes
 * fabric.c    the table, begin and end, close()
 * faults.c    trouble
 *
 * All is under ofi_net.mu.
 */
#ifndef FAKE_OFI_PRIVATE_H
#define FAKE_OFI_PRIVATE_H

#include <netinet/in.h>

#include "base/list.h"
#include "base/thread.h"
#include "tests/lib/fake_ofi/fake_ofi.h"

#define FAKE_OFI_KEYS_MAX      32768 /* a power of 2 */
#define FAKE_OFI_EPS_MAX       8192
#define FAKE_OFI_PIECES_MAX    4
#define FAKE_OFI_CM_DATA_MAX   256
#define FAKE_OFI_ADDRESSES_MAX 4096 /* of a vector */
#define FAKE_OFI_LATE          64   /* looks until a closed peer is noticed */

/* How providers differ. */
struct fake_ofi_rules {
	const char *provider;
	enum fi_ep_type type;
	int mr_mode;
	uint64_t mode;
	uint32_t addr_format;
	size_t key_size;
	struct fake_ofi_limits limits;
	bool hmem;
	bool comes_back;   /* closing an endpoint has all come back */
	bool early;        /* writes that do not ask more end when they leave */
	bool handle_stays; /* reject() frees what an endpoint has taken */
	bool unordered;
	bool av_of_one; /* a vector is of one endpoint, knows each address once */
	bool waits;     /* closing an endpoint waits for what it has posted */
	bool polled;    /* no descriptor tells of completions */
	bool needs_eq; /* who has none is ended by an error of no operation */
	size_t padded; /* what is said with a connection comes in so many */
	/* How an operation ends that the target refuses, that finds nobody. */
	int refused_err, refused_code, lost_err, lost_code;
};

struct fake_ofi_device {
	struct fi_info *info;
	struct fi_info *bare; /* of the same domain, told before; NULL: none */
	bool alone;           /* info is not told */
	struct fid_nic nic;
	struct fi_link_attr link;
	struct fake_ofi_limits limits;
	unsigned int n_keys, n_eps;
	uint64_t registered;
	bool hangs, silent;
	unsigned int looks; /* silent: 0: never ends */
	int refuses_memory;
};

struct fake_ofi_fabric {
	struct fid_fabric base; /* first in each of these */
	char name[64];
	unsigned int n_children;
};

struct fake_ofi_domain {
	struct fid_domain base;
	struct fake_ofi_fabric *fabric;
	struct fake_ofi_device *device;
	bool hmem;              /* was asked for */
	bool waits, comes_back; /* as the rules have it, of this fabric */
	unsigned int n_children;
	struct tei_list mrs; /* fake_ofi_mr.of_domain; the newest first */
};

struct fake_ofi_mr {
	struct fid_mr base;
	struct fake_ofi_domain *domain;
	struct tei_list of_key; /* ofi_net.keys */
	struct tei_list of_ep;  /* ep.mrs; bound to one */
	struct tei_list of_domain;
	uint32_t slot;
	uint64_t key, desc, addr, length, access, flags;
	uint8_t *bytes;   /* of a device's memory; NULL: at addr */
	uint8_t *mapping; /* mapping[mapped] */
	size_t mapped;
	struct fake_ofi_ep *ep;
	bool enabled;
	bool kept; /* no device has it: see fake_ofi_keep_dmabufs() */
};

/* What both kinds of queues wait by. */
struct fake_ofi_wait {
	int fd; /* -1: none was asked for */
	bool armed;
};

struct fake_ofi_done {
	void *context;
	const struct fake_ofi_ep *ep;
	uint64_t flags, len;
	int err, code;
};

struct fake_ofi_cq {
	struct fid_cq base;
	struct fake_ofi_domain *domain;
	struct fake_ofi_wait wait;
	struct fake_ofi_done *ring; /* ring[room] */
	size_t room, head, n;
	bool overrun, dead;
	uint64_t n_reads;
	struct tei_list eps; /* fake_ofi_ep.of_cq */
	char text[64];       /* data of the error that was read last */
};

struct fake_ofi_event {
	struct tei_list link;
	uint32_t event;
	struct fid *fid;
	struct fi_info *info;
	struct fake_ofi_request *request; /* its info's handle */
	int err, code;                    /* err != 0: an error */
	uint8_t data[FAKE_OFI_CM_DATA_MAX];
	size_t len;
};

struct fake_ofi_eq {
	struct fid_eq base;
	struct fake_ofi_fabric *fabric;
	struct fake_ofi_wait wait;
	struct tei_list events;
	bool dead;
	unsigned int n_children;
};

struct fake_ofi_av {
	struct fid_av base;
	struct fake_ofi_domain *domain;
	struct fake_ofi_address *ring; /* by fi_addr */
	uint32_t n;                    /* where the next one is tried */
	uint32_t high;                 /* none is there or behind */
	unsigned int n_eps;            /* bound to it */
	bool had_ep;
};

struct fake_ofi_pep {
	struct fid_pep base;
	struct tei_list link; /* ofi_net.peps */
	struct fake_ofi_fabric *fabric;
	struct fake_ofi_device *device;
	struct fake_ofi_eq *eq;
	struct sockaddr_in at;
	bool listens;
};

/* A connection that was asked for; its fid is info->handle. */
struct fake_ofi_request {
	struct fid base;
	struct fake_ofi_ep *from; /* NULL: it has gone, or is a stranger */
	struct sockaddr_in at;    /* of the listener */
	bool stranger, taken;     /* taken: an endpoint has it */
};

/* An address of FI_EP_RDM, in as many bytes as the provider's has. */
struct fake_ofi_address {
	uint32_t magic; /* FAKE_OFI_MAGIC; 0: removed */
	uint32_t device, number, pad;
};
#define FAKE_OFI_MAGIC 0xfab0fab0u

struct fake_ofi_work { /* a posted operation */
	struct tei_list link;
	void *context;
	bool read, delivery;
	uint8_t *begun; /* emulated: where it goes on; NULL: it has not begun */
	unsigned int n, late;
	struct iovec iov[FAKE_OFI_PIECES_MAX];
	uint64_t desc[FAKE_OFI_PIECES_MAX];
	uint64_t addr, key, length;
	fi_addr_t to;
};

enum fake_ofi_state {
	FAKE_OFI_IDLE,
	FAKE_OFI_ENABLED, /* MSG: not connected; RDM: usable */
	FAKE_OFI_CONNECTED,
	FAKE_OFI_ENDED, /* connection is over */
};

struct fake_ofi_ep {
	struct fid_ep base;
	struct fake_ofi_domain *domain;
	uint32_t number;
	enum fake_ofi_state state;
	struct fake_ofi_eq *eq;
	struct fake_ofi_cq *cq;
	struct fake_ofi_av *av;
	struct tei_list of_cq, mrs;
	struct tei_list works, free; /* posted; room for more */
	struct fake_ofi_work *memory;
	unsigned int n_works; /* in the list */
	unsigned int n_held;  /* posted, and not read from the queue */
	unsigned int n_mrs;
	/* The last peer that was asked for a handshake, as of its first time. */
	uint32_t asks;
	uint64_t asked_at; /* n_reads of its queue; UINT64_MAX: not asked yet */
	bool shaken;       /* it has answered */
	/* Of FI_EP_MSG. */
	struct fake_ofi_ep *peer;
	struct fake_ofi_request *request; /* not accepted yet */
	struct fake_ofi_request *asked;   /* what this one asks for */
	struct sockaddr_in self, other;
};

struct fake_ofi_net {
	struct tei_mutex mu;
	bool on;
	enum fake_ofi_shape shape;
	const struct fake_ofi_rules *rules;
	uint32_t version; /* of the library */
	unsigned int n_devices;
	struct fake_ofi_device devices[FAKE_OFI_DEVICES_MAX];
	struct fake_ofi_mr *mrs[FAKE_OFI_KEYS_MAX];
	struct tei_list keys[FAKE_OFI_KEYS_MAX]; /* by key */
	struct fake_ofi_ep *eps[FAKE_OFI_EPS_MAX];
	struct tei_list peps;
	uint32_t next_slot, next_ep;
	uint16_t next_port;
	struct fake_ofi_counts counts;

	enum fake_ofi_call fail_call;
	unsigned int fail_nth, spoil_nth, n_busy;
	int fail_err, spoil_err, refuse_dmabufs;
	int refuse_closes, refuse_key_closes;
	bool keep_dmabufs;
	void *(*translate)(uint64_t addr);
	bool struck;
	struct fake_ofi_chances chances;
};

extern struct fake_ofi_net ofi_net;

/* faults.c: 0, or what this call is to fail with, negative. */
int fake_ofi_fails(enum fake_ofi_call call) TEI_REQUIRES(ofi_net.mu);
/* The same, which takes the lock. */
int fake_ofi_check(enum fake_ofi_call call);
bool fake_ofi_happens(unsigned int per_million) TEI_REQUIRES(ofi_net.mu);
/* What an operation is to end with, FI_E*; 0: as it does. */
int fake_ofi_spoils(void) TEI_REQUIRES(ofi_net.mu);
bool fake_ofi_is_busy(void) TEI_REQUIRES(ofi_net.mu);

/* info.c */
extern const struct fake_ofi_rules fake_ofi_shapes[FAKE_OFI_SHAPES];
void fake_ofi_device_init(unsigned int i);
void fake_ofi_device_fini(unsigned int i);
struct fake_ofi_device *fake_ofi_device_of(const struct fi_info *info);
struct fi_info *fake_ofi_copy(const struct fi_info *info);
void fake_ofi_drop(struct fi_info *info);

/* memory.c: NULL: there is none. */
struct fake_ofi_mr *fake_ofi_mr_by_key(const struct fake_ofi_domain *domain,
				       uint64_t key);
struct fake_ofi_mr *fake_ofi_mr_by_desc(uint64_t desc);
uint8_t *fake_ofi_mr_bytes(const struct fake_ofi_mr *mr, uint64_t addr);

/* events.c */
int fake_ofi_wait_open(struct fake_ofi_wait *wait, enum fi_wait_obj how);
void fake_ofi_wait_close(struct fake_ofi_wait *wait);
void fake_ofi_wake(struct fake_ofi_wait *wait);
/*
 * Tells a queue; NULL: there is none. Its memory is none of which a test makes
 * the allocation fail, since nobody could be told of that.
 */
struct fake_ofi_event *fake_ofi_tell(struct fake_ofi_eq *eq, uint32_t event,
				     struct fid *fid, int err);
/* What @eq was told of @fid is not seen any more. */
void fake_ofi_forget(struct fake_ofi_eq *eq, const struct fid *fid);
void fake_ofi_event_free(struct fake_ofi_event *event);

/*
 * cm.c: ends a connection at both ends; what @ep had posted ends with FI_E*
 * @err, what its peer had with FI_ECANCELED.
 */
void fake_ofi_break(struct fake_ofi_ep *ep, int err);
/* What becomes of others when an endpoint of FI_EP_MSG is closed. */
void fake_ofi_leave(struct fake_ofi_ep *ep);
/* @err: what who has asked is told; 0: nothing. */
void fake_ofi_request_free(struct fake_ofi_request *request, int err);
/* Writes an address where there is room; *len as in fi_getname(). */
int fake_ofi_give_address(void *out, size_t *len, const void *addr, size_t n);

/* av.c: whether @av has the address of @ep. */
bool fake_ofi_av_has(const struct fake_ofi_av *av,
		     const struct fake_ofi_ep *ep);
/* endpoint.c: ends all that is posted, with FI_E* @err. */
void fake_ofi_end_all(struct fake_ofi_ep *ep, int err, int code);
void fake_ofi_end_one(struct fake_ofi_ep *ep, struct fake_ofi_work *work,
		      int err, int code);

/* cq.c */
void fake_ofi_cq_add(struct fake_ofi_cq *cq, const struct fake_ofi_done *done);

/* run.c: whether the peer at @addr has answered @ep, which asks it if not. */
bool fake_ofi_shake_hands(struct fake_ofi_ep *ep, fi_addr_t addr);
/* run.c: whether what is posted is kept until the peer has answered. */
bool fake_ofi_is_kept(const struct fake_ofi_ep *ep);
/* run.c: carry out what is posted to endpoints of the queue, so much each. */
void fake_ofi_run(struct fake_ofi_cq *cq, size_t each) TEI_REQUIRES(ofi_net.mu);

/* ---- entries of the table, as provider.h has them ---- */

int fake_ofi_getinfo(uint32_t version, const struct fi_info *hints,
		     struct fi_info **info);
void fake_ofi_freeinfo(struct fi_info *info);
struct fi_info *fake_ofi_dupinfo(const struct fi_info *info);
int fake_ofi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
		    void *context);
int fake_ofi_domain(struct fid_fabric *fabric, struct fi_info *info,
		    struct fid_domain **domain, void *context);
int fake_ofi_getwait(struct fid *fid, int *fd);
int fake_ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
int fake_ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr,
		     struct fid_eq **eq, void *context);
ssize_t fake_ofi_eq_read(struct fid_eq *eq, uint32_t *event, void *buf,
			 size_t len, uint64_t flags);
ssize_t fake_ofi_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf,
			    uint64_t flags);
int fake_ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
		     struct fid_cq **cq, void *context);
ssize_t fake_ofi_cq_read(struct fid_cq *cq, void *buf, size_t count);
ssize_t fake_ofi_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf,
			    uint64_t flags);
const char *fake_ofi_cq_strerror(struct fid_cq *cq, int prov_errno,
				 const void *err_data, char *buf, size_t len);
int fake_ofi_mr_regattr(struct fid_domain *domain,
			const struct fi_mr_attr *attr, uint64_t flags,
			struct fid_mr **mr);
uint64_t fake_ofi_mr_key(struct fid_mr *mr);
void *fake_ofi_mr_desc(struct fid_mr *mr);
int fake_ofi_mr_bind(struct fid_mr *mr, struct fid *bfid, uint64_t flags);
int fake_ofi_mr_enable(struct fid_mr *mr);
int fake_ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr,
		     struct fid_av **av, void *context);
int fake_ofi_av_insert(struct fid_av *av, const void *addr, size_t count,
		       fi_addr_t *fi_addr, uint64_t flags, void *context);
int fake_ofi_av_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count,
		       uint64_t flags);
int fake_ofi_passive_ep(struct fid_fabric *fabric, struct fi_info *info,
			struct fid_pep **pep, void *context);
int fake_ofi_pep_bind(struct fid_pep *pep, struct fid *bfid, uint64_t flags);
int fake_ofi_listen(struct fid_pep *pep);
int fake_ofi_getname(struct fid *fid, void *addr, size_t *addrlen);
int fake_ofi_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);
int fake_ofi_reject(struct fid_pep *pep, struct fid *handle, const void *param,
		    size_t paramlen);
int fake_ofi_endpoint(struct fid_domain *domain, struct fi_info *info,
		      struct fid_ep **ep, void *context);
int fake_ofi_ep_bind(struct fid_ep *ep, struct fid *bfid, uint64_t flags);
int fake_ofi_enable(struct fid_ep *ep);
int fake_ofi_getopt(struct fid_ep *ep, int name, void *value, size_t *len);
int fake_ofi_connect(struct fid_ep *ep, const void *addr, const void *param,
		     size_t paramlen);
int fake_ofi_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int fake_ofi_shutdown(struct fid_ep *ep, uint64_t flags);
ssize_t fake_ofi_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
			 uint64_t flags);
ssize_t fake_ofi_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
			  uint64_t flags);

/* What close() does to each kind of fid; 0 or why not, negative. */
int fake_ofi_domain_close(struct fid *fid);
int fake_ofi_eq_close(struct fid *fid);
int fake_ofi_cq_close(struct fid *fid);
int fake_ofi_mr_close(struct fid *fid);
int fake_ofi_av_close(struct fid *fid);
int fake_ofi_pep_close(struct fid *fid);
int fake_ofi_ep_close(struct fid *fid) TEI_REQUIRES(ofi_net.mu);

#endif
