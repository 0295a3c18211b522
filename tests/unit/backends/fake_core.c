/* SPDX-License-Identifier: Apache-2.0 */
/* fake_core.c - just enough of an engine's core to drive a backend alone */
#include "tests/unit/backends/fake_core.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <te/te.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/mem.h"

#define REGIONS_MAX 64

struct fake_region {
	uint8_t *addr;
	uint64_t length;
	uint32_t access;
	bool there;
};

static struct fake_region regions[REGIONS_MAX];
static unsigned int n_held;

uint64_t fake_epoch = 1;
size_t fake_key_len = sizeof(uint64_t);
unsigned int fake_n_pins;
const char *fake_device = "0";
unsigned int fake_n_doubts;
void (*fake_on_pin)(unsigned int n);
unsigned int fake_copies;
uint64_t fake_copy_room = UINT64_MAX;
bool fake_copy_fails;
uint64_t fake_chunk_len;
unsigned int fake_exports_left = UINT32_MAX;
unsigned int fake_n_windows;
const struct tei_gpu_memory *fake_gpu_memory;

/* ---- the core's side of te/backend.h ---- */

int tei_region_share(struct tei_engine_core *core, uint64_t id,
		     struct tei_gpu_shared *out)
{
	const struct fake_region *r = &regions[id - 1];

	(void)core;
	if (!fake_chunk_len)
		return -ENOENT; /* all is the host's */
	*out = (struct tei_gpu_shared){.base = (uintptr_t)r->addr,
				       .length = r->length,
				       .chunked = true};
	return 0;
}

int tei_region_share_chunk(struct tei_engine_core *core, uint64_t id,
			   uint64_t addr, uint64_t *length, int *fd)
{
	(void)core;
	if ((addr - (uintptr_t)regions[id - 1].addr) % fake_chunk_len ||
	    !fake_exports_left)
		return -EOPNOTSUPP;
	fake_exports_left--;
	*length = fake_chunk_len;
	*fd = memfd_create("chunk", MFD_CLOEXEC);
	return *fd < 0 ? -EOPNOTSUPP : 0;
}

/* Stands behind struct tei_gpu_window, which is opaque to a backend. */
struct fake_window {
	uint64_t length, mapped;
};

int tei_gpu_window_reserve(struct tei_engine_core *core, const void *local,
			   uint64_t length, struct tei_gpu_window **out)
{
	struct fake_window *window = tei_calloc(1, sizeof(*window));

	(void)core;
	(void)local;
	if (!window)
		return -ENOMEM;
	window->length = length;
	fake_n_windows++;
	*out = (struct tei_gpu_window *)(void *)window;
	return 0;
}

int tei_gpu_window_add(struct tei_gpu_window *opaque, uint64_t length, int fd)
{
	struct fake_window *window = (struct fake_window *)(void *)opaque;

	assert(fcntl(fd, F_GETFD) >= 0);
	assert(length && length <= window->length - window->mapped);
	window->mapped += length;
	return 0;
}

void tei_gpu_window_close(struct tei_gpu_window *window)
{
	fake_n_windows--;
	tei_free(window);
}

int tei_gpu_window_open(struct tei_engine_core *core, const void *local,
			const uint8_t *name, uint64_t base,
			struct tei_gpu_window **out)
{
	(void)core;
	(void)local;
	(void)name;
	(void)base;
	(void)out;
	return -EOPNOTSUPP;
}

struct tei_gpu_burst *tei_gpu_burst_new(struct tei_engine_core *core)
{
	(void)core;
	return NULL;
}

void tei_gpu_burst_free(struct tei_gpu_burst *burst)
{
	(void)burst;
}

int tei_gpu_burst_add(struct tei_gpu_burst *burst,
		      const struct tei_gpu_window *window, uint64_t offset,
		      void *local, uint64_t *length, bool write)
{
	(void)burst;
	(void)window;
	(void)offset;
	(void)local;
	(void)length;
	(void)write;
	return -EFAULT;
}

void tei_gpu_burst_begin(struct tei_gpu_burst *burst,
			 void (*done)(void *arg, int err), void *arg)
{
	(void)burst;
	(void)done;
	(void)arg;
}

