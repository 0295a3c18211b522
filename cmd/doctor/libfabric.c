/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric.c - the library that EFA and other fabrics are reached by
 *
 * The library is loaded for its version and its providers, which no file tells.
 * The devices are seen in sysfs.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifdef DOCTOR_LIBFABRIC
#include <rdma/fabric.h>
#endif

#include "cmd/doctor/host.h"

#define LIBRARY "libfabric.so.1"
#define AMAZON  0x1d0f
/* Versions as the library tells them. */
#define OLDEST  (1u << 16 | 17) /* that engines use */
#define DMABUFS (1u << 16 | 20) /* that registers memory of GPUs */

#define MATCH_EVENTS "FI_CXI_MR_MATCH_EVENTS"
#define CHECK        "ofi.variables"

static const char *const names[TEI_VARIABLES] = {
	[TEI_FI_PROVIDER] = "FI_PROVIDER",
	[TEI_FI_HMEM] = "FI_HMEM",
	[TEI_FI_MR_CACHE_MAX_COUNT] = "FI_MR_CACHE_MAX_COUNT",
	[TEI_FI_EFA_ENABLE_SHM_TRANSFER] = "FI_EFA_ENABLE_SHM_TRANSFER",
	[TEI_FI_EFA_USE_DEVICE_RDMA] = "FI_EFA_USE_DEVICE_RDMA",
	[TEI_FI_CXI_MR_MATCH_EVENTS] = MATCH_EVENTS,
	[TEI_TE_OFI_PROVIDER] = "TE_OFI_PROVIDER",
};

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
static const struct tei_rule opa = {"ofi.opa",
				    "a backend that uses devices of Omni-Path",
				    "leave verbs in the setting backends"};

static const struct tei_rule filter = {
	CHECK, "no FI_PROVIDER, or one that lets the providers of devices pass",
	"unset FI_PROVIDER, or add the provider to it"};
static const struct tei_rule shm = {
	CHECK, "FI_EFA_ENABLE_SHM_TRANSFER=0 where memory of GPUs goes by EFA",
	"export FI_EFA_ENABLE_SHM_TRANSFER=0: else engines stage such memory "
	"through the host, as the provider would crash on it"};
static const struct tei_rule with_gpus = {
	CHECK, "no FI_HMEM, or one with cuda, where memory of GPUs goes by EFA",
	"unset FI_HMEM, or add cuda to it (system;cuda)"};
static const struct tei_rule without_gpus = {
	CHECK, "FI_HMEM=system where memory of GPUs does not go by EFA",
	"export FI_HMEM=system: else EFA takes some 600 MB of the first GPU"};
static const struct tei_rule rdma = {
	CHECK,
	"no FI_EFA_USE_DEVICE_RDMA=0, so that EFA's devices read and write",
	"unset FI_EFA_USE_DEVICE_RDMA"};
static const struct tei_rule cache = {
	CHECK, "FI_MR_CACHE_MAX_COUNT=0 for libfabric's provider verbs",
	"export FI_MR_CACHE_MAX_COUNT=0: else engines leave the provider "
	"alone, as it keeps keys; better, use the backend verbs"};

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
	void *lib;

	for (int i = 0; i < TEI_VARIABLES; i++) {
		const char *value = getenv(names[i]);

		(void)snprintf(out->variables[i], sizeof(out->variables[i]),
			       "%s", value ? value : "");
	}
	/* For good: its providers may have threads. */
	lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		(void)snprintf(out->libfabric_why, sizeof(out->libfabric_why),
			       "%s", dlerror());
		return;
	}
	*(void **)&version = dlsym(lib, "fi_version");
	if (!version)
		return;
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

static bool is_opa(const struct tei_host *h, const char *dev)
{
	char driver[TEI_HOST_NAME];
	const char *name;

	if (!tei_host_link(h, driver, sizeof(driver),
			   "sys/class/infiniband/%s/device/driver", dev))
		return false;
	name = strrchr(driver, '/');
	return !strcmp(name ? name + 1 : driver, "hfi1");
}

/*
 * Tells whether a list has the word, in any case of letters, as libfabric does.
 * Each byte of @between separates words.
 */
static bool has_word(const char *at, const char *between, const char *word)
{
	size_t n;

	for (at += strspn(at, between); (n = strcspn(at, between));
	     at += n, at += strspn(at, between))
		if (strlen(word) == n && !strncasecmp(at, word, n))
			return true;
	return false;
}

static bool has_provider(const struct tei_probes *p, const char *name)
{
	return has_word(p->providers, " ", name);
}

/* As libfabric reads numbers of truth. */
static bool is_on(const char *value)
{
	return !strcmp(value, "1") || !strcasecmp(value, "yes") ||
	       !strcasecmp(value, "true") || !strcasecmp(value, "on");
}

static bool is_off(const char *value)
{
	return !strcmp(value, "0") || !strcasecmp(value, "no") ||
	       !strcasecmp(value, "false") || !strcasecmp(value, "off");
}

