/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake.c - the backend of fake.h
 *
 * One mutex for everything: who copies for an initiator looks into the
 * target's half, which belongs to another engine's worker.
 */
#include "tests/unit/te/fake.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <te/te.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/net.h"
#include "base/thread.h"
#include "te/backend.h"
#include "tests/lib/wait.h"

#define ID_LEN       8
#define KEY_LEN      40
#define OPEN_WAIT_MS 60000

struct fake_knobs fake;

static struct tei_mutex mu;
static struct tei_list rails, halves; /* guarded by mu */
static uint64_t last_id;

struct fake_rail {
	struct tei_list link, queue; /* of slices; holder of the token */
	const struct tei_rail *base;
	int fd;
	bool down; /* as was said */
};

struct fake_half {
	struct tei_list link; /* halves */
	struct tei_endpoint *base;
	struct fake_half *other; /* NULL: alone */
	uint64_t id;
	bool broken, reported, dropping;
	bool flushing; /* flush() is not over; token */
	int why;
	struct tei_list kept;   /* slices till then */
	uint64_t ghost_at, pin; /* 0: none */
	uint64_t ghost_len;
};

static struct fake_rail *rail_of(const struct tei_rail *rail)
{
	return (struct fake_rail *)(uintptr_t)rail->priv;
}

static struct fake_half *half_of(const struct tei_endpoint *ep)
{
	return (struct fake_half *)(uintptr_t)ep->priv;
}

static void ring(int fd)
{
	uint64_t one = 1;
	ssize_t n = write(fd, &one, sizeof(one));

	(void)n;
}

static void init_once(void)
{
	static bool done;

	if (done)
		return;
	done = true;
	tei_mutex_init(&mu);
	tei_list_init(&rails);
	tei_list_init(&halves);
}

void fake_reset(void)
{
	init_once();
	atomic_store(&fake.stall, false);
	atomic_store(&fake.hold_drop, false);
	atomic_store(&fake.hold_pins, false);
	atomic_store(&fake.hold_flush, false);
	atomic_store(&fake.hold_open, false);
	atomic_store(&fake.gone, 0);
	atomic_store(&fake.lose_targets, 0);
	atomic_store(&fake.lose_rail, -1);
	atomic_store(&fake.break_after, -1);
	atomic_store(&fake.break_rail, -1);
	atomic_store(&fake.down_rail, -1);
	atomic_store(&fake.only_a_at, 0);
	atomic_store(&fake.not_c_at, 0);
	atomic_store(&fake.piece, 0);
	atomic_store(&fake.astray, 0);
	atomic_store(&fake.unable, 0);
	atomic_store(&fake.refuse_at, 0);
	atomic_store(&fake.fail_at, 0);
	atomic_store(&fake.refuse_connects, 0);
	atomic_store(&fake.fail_posts, 0);
	atomic_store(&fake.busy, 0);
	atomic_store(&fake.dead, 0);
	atomic_store(&fake.dead_err, -ECONNREFUSED);
	atomic_store(&fake.quiet, 0);
	atomic_store(&fake.lone, 0);
	atomic_store(&fake.hang, 0);
	for (int i = 0; i < 3; i++)
		atomic_store(&fake.done[i], 0);
	atomic_store(&fake.ghosts, 0);
	atomic_store(&fake.timer_ms, 0);
	atomic_store(&fake.timed_out, 0);
	atomic_store(&fake.timed_out_closing, 0);
}

void fake_wake(void)
{
	tei_mutex_lock(&mu);
	tei_list_for_each (node, &rails)
		ring(tei_list_entry(node, struct fake_rail, link)->fd);
	tei_mutex_unlock(&mu);
}

/* One less of what shall go wrong; false when nothing shall. */
static bool strikes(_Atomic int *times)
{
	if (atomic_load(times) <= 0)
		return false;
	atomic_fetch_sub(times, 1);
	return true;
}

/* Returns the number of its device: "a" is 0; rails may share one. */
static unsigned int number_of(const struct tei_rail *rail)
{
	return (unsigned int)(rail->device.name[0] - 'a');
}

