/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.c - what is known of libfabric's providers */
#include "backends/ofi/kinds.h"

#include <stddef.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#define DRIVERS "/sys/bus/pci/drivers/"
#define LAYERED "is a layer over other providers and breaks with its peers"

/* Statuses of EFA's devices and provider; libfabric says FI_EIO of all. */
enum efa_status {
	EFA_BAD_ADDRESS = 7,   /* the peer refuses key, range or right */
	EFA_ABORTED = 8,       /* the peer's endpoint is reset */
	EFA_BAD_QUEUE = 9,     /* the peer's endpoint is closed */
	EFA_NOT_READY = 10,    /* the peer takes no messages */
	EFA_UNRESPONSIVE = 13, /* the peer has answered before */
	EFA_UNKNOWN_PEER = 14, /* the peer does not have our address */
	EFA_UNREACHABLE = 15,  /* nobody has answered yet */
	/* The provider's own begin here. */
	EFA_REFUSED_ADDRESS = 4111,
	EFA_RECEIVER_UNRESPONSIVE = 4124,
	EFA_HANDSHAKE_UNRESPONSIVE = 4126,
};

static int efa_error(int code)
{
	switch (code) {
	case EFA_BAD_ADDRESS:
	case EFA_REFUSED_ADDRESS:
		return FI_EACCES;
	case EFA_ABORTED:
	case EFA_BAD_QUEUE:
	case EFA_UNKNOWN_PEER:
		return FI_ECONNRESET;
	case EFA_NOT_READY:
	case EFA_UNRESPONSIVE:
	case EFA_RECEIVER_UNRESPONSIVE:
	case EFA_HANDSHAKE_UNRESPONSIVE:
		return FI_ETIMEDOUT;
	case EFA_UNREACHABLE:
		return FI_EHOSTUNREACH;
	default:
		return 0;
	}
}

/* Answers of Slingshot's NICs; its provider says FI_EIO of nearly all. */
enum cxi_status {
	CXI_UNDELIVERABLE = 2,
	CXI_NO_TABLE = 3, /* the peer's endpoint is disabled */
	CXI_BAD_RIGHT = 5,
	CXI_BAD_OPERATION = 6,
	CXI_NO_MATCH = 8,
	CXI_NO_ENTRY = 18, /* no such key */
	CXI_NO_NETWORK = 25,
	CXI_NO_ENDPOINT = 26, /* that is closed */
};

static int cxi_error(int code)
{
	switch (code) {
	case CXI_BAD_RIGHT:
	case CXI_BAD_OPERATION:
	case CXI_NO_MATCH:
	case CXI_NO_ENTRY:
		return FI_EACCES;
	case CXI_NO_TABLE:
	case CXI_NO_ENDPOINT:
		return FI_ECONNRESET;
	case CXI_UNDELIVERABLE:
	case CXI_NO_NETWORK:
		return FI_EHOSTUNREACH;
	default:
		return 0;
	}
}

/* Statuses of libibverbs, for all of which libfabric says FI_EIO. */
enum verbs_status {
	VERBS_TOO_LONG = 1,
	VERBS_NOT_REGISTERED = 4, /* or not any more; local memory */
	VERBS_NO_RIGHT = 8,       /* the same memory */
	VERBS_REFUSED = 9,
	VERBS_BAD_KEY = 10, /* the peer refuses key, range or right */
	VERBS_CANNOT = 11,  /* the peer's device cannot do it */
	VERBS_UNRESPONSIVE = 12,
	VERBS_NOT_READY = 13, /* the peer does not receive */
	VERBS_LATE = 20,
};

static int verbs_error(int code)
{
	switch (code) {
	case VERBS_TOO_LONG:
		return FI_EMSGSIZE;
	case VERBS_NOT_REGISTERED:
	case VERBS_NO_RIGHT:
		return FI_EFAULT;
	case VERBS_BAD_KEY:
		return FI_EACCES;
	case VERBS_REFUSED:
	case VERBS_CANNOT:
	case VERBS_NOT_READY:
		return FI_EREMOTEIO;
	case VERBS_UNRESPONSIVE:
	case VERBS_LATE:
		return FI_ETIMEDOUT;
	default:
		return 0;
	}
}

static const struct ofi_kind kinds[] = {
	{"efa", .rdm = true, .fabric = "efa", .emulates = true, .waits = true,
	 .pieces = 1, .receives = 256, .caps = FI_REMOTE_COMM,
	 .driver = DRIVERS "efa", .error_of = efa_error,
	 .gpus_without = "FI_EFA_ENABLE_SHM_TRANSFER",
	 .gpus_why = "its provider would copy such memory on this host by the "
		     "processor, and crash"},
	{"cxi", .rdm = true, .bound = true, .driver = "/sys/class/cxi",
	 .error_of = cxi_error, .variable = "FI_CXI_MR_MATCH_EVENTS",
	 .without = "lets peers reach memory whose key has ended, unless the "
		    "environment has FI_CXI_MR_MATCH_EVENTS=1"},
	{"opx", .why = "checks neither range nor rights of what peers ask for, "
		       "and crashes when they read with a key that has ended"},
	{"psm3", .why = "ends the process if a peer does not answer or writes "
			"to an endpoint that is closed"},
	{"verbs", .error_of = verbs_error},
	{"tcp", .software = true},
	{"net", .renamed = "tcp", .software = true, .rdm = true},
	{"shm", .why = "tells nothing of a dead peer; the backend shm does"},
	{"sockets", .why = "is deprecated and loses completions"},
	{"udp", .why = "cannot read or write a peer's memory"},
	{"ofi_rxm", .why = LAYERED},
	{"ofi_rxd", .why = LAYERED},
};

const struct ofi_kind *tei_ofi_kind_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strlen(kinds[i].name) == len &&
		    !strncmp(kinds[i].name, name, len))
			return &kinds[i];
	}
	return NULL;
}

const char *tei_ofi_kind_called(const struct ofi_kind *kind, uint32_t version)
{
	return kind->renamed && FI_VERSION_GE(version, FI_VERSION(1, 18))
		       ? kind->renamed
		       : kind->name;
}