static bool any_gpu(const struct tei_host *h)
{
	struct te_topo_memory m;

	for (uint32_t i = 0; !te_topo_memory(h->topo, i, &m); i++)
		if (m.kind == TE_TOPO_CUDA)
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
	else if (!is_on(p->variables[TEI_FI_CXI_MR_MATCH_EVENTS]))
		tei_report_add(r, TEI_MARK_WARN, &cxi, dev,
			       MATCH_EVENTS " is not 1");
	else
		tei_report_add(
			r, TEI_MARK_OK, &cxi, dev,
			"libfabric has the provider cxi, and " MATCH_EVENTS
			" is set");
}

/* ---- variables of the environment ---- */

/* @bad: what is wrong with the value, NULL: nothing. */
static void judge(const struct tei_host *h, enum tei_variable which,
		  const struct tei_rule *rule, const char *bad,
		  struct tei_report *r)
{
	const char *value = h->probes.variables[which];

	tei_report_add(r, bad ? TEI_MARK_WARN : TEI_MARK_OK, rule, names[which],
		       "%s%s%s", *value ? value : "not set", bad ? ": " : "",
		       bad ? bad : "");
}

/* "efa,tcp" lets these pass, "^efa,tcp" all but these. */
static void check_filter(const struct tei_host *h, const char *provider,
			 struct tei_report *r)
{
	const char *value = h->probes.variables[TEI_FI_PROVIDER];
	bool others = *value == '^';
	char bad[64];

	if (!*value)
		return;
	(void)snprintf(bad, sizeof(bad), "libfabric leaves %s out", provider);
	judge(h, TEI_FI_PROVIDER, &filter,
	      has_word(value + others, ",;", provider) == others ? bad : NULL,
	      r);
}

#define STAGED "memory of GPUs is staged through the host"

/* EFA registers memory of GPUs where the library can and both variables let. */
static void check_gpu_variables(const struct tei_host *h, struct tei_report *r)
{
	const struct tei_probes *p = &h->probes;
	const char *list = p->variables[TEI_FI_HMEM];
	bool can = p->libfabric >= DMABUFS;
	bool does = can && is_off(p->variables[TEI_FI_EFA_ENABLE_SHM_TRANSFER]);

	if (can)
		judge(h, TEI_FI_EFA_ENABLE_SHM_TRANSFER, &shm,
		      does ? NULL : STAGED, r);
	if (does)
		judge(h, TEI_FI_HMEM, &with_gpus,
		      *list && !has_word(list, ";", "cuda") ? STAGED : NULL, r);
	else
		judge(h, TEI_FI_HMEM, &without_gpus,
		      *list ? NULL : "EFA takes memory of the first GPU", r);
}

static void check_efa_variables(const struct tei_host *h, struct tei_report *r)
{
	check_filter(h, "efa", r);
	judge(h, TEI_FI_EFA_USE_DEVICE_RDMA, &rdma,
	      is_off(h->probes.variables[TEI_FI_EFA_USE_DEVICE_RDMA])
		      ? "processors carry the bytes, not the devices"
		      : NULL,
	      r);
	if (any_gpu(h))
		check_gpu_variables(h, r);
}

static void check_variables(const struct tei_host *h, bool has_cxi,
			    struct tei_report *r)
{
	const struct tei_probes *p = &h->probes;

	if (any_efa(h))
		check_efa_variables(h, r);
	if (has_cxi)
		check_filter(h, "cxi", r);
	if (has_word(p->variables[TEI_TE_OFI_PROVIDER], ", ", "verbs"))
		judge(h, TEI_FI_MR_CACHE_MAX_COUNT, &cache,
		      strcmp(p->variables[TEI_FI_MR_CACHE_MAX_COUNT], "0")
			      ? "engines refuse the provider verbs"
			      : NULL,
		      r);
}

/* No provider is missed: what libfabric has for it is not used. */
static void check_opa(const char *dev, struct tei_report *r)
{
	tei_report_add(r, TEI_MARK_OK, &opa, dev,
		       "engines use it by the backend verbs, where processors "
		       "carry the bytes; libfabric's providers opx and psm3 "
		       "are refused");
}

void tei_check_libfabric(const struct tei_host *h, struct tei_report *r)
{
	char dev[TEI_HOST_NAME];
	bool has_cxi = tei_host_entry(h, "sys/class/cxi", 0, dev);
	bool needed = any_efa(h) || has_cxi;
	size_t i;

	if (h->probes.known)
		check_library(h, needed, r);
	for (i = 0; tei_host_entry(h, "sys/class/infiniband", i, dev); i++) {
		if (is_efa(h, dev))
			check_efa(h, dev, r);
		if (is_opa(h, dev))
			check_opa(dev, r);
	}
	for (i = 0; tei_host_entry(h, "sys/class/cxi", i, dev); i++)
		check_cxi(h, dev, r);
	if (h->probes.known)
		check_variables(h, has_cxi, r);
}