static bool has_bit(_Atomic unsigned int *bits, const struct tei_rail *rail)
{
	return atomic_load(bits) >> number_of(rail) & 1;
}

/* ---- rails and regions ---- */

static int fake_probe(const struct tei_search *search)
{
	struct tei_device a = {.name = "a"}, b = {.name = "b"};
	int rc;

	tei_address_from_bytes((const uint8_t[]){127, 0, 0, 1}, 4, 0,
			       &a.address);
	tei_address_from_bytes((const uint8_t[]){127, 0, 0, 2}, 4, 0,
			       &b.address);
	rc = search->found(&a, search->arg);
	return rc ? rc : search->found(&b, search->arg);
}

static int spare_probe(const struct tei_search *search)
{
	static const struct tei_device c = {.name = "c"};

	return search->found(&c, search->arg);
}

/* One worker's: tests know how many rails an engine has. */
static bool is_open(const struct tei_rail *base)
{
	bool open = false;

	tei_mutex_lock(&mu);
	tei_list_for_each (node, &rails) {
		const struct tei_rail *other =
			tei_list_entry(node, struct fake_rail, link)->base;

		open |= other->core == base->core &&
			!strcmp(other->device.name, base->device.name);
	}
	tei_mutex_unlock(&mu);
	return open;
}

static int fake_rail_open(struct tei_rail *base)
{
	struct fake_rail *rail = rail_of(base);

	if (is_open(base))
		return -EADDRINUSE;
	rail->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rail->fd < 0)
		return -errno;
	rail->base = base;
	tei_list_init(&rail->queue);
	tei_mutex_lock(&mu);
	tei_list_add_tail(&rails, &rail->link);
	tei_mutex_unlock(&mu);
	return 0;
}

static void fake_rail_close(struct tei_rail *base)
{
	tei_mutex_lock(&mu);
	tei_list_del(&rail_of(base)->link);
	tei_mutex_unlock(&mu);
	close(rail_of(base)->fd);
}

static int fake_rail_match(struct tei_rail *rail,
			   const struct tei_address *peer, const void *blob,
			   size_t len)
{
	(void)peer;
	(void)blob;
	(void)len;
	return !(atomic_load(&fake.lone) >> number_of(rail) & 1);
}

static int write_id(uint64_t id, void *out, size_t *len)
{
	struct tei_writer w;

	tei_writer_init(&w, out, *len);
	tei_write_u64(&w, id);
	*len = ID_LEN;
	return w.bad ? -ENOBUFS : 0;
}

/* What a rail has of a region, in its key: of each n pieces the place-th. */
struct fake_key {
	uint64_t id, addr, length, piece;
	uint32_t n, place;
};

static int write_key(const struct fake_key *key, void *out, size_t *len)
{
	struct tei_writer w;

	tei_writer_init(&w, out, *len);
	tei_write_u64(&w, key->id);
	tei_write_u64(&w, key->addr);
	tei_write_u64(&w, key->length);
	tei_write_u64(&w, key->piece);
	tei_write_u32(&w, key->n);
	tei_write_u32(&w, key->place);
	*len = KEY_LEN;
	return w.bad ? -ENOBUFS : 0;
}

static void read_key(const void *bytes, size_t len, struct fake_key *out)
{
	struct tei_reader r;

	tei_reader_init(&r, bytes, len);
	out->id = tei_read_u64(&r);
	out->addr = tei_read_u64(&r);
	out->length = tei_read_u64(&r);
	out->piece = tei_read_u64(&r);
	out->n = tei_read_u32(&r);
	out->place = tei_read_u32(&r);
}

static bool fake_key_covers(const void *bytes, size_t len, uint64_t address,
			    uint64_t *room)
{
	struct fake_key key;
	uint64_t at, i, end;

	read_key(bytes, len, &key);
	at = address - key.addr;
	*room = key.length - at;
	if (!key.piece)
		return true;
	i = at / key.piece;
	end = (i + 1) * key.piece;
	if (end < key.length)
		*room = end - at;
	return i % key.n == key.place;
}

