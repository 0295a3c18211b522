/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric.c - the library that EFA and other fabrics are reached by
 *
 * It is loaded for its version and its providers, which no file tells. The
 * devices are seen in sysfs.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#ifdef DOCTOR_LIBFABRIC
#include <rdma/fabric.h>
#endif

#include "cmd/doctor/host.h"

#define LIBRARY "libfabric.so.1"
#define AMAZON  0x1d0f
#define OLDEST  (1u << 16 | 17) /* as the library tells it: 1.17 */

#define MATCH_EVENTS "FI_CXI_MR_MATCH_EVENTS"

static const struct tei_rule library = {
	"ofi.library", "libfabric 1.17 or newer, where a device needs it",
	"AWS: the EFA installer, and /opt/amazon/efa/lib in LD_LIBRARY_PATH or "
	"/etc/ld.so.conf.d; else the package libfabric1"};
static const struct tei_rule efa = {
	"ofi.efa", "libfabric's provider efa",
	"the EFA installer of AWS; EFA also needs a security group that lets "
	"all traffic from and to itself pass"};
static const struct tei_rule cxi = {
	"ofi.cxi",
	"libfabric's provider cxi, and FI_CXI_MR_MATCH_EVENTS=1 for engines",
	"libfabric of the Slingshot host software; FI_CXI_MR_MATCH_EVENTS=1 in "
	"the environment: else engines leave the device alone, as peers could "
	"reach memory that has been given back"};

/* ---- asked of the library ---- */

#ifdef DOCTOR_LIBFABRIC

static void add_provider(struct tei_probes *out, const char *name)
{
	size_t used = strlen(out->providers);

	/* Layers over others, "ofi_rxm", reach nothing by themselves. */
	if (!name || strchr(name, ';') || !strncmp(name, "ofi_", 4))
		return;
	(void)snprintf(out->providers + used, sizeof(out->providers) - used,
		       "%s%s", used ? " " : "", name);
}

static void list_providers(void *lib, struct tei_probes *out)
{
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t,
		       const struct fi_info *, struct fi_info **);
	void (*freeinfo)(struct fi_info *);
	struct fi_info *list = NULL;

	*(void **)&getinfo = dlsym(lib, "fi_getinfo");
	*(void **)&freeinfo = dlsym(lib, "fi_freeinfo");
	if (!getinfo || !freeinfo ||
	    getinfo(FI_VERSION(1, 17), NULL, NULL, FI_PROV_ATTR_ONLY, NULL,
		    &list))
		return;
	for (const struct fi_info *at = list; at; at = at->next)
		add_provider(out, at->fabric_attr->prov_name);
	freeinfo(list);
}

#else

static void list_providers(void *lib, struct tei_probes *out)
{
	(void)lib;
	(void)out;
}

#endif

void tei_probe_libfabric(struct tei_probes *out)
{
	uint32_t (*version)(void);
	/* For good: its providers may have threads. */
	void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const char *waits;

	if (!lib) {
		(void)snprintf(out->libfabric_why, sizeof(out->libfabric_why),
			       "%s", dlerror());
		return;
	}
	*(void **)&version = dlsym(lib, "fi_version");
	if (!version)
		return;
	waits = getenv(MATCH_EVENTS);
	out->cxi_waits = waits && !strcmp(waits, "1");
	/* Or else EFA's provider takes memory of the first GPU. */
	(void)setenv("FI_HMEM", "system", 0);
	out->libfabric = version();
	list_providers(lib, out);
}

/* ---- judged ---- */

static bool is_efa(const struct tei_host *h, const char *dev)
{
	return tei_host_number(h, 0, "sys/class/infiniband/%s/device/vendor",
			       dev) == AMAZON;
}

static bool any_efa(const struct tei_host *h)
{
	char dev[TEI_HOST_NAME];
	size_t i;

	for (i = 0; tei_host_entry(h, "sys/class/infiniband", i, dev); i++)
		if (is_efa(h, dev))
			return true;
	return false;
}

static bool has_provider(const struct tei_probes *p, const char *name)
{
	const char *at = p->providers;
	size_t n;

	for (; (n = strcspn(at, " ")); at += n + (at[n] == ' '))
		if (strlen(name) == n && !strncmp(at, name, n))
			return true;
	return false;
}

static void check_library(const struct tei_host *h, bool needed,
			  struct tei_report *r)
{
	const struct tei_probes *p = &h->probes;
	enum tei_mark bad = needed ? TEI_MARK_FAIL : TEI_MARK_OK;

	if (!p->libfabric) {
		tei_report_add(r, bad, &library, "", "%s%s",
			       *p->libfabric_why ? p->libfabric_why
						 : LIBRARY " has no version",
			       needed ? "" : ", and no device needs it");
		return;
	}
	tei_report_add(r, p->libfabric < OLDEST ? bad : TEI_MARK_OK, &library,
		       "", "libfabric %u.%u%s%s", p->libfabric >> 16,
		       p->libfabric & 0xffff,
		       *p->providers ? ", providers " : "", p->providers);
}

static void check_efa(const struct tei_host *h, const char *dev,
		      struct tei_report *r)
{
	const struct tei_probes *p = &h->probes;

	if (!p->known || !*p->providers)
		tei_report_add(r, TEI_MARK_UNKNOWN, &efa, dev,
			       "nothing is known of libfabric's providers");
	else if (!has_provider(p, "efa"))
		tei_report_add(r, TEI_MARK_WARN, &efa, dev,
			       "libfabric has no provider efa");
	else
		tei_report_add(r, TEI_MARK_OK, &efa, dev,
			       "libfabric has the provider efa; no file tells "
			       "whether the security group lets all traffic "
			       "from and to itself pass");
}

static void check_cxi(const struct tei_host *h, const char *dev,
		      struct tei_report *r)
{
	const struct tei_probes *p = &h->probes;

	if (!p->known || !*p->providers)
		tei_report_add(r, TEI_MARK_UNKNOWN, &cxi, dev,
			       "nothing is known of libfabric's providers");
	else if (!has_provider(p, "cxi"))
		tei_report_add(r, TEI_MARK_WARN, &cxi, dev,
			       "libfabric has no provider cxi");
	else if (!p->cxi_waits)
		tei_report_add(r, TEI_MARK_WARN, &cxi, dev,
			       MATCH_EVENTS " is not set to 1");
	else
		tei_report_add(
			r, TEI_MARK_OK, &cxi, dev,
			"libfabric has the provider cxi, and " MATCH_EVENTS
			" is set");
}

void tei_check_libfabric(const struct tei_host *h, struct tei_report *r)
{
	char dev[TEI_HOST_NAME];
	size_t i;

	bool needed = any_efa(h) || tei_host_entry(h, "sys/class/cxi", 0, dev);

	if (h->probes.known)
		check_library(h, needed, r);
	for (i = 0; tei_host_entry(h, "sys/class/infiniband", i, dev); i++)
		if (is_efa(h, dev))
			check_efa(h, dev, r);
	for (i = 0; tei_host_entry(h, "sys/class/cxi", i, dev); i++)
		check_cxi(h, dev, r);
}