int tei_region_gpu(struct tei_engine_core *core, uint64_t id, uint64_t addr,
		   struct tei_gpu_memory *out)
{
	const struct tei_gpu_memory *memory = fake_gpu_memory;

	(void)core;
	(void)id;
	if (!memory || addr - memory->addr >= memory->length)
		return -ENOENT;
	*out = *memory;
	return 0;
}

uint32_t fake_spread_n = 1;

uint32_t tei_region_spread(const struct tei_rail *rail, uint64_t id,
			   uint32_t *n)
{
	(void)id;
	*n = fake_spread_n;
	return rail->index % fake_spread_n;
}

static const int errors[] = {
	[TEI_STATUS_OK] = 0,
	[TEI_STATUS_ACCESS] = EACCES,
	[TEI_STATUS_RANGE] = EFAULT,
	[TEI_STATUS_STALE] = ESTALE,
	[TEI_STATUS_BAD] = EBADMSG,
	[TEI_STATUS_NO_MEMORY] = ENOMEM,
	[TEI_STATUS_BUSY] = EAGAIN,
	[TEI_STATUS_CANCELED] = ECANCELED,
	[TEI_STATUS_UNSUPPORTED] = EOPNOTSUPP,
	[TEI_STATUS_VERSION] = EPROTO,
	[TEI_STATUS_INTERNAL] = EIO,
};

int tei_status_to_errno(uint32_t status)
{
	return status <= TEI_STATUS_INTERNAL ? -errors[status] : -EIO;
}

uint32_t tei_status_from_errno(int error)
{
	for (uint32_t i = 0; i <= TEI_STATUS_INTERNAL; i++) {
		if (errors[i] == (error < 0 ? -error : error))
			return i;
	}
	return TEI_STATUS_INTERNAL;
}

int tei_region_pin(struct tei_endpoint *ep, const void *key, size_t key_len,
		   uint64_t address, uint64_t length, uint32_t access,
		   void **local, uint64_t *pin)
{
	struct fake_region *r;
	uint64_t id;

	assert(ep->target && length);
	if (ep->epoch != fake_epoch)
		return -ESTALE;
	if (key_len != fake_key_len)
		return -EFAULT;
	memcpy(&id, key, sizeof(id));
	if (id < 1 || id > REGIONS_MAX || !regions[id - 1].there)
		return -EFAULT;
	r = &regions[id - 1];
	if (address < (uintptr_t)r->addr || length > r->length ||
	    address - (uintptr_t)r->addr > r->length - length)
		return -EFAULT;
	if (!(r->access & access))
		return -EACCES;
	if (fake_on_pin)
		fake_on_pin(fake_n_pins);
	fake_n_pins++;
	n_held++;
	*local = (void *)(uintptr_t)address;
	*pin = id;
	return fake_copies ? TEI_PIN_COPIED : 0;
}

bool tei_region_any_copied(const struct tei_endpoint *ep)
{
	assert(ep->target);
	return fake_copies;
}

void tei_region_unpin(struct tei_endpoint *ep, uint64_t pin)
{
	assert(ep->target && pin && n_held);
	n_held--;
}

void tei_region_doubt(struct tei_endpoint *ep, uint64_t pin)
{
	assert(ep->target && pin && n_held);
	fake_n_doubts++;
}

/* ---- copies of a GPU's memory ---- */

struct fake_copy {
	struct tei_region_copy base;
	struct tei_list link; /* copies, once it has begun */
	struct tei_endpoint *ep;
	uint8_t *local;
	uint64_t taken;
	bool write, pinned;
};

static struct tei_list copies = {&copies, &copies};
static unsigned int n_copies;

static struct fake_copy *fake_copy_of(struct tei_region_copy *copy)
{
	return TEI_CONTAINER(copy, struct fake_copy, base);
}

unsigned int fake_copies_begun(void)
{
	return n_copies;
}

int tei_region_copy_open(struct tei_endpoint *ep, uint64_t pin, void *local,
			 uint64_t length, bool write,
			 struct tei_region_copy **out)
{
	struct fake_copy *c;