static int fake_region_add(struct tei_rail *rail, uint64_t id, void *addr,
			   uint64_t length, uint32_t access, void *out,
			   size_t *len)
{
	struct fake_key key = {
		id, (uintptr_t)addr, length, atomic_load(&fake.piece), 1, 0};

	(void)access;
	if ((uintptr_t)addr == atomic_load(&fake.only_a_at) && number_of(rail))
		return -EOPNOTSUPP;
	if ((uintptr_t)addr == atomic_load(&fake.not_c_at) &&
	    number_of(rail) == 2)
		return -EOPNOTSUPP;
	key.place = tei_region_spread(rail, id, &key.n);
	if (key.n < 2) /* it is far, or alone */
		key.piece = 0;
	return write_key(&key, out, len);
}

static void fake_region_remove(struct tei_rail *rail, uint64_t id)
{
	(void)rail;
	(void)id;
}

/* ---- endpoints ---- */

static bool may_open(void *arg)
{
	(void)arg;
	return !atomic_load(&fake.hold_open);
}

/* The worker of the target stands still meanwhile. */
static void wait_to_open(void)
{
	atomic_fetch_add(&fake.opening, 1);
	test_wait_until(may_open, NULL, OPEN_WAIT_MS);
	atomic_fetch_sub(&fake.opening, 1);
}

static int fake_endpoint_open(struct tei_endpoint *ep, void *addr, size_t *len)
{
	struct fake_half *half = half_of(ep);

	if (ep->target)
		wait_to_open();
	tei_mutex_lock(&mu);
	half->base = ep;
	tei_list_init(&half->kept);
	half->id = ++last_id;
	tei_list_add_tail(&halves, &half->link);
	tei_mutex_unlock(&mu);
	return write_id(half->id, addr, len);
}

static int join(struct fake_half *half, uint64_t id) TEI_REQUIRES(mu)
{
	tei_list_for_each (node, &halves) {
		struct fake_half *other =
			tei_list_entry(node, struct fake_half, link);

		if (other->id == id && other->base->target) {
			half->other = other;
			other->other = half;
			return 0;
		}
	}
	return -ECONNREFUSED;
}

static int fake_endpoint_connect(struct tei_endpoint *ep, const void *addr,
				 size_t len)
{
	struct tei_reader r;
	uint64_t id;
	int rc;

	tei_reader_init(&r, addr, len);
	id = tei_read_u64(&r);
	if (!tei_reader_done(&r))
		return -EPROTO;
	if (ep->target)
		return 0;
	if (has_bit(&fake.dead, ep->rail))
		return atomic_load(&fake.dead_err);
	if (strikes(&fake.refuse_connects))
		return -ECONNREFUSED;
	if (has_bit(&fake.hang, ep->rail))
		return -EINPROGRESS;
	tei_mutex_lock(&mu);
	rc = join(half_of(ep), id);
	tei_mutex_unlock(&mu);
	return rc;
}

static void ghost_lands(struct fake_half *half) TEI_REQUIRES(mu)
{
	if (half->ghost_len) {
		memset((void *)(uintptr_t)half->ghost_at, FAKE_GHOST,
		       half->ghost_len);
		half->ghost_len = 0;
		atomic_fetch_add(&fake.ghosts, 1);
	}
	if (half->pin)
		tei_region_unpin(half->base, half->pin);
	half->pin = 0;
}

/* An initiator's half that leaves does not take the target's with it. */
static void leave(struct fake_half *half) TEI_REQUIRES(mu)
{
	if (half->other)
		half->other->other = NULL;
	half->other = NULL;
	half->broken = true;
}

static void fake_endpoint_close(struct tei_endpoint *ep)
{
	tei_mutex_lock(&mu);
	if (ep->target)
		ghost_lands(half_of(ep));
	leave(half_of(ep));
	tei_list_del(&half_of(ep)->link);
	tei_mutex_unlock(&mu);
}

