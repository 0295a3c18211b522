/* SPDX-License-Identifier: Apache-2.0 */
/* faults.c - trouble of the fake libfabric, as tests ask for it */
#include <assert.h>

#include "base/chance.h"
#include "tests/lib/fake_ofi/private.h"

#define BUSY_MAX 16

/* ---- calls that fail ---- */

void fake_ofi_fail(enum fake_ofi_call call, unsigned int nth, int err)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.fail_call = call;
	ofi_net.fail_nth = nth;
	ofi_net.fail_err = err;
	ofi_net.struck = false;
	tei_mutex_unlock(&ofi_net.mu);
}

bool fake_ofi_struck(void)
{
	bool struck;

	tei_mutex_lock(&ofi_net.mu);
	struck = ofi_net.struck;
	tei_mutex_unlock(&ofi_net.mu);
	return struck;
}

static bool is_meant(enum fake_ofi_call call)
{
	if (ofi_net.fail_call != FAKE_OFI_ANY)
		return call == ofi_net.fail_call;
	return call != FAKE_OFI_EQ_READ && call != FAKE_OFI_CQ_READ &&
	       call != FAKE_OFI_CLOSE;
}

int fake_ofi_fails(enum fake_ofi_call call)
{
	ofi_net.counts.calls[call]++;
	ofi_net.counts.calls[FAKE_OFI_ANY]++;
	if (!ofi_net.fail_nth || !is_meant(call) || --ofi_net.fail_nth)
		return 0;
	ofi_net.struck = true;
	return -ofi_net.fail_err;
}

int fake_ofi_check(enum fake_ofi_call call)
{
	int rc;

	tei_mutex_lock(&ofi_net.mu);
	rc = fake_ofi_fails(call);
	tei_mutex_unlock(&ofi_net.mu);
	return rc;
}

/* ---- chances ---- */

void fake_ofi_set_chances(const struct fake_ofi_chances *c)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.chances = c ? *c : (struct fake_ofi_chances){0};
	if (!c)
		ofi_net.n_busy = 0;
	tei_mutex_unlock(&ofi_net.mu);
}

bool fake_ofi_happens(unsigned int per_million)
{
	return per_million &&
	       tei_chance(&ofi_net.chances.seed) % 1000000 < per_million;
}

void fake_ofi_spoil(unsigned int nth, int err)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.spoil_nth = nth;
	ofi_net.spoil_err = err;
	tei_mutex_unlock(&ofi_net.mu);
}

int fake_ofi_spoils(void)
{
	/* Errors of requests, of peers, of the way, and one that is none. */
	static const int some[] = {
		FI_EIO,       FI_EACCES,       FI_EFAULT,    FI_EMSGSIZE,
		FI_ETIMEDOUT, FI_EHOSTUNREACH, FI_EREMOTEIO, FI_ECONNRESET,
		FI_ENOKEY,    FI_ETRUNC,       FI_EOTHER,    FI_ECANCELED,
		FI_EINVAL,    FI_ENOTCONN,     FI_ERRNO_MAX, -1,
	};

	if (ofi_net.spoil_nth && !--ofi_net.spoil_nth)
		return ofi_net.spoil_err;
	if (!fake_ofi_happens(ofi_net.chances.spoil))
		return 0;
	return some[tei_chance(&ofi_net.chances.seed) %
		    (sizeof(some) / sizeof(some[0]))];
}

void fake_ofi_be_busy(unsigned int n)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.n_busy = n;
	tei_mutex_unlock(&ofi_net.mu);
}

bool fake_ofi_is_busy(void)
{
	if (!ofi_net.n_busy && fake_ofi_happens(ofi_net.chances.busy))
		ofi_net.n_busy =
			1 + (unsigned)(tei_chance(&ofi_net.chances.seed) %
				       BUSY_MAX);
	if (!ofi_net.n_busy)
		return false;
	ofi_net.n_busy--;
	ofi_net.counts.busy++;
	return true;
}

/* ---- devices and peers ---- */

void fake_ofi_hang(unsigned int device, bool on)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.devices[device].hangs = on;
	tei_mutex_unlock(&ofi_net.mu);
}

void fake_ofi_silence(unsigned int device, bool on)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.devices[device].silent = on;
	ofi_net.devices[device].looks = 0;
	tei_mutex_unlock(&ofi_net.mu);
}

void fake_ofi_lose(unsigned int device, unsigned int looks)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.devices[device].silent = true;
	ofi_net.devices[device].looks = looks;
	tei_mutex_unlock(&ofi_net.mu);
}

void fake_ofi_fail_aside(unsigned int device, int err, int code)
{
	tei_mutex_lock(&ofi_net.mu);
	for (uint32_t i = 0; i < FAKE_OFI_EPS_MAX; i++) {
		struct fake_ofi_ep *ep = ofi_net.eps[i];

		if (ep && ep->eq &&
		    ep->domain->device == &ofi_net.devices[device])
			fake_ofi_tell(ep->eq, FI_NOTIFY, NULL, err)->code =
				code;
	}
	tei_mutex_unlock(&ofi_net.mu);
}

void fake_ofi_tell_of_write(unsigned int device, void *context)
{
	const struct fake_ofi_done done = {.context = context,
					   .flags = FI_RMA | FI_REMOTE_WRITE |
						    FI_REMOTE_CQ_DATA};

	tei_mutex_lock(&ofi_net.mu);
	for (uint32_t i = 0; i < FAKE_OFI_EPS_MAX; i++) {
		struct fake_ofi_ep *ep = ofi_net.eps[i];

		if (ep && ep->cq &&
		    ep->domain->device == &ofi_net.devices[device])
			fake_ofi_cq_add(ep->cq, &done);
	}
	tei_mutex_unlock(&ofi_net.mu);
}

void fake_ofi_refuse_memory(unsigned int device, int err)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.devices[device].refuses_memory = err;
	tei_mutex_unlock(&ofi_net.mu);
}

void fake_ofi_translate(void *(*translate)(uint64_t addr))
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.translate = translate;
	tei_mutex_unlock(&ofi_net.mu);
}

void fake_ofi_refuse_dmabufs(int err)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.refuse_dmabufs = err;
	tei_mutex_unlock(&ofi_net.mu);
}

void fake_ofi_keep_dmabufs(bool on)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.keep_dmabufs = on;
	tei_mutex_unlock(&ofi_net.mu);
}

void fake_ofi_refuse_closes(int err)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.refuse_closes = err;
	tei_mutex_unlock(&ofi_net.mu);
}

void fake_ofi_refuse_key_closes(int err)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.refuse_key_closes = err;
	tei_mutex_unlock(&ofi_net.mu);
}

void fake_ofi_reset_all(void)
{
	tei_mutex_lock(&ofi_net.mu);
	for (uint32_t i = 0; i < FAKE_OFI_EPS_MAX; i++) {
		struct fake_ofi_ep *ep = ofi_net.eps[i];

		if (ep && ep->state == FAKE_OFI_CONNECTED)
			fake_ofi_break(ep, FI_ECONNRESET);
	}
	tei_mutex_unlock(&ofi_net.mu);
}