	assert(ep->target && pin && n_held);
	assert(length && length <= TEI_REGION_COPY_MAX);
	if (!fake_copy_room)
		return -EAGAIN;
	if (length > fake_copy_room)
		length = fake_copy_room;
	c = tei_calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->base.memory = tei_malloc(length);
	if (!c->base.memory) {
		tei_free(c);
		return -ENOMEM;
	}
	fake_copy_room -= length;
	c->base.length = c->taken = length;
	c->ep = ep;
	c->local = local;
	c->write = write;
	c->pinned = true;
	n_held++;
	*out = &c->base;
	return 0;
}

void tei_region_copy_begin(struct tei_region_copy *copy, uint64_t length)
{
	struct fake_copy *c = fake_copy_of(copy);

	assert(length && length <= copy->length && c->pinned);
	copy->length = length;
	tei_list_add_tail(&copies, &c->link);
	n_copies++;
}

static void unpin_copy(struct fake_copy *c)
{
	if (c->pinned)
		tei_region_unpin(c->ep, 1);
	c->pinned = false;
}

void tei_region_copy_end(struct tei_region_copy *copy)
{
	struct fake_copy *c = fake_copy_of(copy);

	unpin_copy(c);
	fake_copy_room += c->taken;
	tei_free(copy->memory);
	tei_free(c);
}

static void end_copy(struct fake_copy *c)
{
	int err = fake_copy_fails ? -EIO : 0;

	fake_copy_fails = false;
	n_copies--;
	if (!err && c->write)
		memcpy(c->local, c->base.memory, c->base.length);
	else if (!err)
		memcpy(c->base.memory, c->local, c->base.length);
	unpin_copy(c);
	c->base.done(&c->base, err);
}

static void end_copies(void)
{
	struct tei_list *node;

	for (unsigned int i = 0; i < fake_copies; i++) {
		node = tei_list_pop(&copies);
		if (!node)
			return;
		end_copy(tei_list_entry(node, struct fake_copy, link));
	}
}

void tei_slice_done(struct tei_slice *slice, int err, uint64_t bytes)
{
	struct fake_slice *s = (struct fake_slice *)(void *)slice->work;

	s->n_done++;
	s->err = err;
	s->bytes = bytes;
}

/* To a backend it is opaque. */
static struct fake_link *link_of(const struct tei_endpoint *ep)
{
	return (struct fake_link *)(void *)ep->link;
}

void tei_endpoint_moved(struct tei_endpoint *ep)
{
	link_of(ep)->n_moved++;
}

void tei_endpoint_up(struct tei_endpoint *ep)
{
	link_of(ep)->n_up++;
}

void tei_endpoint_down(struct tei_endpoint *ep, int err)
{
	link_of(ep)->n_down++;
	link_of(ep)->down_err = err;
}

void tei_endpoint_flushed(struct tei_endpoint *ep)
{
	link_of(ep)->n_flushed++;
}

unsigned int fake_n_downs;

void tei_rail_changed(struct tei_rail *rail, bool up)
{
	(void)rail;
	fake_n_downs += !up;
}

struct tei_device fake_renewed;

void tei_rail_renewed(struct tei_rail *rail, const struct tei_device *device)
{
	(void)rail;
	fake_renewed = *device;
}

/* ---- regions ---- */

uint64_t fake_region_add(void *addr, uint64_t length, uint32_t access)
{
	for (uint64_t i = 0; i < REGIONS_MAX; i++) {
		if (regions[i].there)
			continue;
		regions[i] = (struct fake_region){addr, length, access, true};
		return i + 1;
	}
	return 0;
}

void fake_region_remove(uint64_t id)
{
	regions[id - 1].there = false;
}

unsigned int fake_pins(void)
{
	return n_held;
}

/* ---- rails and endpoints ---- */

static int set_all(struct tei_conf *conf, const char *const settings[])
{
	char error[TEI_CONF_ERROR_LEN], name[64];
	const char *value;
	int rc = 0;

	for (; settings && *settings && !rc; settings++) {
		value = strchr(*settings, '=');
		assert(value && (size_t)(value - *settings) < sizeof(name));
		memcpy(name, *settings, (size_t)(value - *settings));
		name[value - *settings] = 0;
		rc = tei_conf_set(conf, name, value + 1, error);
	}
	return rc;
}