static int fake_drop(struct tei_endpoint *ep)
{
	if (atomic_load(&fake.hold_drop)) {
		half_of(ep)->dropping = true;
		return -EINPROGRESS;
	}
	tei_mutex_lock(&mu);
	ghost_lands(half_of(ep));
	leave(half_of(ep));
	tei_mutex_unlock(&mu);
	half_of(ep)->reported = true;
	return 0;
}

/* ---- slices ---- */

static int fake_post(struct tei_endpoint *ep, struct tei_slice *const slices[],
		     int n)
{
	struct fake_rail *rail = rail_of(ep->rail);

	if (half_of(ep)->broken || has_bit(&fake.dead, ep->rail) ||
	    strikes(&fake.fail_posts))
		return -ECONNRESET;
	for (int i = 0; i < n; i++)
		tei_list_add_tail(&rail->queue, &slices[i]->link);
	ring(rail->fd);
	return n;
}

static void end(struct tei_slice *slice, int err)
{
	tei_list_del(&slice->link);
	if (err)
		slice->provider_code = -err;
	tei_slice_done(slice, err, err ? 0 : slice->length);
}

/* Where the write would have gone, if only the first one of a half. */
static void leave_ghost(struct tei_slice *slice)
{
	struct fake_half *other;

	tei_mutex_lock(&mu);
	other = half_of(slice->ep)->other;
	if (slice->op == TEI_WRITE && other && !other->ghost_len) {
		other->ghost_at = slice->remote;
		other->ghost_len = slice->length;
	}
	tei_mutex_unlock(&mu);
}

static void fake_cancel(struct tei_endpoint *ep, struct tei_slice *slice)
{
	(void)ep;
	end(slice, -ECANCELED);
}

static void end_flush(struct fake_half *half)
{
	while (!tei_list_empty(&half->kept)) {
		struct tei_slice *slice =
			tei_list_entry(half->kept.next, struct tei_slice, link);

		leave_ghost(slice);
		end(slice, half->why);
	}
	tei_mutex_lock(&mu);
	leave(half);
	tei_mutex_unlock(&mu);
}

static int fake_flush(struct tei_endpoint *ep, int err)
{
	struct fake_rail *rail = rail_of(ep->rail);
	struct fake_half *half = half_of(ep);

	half->reported = true;
	half->why = err;
	tei_list_for_each_safe (node, tmp, &rail->queue) {
		if (tei_list_entry(node, struct tei_slice, link)->ep != ep)
			continue;
		tei_list_del(node);
		tei_list_add_tail(&half->kept, node);
	}
	half->flushing =
		atomic_load(&fake.hold_flush) && (ep->target || half->other);
	if (half->flushing) {
		atomic_fetch_add(&fake.flushing, 1);
		return -EINPROGRESS;
	}
	end_flush(half);
	return 0;
}

static struct fake_half *flushing_on(const struct tei_rail *base)
{
	struct fake_half *found = NULL;

	tei_mutex_lock(&mu);
	tei_list_for_each (node, &halves) {
		struct fake_half *half =
			tei_list_entry(node, struct fake_half, link);

		if (half->base->rail == base && half->flushing)
			found = half;
	}
	tei_mutex_unlock(&mu);
	return found;
}

static int look_at_flushes(const struct tei_rail *base)
{
	struct fake_half *half;
	int n = 0;

	while (!atomic_load(&fake.hold_flush) && (half = flushing_on(base))) {
		half->flushing = false;
		atomic_fetch_sub(&fake.flushing, 1);
		end_flush(half);
		tei_endpoint_flushed(half->base);
		n++;
	}
	return n;
}

static void take_crc(struct tei_slice *slice, const uint8_t *remote)
{
	if (slice->crc_len)
		slice->crc = tei_crc32c_raw(
			slice->crc, remote + slice->crc_from, slice->crc_len);
}

