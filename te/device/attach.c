/* SPDX-License-Identifier: Apache-2.0 */
/* attach.c - memory of GPUs that other processes of the host have shared */
#include "te/device/attach.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

struct tei_attached {
	struct tei_list link; /* attached; guarded by mu, as all of it */
	const struct tei_runtime_ops *ops;
	uintptr_t context;
	int gpu; /* whose context it is, where that is 0 */
	uint8_t name[TEI_SHARED_LEN];
	uint64_t addr;
	unsigned int n_users;
	bool broken; /* its context has died: nobody gets it any more */
};

static struct tei_mutex mu = {PTHREAD_MUTEX_INITIALIZER}; /* lock 19 */
static struct tei_list all = {&all, &all};

static struct tei_attached *find(const struct tei_stage *stage,
				 const uint8_t *name) TEI_REQUIRES(mu)
{
	tei_list_for_each (node, &all) {
		struct tei_attached *a =
			tei_list_entry(node, struct tei_attached, link);

		if (!a->broken && a->ops == stage->ops &&
		    a->context == stage->context && a->gpu == stage->gpu &&
		    !memcmp(a->name, name, TEI_SHARED_LEN))
			return a;
	}
	return NULL;
}

static int open_new(struct tei_stage *stage, const uint8_t *name,
		    struct tei_attached **out, char *why) TEI_REQUIRES(mu)
{
	struct tei_attached *a = tei_calloc(1, sizeof(*a));
	int rc = -ENOMEM;

	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "out of memory");
	if (a)
		rc = stage->ops->attach(stage->copier, name, &a->addr, why);
	if (rc) {
		tei_free(a);
		return rc;
	}
	a->ops = stage->ops;
	a->context = stage->context;
	a->gpu = stage->gpu;
	memcpy(a->name, name, TEI_SHARED_LEN);
	tei_list_init(&a->link);
	tei_list_add_tail(&all, &a->link);
	*out = a;
	return 0;
}

int tei_attach(struct tei_stage *stage, const uint8_t name[TEI_SHARED_LEN],
	       struct tei_attached **out, uint64_t *addr,
	       char why[TEI_RUNTIME_WHY_LEN])
{
	struct tei_attached *a;
	int rc = 0;

	tei_mutex_lock(&mu);
	a = find(stage, name);
	if (!a)
		rc = open_new(stage, name, &a, why);
	if (!rc) {
		a->n_users++;
		*out = a;
		*addr = a->addr;
	}
	tei_mutex_unlock(&mu);
	return rc;
}

void tei_detach(struct tei_stage *stage, struct tei_attached *attached)
{
	tei_mutex_lock(&mu);
	attached->broken |= tei_stage_is_broken(stage);
	if (!--attached->n_users) {
		tei_list_del(&attached->link);
		stage->ops->detach(stage->copier, attached->addr);
		tei_free(attached);
	}
	tei_mutex_unlock(&mu);
}