int fake_rail_open(struct fake_rail *r, const struct tei_backend_ops *ops,
		   const char *const settings[])
{
	void *values;
	int rc = -ENOMEM;

	values = tei_calloc(1, ops->config_size + 1);
	if (!values)
		return rc;
	r->conf = (struct tei_conf){0};
	rc = tei_conf_init(&r->conf, ops->settings, ops->n_settings, values);
	if (rc < 0)
		goto free_values;
	rc = set_all(&r->conf, settings);
	if (rc < 0)
		goto fini_conf;
	rc = -ENOMEM;
	r->rail = tei_calloc(1, sizeof(*r->rail) + ops->rail_size);
	if (!r->rail)
		goto fini_conf;
	r->rail->ops = ops;
	r->rail->config = values;
	r->rail->bind = "127.0.0.1";
	(void)snprintf(r->rail->device.name, sizeof(r->rail->device.name), "%s",
		       fake_device);
	rc = ops->rail_open(r->rail);
	if (rc < 0)
		goto free_rail;
	return 0;

free_rail:
	tei_free(r->rail);
	r->rail = NULL;
fini_conf:
	tei_conf_fini(&r->conf);
free_values:
	tei_free(values);
	return rc;
}

void fake_rail_close(struct fake_rail *r)
{
	void *values = (void *)(uintptr_t)r->rail->config;

	r->rail->ops->rail_close(r->rail);
	tei_conf_fini(&r->conf);
	tei_free(values);
	tei_free(r->rail);
	r->rail = NULL;
}

struct tei_endpoint *fake_endpoint(struct fake_rail *r, struct fake_link *link,
				   bool target, uint64_t epoch)
{
	struct sockaddr_in *in;
	struct tei_endpoint *ep;

	ep = tei_calloc(1, sizeof(*ep) + r->rail->ops->endpoint_size);
	if (!ep)
		return NULL;
	*link = (struct fake_link){0};
	ep->rail = r->rail;
	ep->link = (struct tei_link *)(void *)link;
	ep->target = target;
	ep->epoch = epoch;
	in = (struct sockaddr_in *)(void *)&ep->peer.ss;
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ep->peer.len = sizeof(*in);
	return ep;
}

int fake_turn(struct tei_rail *rail)
{
	if (rail->timer_ns && rail->timer_ns <= tei_now_ns()) {
		rail->timer_ns = 0;
		rail->timed_out = true;
	}
	end_copies();
	return rail->ops->progress(rail, 64);
}

void fake_flush(struct tei_endpoint *ep, int err)
{
	const struct tei_backend_ops *ops = ep->rail->ops;
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	if (!ops->flush(ep, err))
		return;
	while (!link_of(ep)->n_flushed) {
		(void)fake_turn(ep->rail);
		assert(tei_now_ms() < end);
	}
	link_of(ep)->n_flushed = 0;
}

static void put_half(struct tei_endpoint **ep)
{
	fake_flush(*ep, -ECANCELED);
	(*ep)->rail->ops->endpoint_close(*ep);
	tei_free(*ep);
	*ep = NULL;
}

static struct fake_rail *target_rail(struct fake_pair *p)
{
	return p->ops->caps & TEI_CAP_SELF ? &p->a : &p->b;
}

/* Both halves are open; their addresses cross. */
static int join(struct fake_pair *p, const uint8_t *a, size_t a_len)
{
	uint8_t b[TEI_BLOB_MAX];
	size_t b_len = sizeof(b);
	int rc;

	rc = p->ops->endpoint_open(p->target, b, &b_len);
	if (rc < 0) {
		tei_free(p->target);
		p->target = NULL;
		return rc;
	}
	rc = p->ops->endpoint_connect(p->target, a, a_len);
	if (!rc || rc == -EINPROGRESS)
		rc = p->ops->endpoint_connect(p->initiator, b, b_len);
	if (rc != -EINPROGRESS)
		return rc;
	for (uint64_t t = tei_now_ms(); tei_now_ms() < t + FAKE_LIMIT_MS;) {
		fake_progress(p);
		if (p->initiator_link.n_down)
			return p->initiator_link.down_err;
		if (p->initiator_link.n_up)
			return 0;
	}
	return -ETIMEDOUT;
}