static void copy(struct tei_slice *slice, uint8_t *remote)
{
	uint64_t left = slice->length, skip = slice->skip;

	for (uint32_t i = 0; left; i++, skip = 0) {
		uint8_t *local = (uint8_t *)slice->iov[i].iov_base + skip;
		uint64_t part = slice->iov[i].iov_len - skip;

		assert(i < slice->n_iov);
		if (part > left)
			part = left;
		if (slice->op == TEI_WRITE)
			memcpy(remote, local, part);
		else
			memcpy(local, remote, part);
		remote += part;
		left -= part;
	}
}

static bool touches(const struct tei_slice *slice, _Atomic uint64_t *at)
{
	uint64_t bad = atomic_load(at);

	return bad >= slice->remote && bad - slice->remote < slice->length;
}

static bool is_astray(const struct tei_slice *slice)
{
	uint64_t room;

	return !fake_key_covers(slice->key, slice->key_len, slice->remote,
				&room) ||
	       room < slice->length;
}

static int carry(struct tei_slice *slice)
{
	uint32_t access = slice->op == TEI_WRITE ? TE_ACCESS_REMOTE_WRITE
						 : TE_ACCESS_REMOTE_READ;
	struct fake_half *half = half_of(slice->ep);
	uint64_t pin;
	void *remote;
	int rc = -ECONNRESET;

	if (has_bit(&fake.unable, slice->ep->rail))
		return -EOPNOTSUPP;
	if (touches(slice, &fake.refuse_at))
		return -EFAULT;
	if (touches(slice, &fake.fail_at)) {
		leave_ghost(slice);
		return -EIO;
	}
	if (is_astray(slice))
		atomic_fetch_add(&fake.astray, 1);
	tei_mutex_lock(&mu);
	if (half->other)
		rc = tei_region_pin(half->other->base, slice->key,
				    slice->key_len, slice->remote,
				    slice->length, access, &remote, &pin);
	if (!rc) {
		copy(slice, remote);
		take_crc(slice, remote);
		if (atomic_load(&fake.hold_pins) && !half->other->pin)
			half->other->pin = pin;
		else
			tei_region_unpin(half->other->base, pin);
	}
	tei_mutex_unlock(&mu);
	return rc;
}

/* Tells whether the knob means that rail: it has its number, or is -1. */
static bool is_meant(_Atomic int *knob, const struct tei_rail *rail)
{
	int only = atomic_load(knob);

	return only < 0 || (unsigned int)only == number_of(rail);
}

static bool breaks_now(const struct tei_rail *rail)
{
	/* In this order: tests say which rail before they say when. */
	if (atomic_load(&fake.break_after) < 0)
		return false;
	if (!is_meant(&fake.break_rail, rail))
		return false;
	return atomic_fetch_sub(&fake.break_after, 1) == 0;
}

static void break_half(struct fake_half *half)
{
	half->broken = half->reported = true;
	tei_endpoint_down(half->base, -ECONNRESET);
}

static bool stands_still(const struct tei_rail *rail)
{
	return atomic_load(&fake.stall) || has_bit(&fake.quiet, rail);
}

static int move_slices(struct tei_rail *base, int budget)
{
	struct fake_rail *rail = rail_of(base);
	int n = 0;

	while (n < budget && !tei_list_empty(&rail->queue) &&
	       !stands_still(base)) {
		struct tei_slice *slice = tei_list_entry(
			rail->queue.next, struct tei_slice, link);
		struct fake_half *half = half_of(slice->ep);
		int rc;

		if (half->broken)
			break; /* flush() comes */
		n++;
		if (breaks_now(base)) {
			break_half(half);
			break;
		}
		rc = strikes(&fake.busy) ? -EAGAIN : carry(slice);
		if (!rc)
			atomic_fetch_add(&fake.done[number_of(base)], 1);
		if (rc == -ECONNRESET)
			break_half(half);
		else
			end(slice, rc);
	}
	return n;
}

