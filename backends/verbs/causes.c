/* SPDX-License-Identifier: Apache-2.0 */
/*
 * causes.c - one row per status of a work completion
 *
 * An endpoint that goes down with -ESTALE says nothing about the way it used:
 * the core opens another at once. Any error breaks the queue pair, also that of
 * a request which was wrong in itself.
 */
#include "backends/verbs/causes.h"

#include <errno.h>
#include <stddef.h>

#define ROW(status_, slice_, endpoint_, fault_, text_) \
	[IBV_WC_##status_] = {(slice_), (endpoint_), (fault_), (text_)}

#define NONE    VERBS_FAULT_NONE
#define REQUEST VERBS_FAULT_REQUEST
#define DEVICE  VERBS_FAULT_DEVICE
#define PATH    VERBS_FAULT_PATH
#define PEER    VERBS_FAULT_PEER

static const struct verbs_cause causes[] = {
	ROW(SUCCESS, 0, 0, NONE, "success"),
	ROW(LOC_LEN_ERR, -EMSGSIZE, -ESTALE, REQUEST,
	    "longer than the port allows"),
	ROW(LOC_QP_OP_ERR, -EIO, -EIO, DEVICE,
	    "the device cannot do this work request"),
	ROW(LOC_EEC_OP_ERR, -EIO, -EIO, DEVICE,
	    "end-to-end context of the device failed"),
	ROW(LOC_PROT_ERR, -EFAULT, -ESTALE, REQUEST,
	    "local memory is not registered (any more)"),
	ROW(WR_FLUSH_ERR, -ECONNRESET, -ECONNRESET, NONE,
	    "flushed: its queue pair is in error"),
	ROW(MW_BIND_ERR, -EIO, -EIO, DEVICE, "memory window not bound"),
	ROW(BAD_RESP_ERR, -EPROTO, -EPROTO, PATH,
	    "an answer that fits no request"),
	ROW(LOC_ACCESS_ERR, -EFAULT, -ESTALE, REQUEST,
	    "local memory may not be written"),
	ROW(REM_INV_REQ_ERR, -EREMOTEIO, -EREMOTEIO, PEER,
	    "the peer's device refused the request"),
	ROW(REM_ACCESS_ERR, -EACCES, -ESTALE, REQUEST,
	    "the peer's device refused key, range or access"),
	ROW(REM_OP_ERR, -EREMOTEIO, -EREMOTEIO, PEER,
	    "the peer's device could not do it"),
	ROW(RETRY_EXC_ERR, -ETIMEDOUT, -ETIMEDOUT, PATH,
	    "no acknowledgement: link or peer is gone"),
	ROW(RNR_RETRY_EXC_ERR, -EREMOTEIO, -EREMOTEIO, PEER,
	    "the peer was never ready to receive"),
	ROW(LOC_RDD_VIOL_ERR, -EIO, -EIO, DEVICE,
	    "reliable datagram domain violated"),
	ROW(REM_INV_RD_REQ_ERR, -EREMOTEIO, -EREMOTEIO, PEER,
	    "the peer refused a reliable datagram"),
	ROW(REM_ABORT_ERR, -EREMOTEIO, -EREMOTEIO, PEER,
	    "the peer's device aborted it"),
	ROW(INV_EECN_ERR, -EIO, -EIO, DEVICE, "no such end-to-end context"),
	ROW(INV_EEC_STATE_ERR, -EIO, -EIO, DEVICE,
	    "end-to-end context in a wrong state"),
	ROW(FATAL_ERR, -EIO, -EIO, DEVICE, "fatal error of the device"),
	ROW(RESP_TIMEOUT_ERR, -ETIMEDOUT, -ETIMEDOUT, PATH,
	    "no answer in time"),
	ROW(GENERAL_ERR, -EIO, -EIO, DEVICE, "error of the device"),
	ROW(TM_ERR, -EIO, -EIO, DEVICE, "tag matching failed"),
	ROW(TM_RNDV_INCOMPLETE, -EIO, -EIO, DEVICE,
	    "tag matching did not complete"),
};

static const struct verbs_cause unknown = {-EIO, -EIO, DEVICE,
					   "unknown status"};

const struct verbs_cause *tei_verbs_cause(enum ibv_wc_status status)
{
	size_t place = (size_t)status;

	if (place >= sizeof(causes) / sizeof(causes[0]) || !causes[place].text)
		return &unknown;
	return &causes[place];
}

const char *tei_verbs_fault_name(enum verbs_fault fault)
{
	switch (fault) {
	case NONE:
		return "none";
	case REQUEST:
		return "request";
	case DEVICE:
		return "device";
	case PATH:
		return "path";
	case PEER:
		return "peer";
	}
	return "unknown";
}