int fake_pair_connect(struct fake_pair *p)
{
	uint8_t a[TEI_BLOB_MAX];
	size_t a_len = sizeof(a);
	int rc = -ENOMEM;

	p->initiator =
		fake_endpoint(&p->a, &p->initiator_link, false, fake_epoch);
	if (!p->initiator)
		return rc;
	p->target = fake_endpoint(target_rail(p), &p->target_link, true,
				  fake_epoch);
	if (!p->target)
		goto free_initiator;
	rc = p->ops->endpoint_open(p->initiator, a, &a_len);
	if (rc < 0)
		goto free_target;
	rc = join(p, a, a_len);
	if (rc < 0)
		fake_pair_disconnect(p);
	return rc;

free_target:
	tei_free(p->target);
	p->target = NULL;
free_initiator:
	tei_free(p->initiator);
	p->initiator = NULL;
	return rc;
}

void fake_pair_disconnect(struct fake_pair *p)
{
	if (p->initiator)
		put_half(&p->initiator);
	if (p->target)
		put_half(&p->target);
}

int fake_pair_open(struct fake_pair *p, const struct tei_backend_ops *ops,
		   const char *const settings[])
{
	int rc;

	*p = (struct fake_pair){.ops = ops};
	rc = fake_rail_open(&p->a, ops, settings);
	if (rc < 0)
		return rc;
	rc = fake_rail_open(&p->b, ops, settings);
	if (rc < 0)
		goto close_a;
	rc = fake_pair_connect(p);
	if (rc < 0)
		goto close_b;
	return 0;

close_b:
	fake_rail_close(&p->b);
close_a:
	fake_rail_close(&p->a);
	return rc;
}

void fake_pair_close(struct fake_pair *p)
{
	fake_pair_disconnect(p);
	fake_rail_close(&p->b);
	fake_rail_close(&p->a);
}

void fake_progress(struct fake_pair *p)
{
	int rc;

	rc = fake_turn(p->a.rail);
	assert(rc >= 0);
	rc = fake_turn(p->b.rail);
	assert(rc >= 0);
}

bool fake_wait(struct fake_pair *p, const unsigned int *n, unsigned int want)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (*n < want && tei_now_ms() < end)
		fake_progress(p);
	return *n >= want;
}

/* ---- slices ---- */

struct fake_slice *fake_slice_create(const struct fake_pair *p, uint32_t op,
				     uint64_t region, uint64_t remote,
				     const struct iovec *iov, uint32_t n_iov)
{
	struct fake_slice *s = tei_calloc(1, sizeof(*s));
	struct tei_slice *slice;

	assert(s);
	slice = tei_calloc(1, sizeof(*slice) + p->ops->slice_size);
	assert(slice);
	s->slice = slice;
	memcpy(s->key, &region, sizeof(region));
	tei_list_init(&slice->link);
	slice->ep = p->initiator;
	slice->work = (struct tei_work *)(void *)s;
	slice->op = op;
	slice->iov = iov;
	slice->n_iov = n_iov;
	slice->remote = remote;
	slice->key = s->key;
	slice->key_len = sizeof(region);
	for (uint32_t i = 0; i < n_iov; i++)
		slice->length += iov[i].iov_len;
	return s;
}

void fake_slice_destroy(struct fake_slice *s)
{
	tei_free(s->slice);
	tei_free(s);
}

int fake_post(struct fake_pair *p, struct fake_slice *s)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	int rc;

	do {
		rc = p->ops->post(p->initiator, &s->slice, 1);
		if (!rc)
			fake_progress(p);
	} while (!rc && tei_now_ms() < end);
	return rc < 0 ? rc : rc == 1 ? 0 : -ETIMEDOUT;
}