/* The other half is as it was, and what it has posted stays where it is. */
static void lose_targets(struct tei_rail *base)
{
	struct tei_endpoint *lost = NULL;

	/* In this order: tests say of which rail before they say how many. */
	if (atomic_load(&fake.lose_targets) <= 0 ||
	    !is_meant(&fake.lose_rail, base))
		return;
	tei_mutex_lock(&mu);
	tei_list_for_each (node, &halves) {
		struct fake_half *half =
			tei_list_entry(node, struct fake_half, link);

		if (!lost && half->base->rail == base && half->base->target &&
		    !half->reported && strikes(&fake.lose_targets)) {
			half->reported = true;
			lost = half->base;
		}
	}
	tei_mutex_unlock(&mu);
	if (lost)
		tei_endpoint_down(lost, -EIO);
}

/* Targets whose drop was held back, and halves that lost the other one. */
static int look_at_halves(struct tei_rail *base)
{
	struct tei_endpoint *down[16];
	int n = 0;

	tei_mutex_lock(&mu);
	tei_list_for_each (node, &halves) {
		struct fake_half *half =
			tei_list_entry(node, struct fake_half, link);

		if (half->base->rail != base || half->reported || n == 16)
			continue;
		if (!half->dropping || atomic_load(&fake.hold_drop))
			continue;
		ghost_lands(half);
		leave(half);
		half->reported = true;
		down[n++] = half->base;
	}
	tei_mutex_unlock(&mu);
	for (int i = 0; i < n; i++)
		tei_endpoint_down(down[i], -ESTALE);
	return n;
}

static void look_at_link(struct tei_rail *base)
{
	bool down = atomic_load(&fake.down_rail) == (int)number_of(base);

	if (down != rail_of(base)->down)
		tei_rail_changed(base, !down);
	rail_of(base)->down = down;
}

static void look_at_timer(struct tei_rail *base)
{
	uint64_t ms = atomic_load(&fake.timer_ms);

	if (base->timed_out)
		atomic_fetch_add(base->closing ? &fake.timed_out_closing
					       : &fake.timed_out,
				 1);
	base->timed_out = false;
	if (!base->timer_ns && ms)
		base->timer_ns = tei_now_ns() + ms * TEI_NS_PER_MS;
}

static int fake_progress(struct tei_rail *base, int budget)
{
	struct fake_rail *rail = rail_of(base);
	uint64_t count;
	ssize_t got = read(rail->fd, &count, sizeof(count));
	int n = look_at_halves(base);

	(void)got;
	look_at_timer(base);
	look_at_link(base);
	lose_targets(base);
	n += look_at_flushes(base);
	if (has_bit(&fake.gone, base))
		return -EIO;
	n += move_slices(base, budget);
	if (!tei_list_empty(&rail->queue) && !stands_still(base))
		ring(rail->fd);
	return n;
}

static int fake_wait_fd(struct tei_rail *rail)
{
	return rail_of(rail)->fd;
}

static void fake_endpoint_way(const struct tei_endpoint *ep, char *out,
			      size_t room)
{
	(void)snprintf(out, room, "way of %s", ep->rail->device.name);
}

#define OPS                                                                   \
	.abi = TEI_BACKEND_ABI, .caps = TEI_CAP_REMOTE,                       \
	.rail_match = fake_rail_match, .rail_size = sizeof(struct fake_rail), \
	.endpoint_size = sizeof(struct fake_half),                            \
	.rail_open = fake_rail_open, .rail_close = fake_rail_close,           \
	.region_add = fake_region_add, .region_remove = fake_region_remove,   \
	.key_covers = fake_key_covers, .endpoint_open = fake_endpoint_open,   \
	.endpoint_connect = fake_endpoint_connect,                            \
	.endpoint_way = fake_endpoint_way,                                    \
	.endpoint_close = fake_endpoint_close, .post = fake_post,             \
	.cancel = fake_cancel, .flush = fake_flush, .drop = fake_drop,        \
	.progress = fake_progress, .wait_fd = fake_wait_fd

static const struct tei_backend_ops ops = {
	.name = "fake", .probe = fake_probe, OPS};
static const struct tei_backend_ops spare = {
	.name = "spare", .probe = spare_probe, OPS};

/* Takes the place of the list that is linked into the library. */
const struct tei_backend_ops *const tei_backends[] = {&ops, &spare, NULL};
