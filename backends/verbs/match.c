/* SPDX-License-Identifier: Apache-2.0 */
/* match.c - which rails of two hosts go together */
#include "backends/verbs/match.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "backends/verbs/gid.h"
#include "base/bytes.h"
#include "base/net.h"

enum {
	RANK_NONE = 0,
	RANK_LINK = 1,   /* addresses of a link, and nobody knows which */
	RANK_ROUTED = 3, /* another network, or one that is not known */
	RANK_SAME_NET = 5,
	RANK_MAP = 100, /* the last place of a list; the first: + PLACES */
};

#define SAME_NAME     1 /* on top of a rank that is no map's */
#define PLACES        64
#define IB_PREFIX     64
#define V4_PREFIX     96 /* bits before an IPv4 address in a GID */
#define GID_BITS      128
#define SEPARATORS    " \t"
#define NAME_LEN(out) (sizeof((out)->name) - 1)

/* ---- what a rail says of itself ---- */

int tei_verbs_self_encode(const struct verbs_self *self, void *out, size_t *len)
{
	size_t n = strlen(self->name);
	struct tei_writer w;

	tei_writer_init(&w, out, *len);
	tei_write_u8(&w, VERBS_WIRE_VERSION);
	tei_write_u8(&w, (uint8_t)self->link);
	tei_write_u8(&w, self->prefix);
	tei_write_bytes(&w, self->gid.raw, sizeof(self->gid.raw));
	tei_write_u8(&w, (uint8_t)n);
	tei_write_bytes(&w, self->name, n);
	if (w.bad)
		return -ENOBUFS;
	*len = (size_t)(w.at - (const uint8_t *)out);
	return 0;
}

static bool is_name(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	}
	return n > 0;
}

static const char *self_fault(const struct verbs_self *self)
{
	if (self->link != VERBS_LINK_IB && self->link != VERBS_LINK_ETHERNET)
		return "unknown kind of link";
	if (self->prefix > GID_BITS)
		return "network of more bits than an address has";
	if (tei_scope_of(self->gid.raw) == TEI_SCOPE_NONE)
		return "GID is no host's";
	return NULL;
}

const char *tei_verbs_self_decode(const void *bytes, size_t len,
				  struct verbs_self *out)
{
	struct verbs_self self = {0};
	const void *gid, *name;
	const char *fault;
	struct tei_reader r;
	size_t n;

	tei_reader_init(&r, bytes, len);
	if (tei_read_u8(&r) != VERBS_WIRE_VERSION)
		return "unknown version";
	self.link = tei_read_u8(&r);
	self.prefix = tei_read_u8(&r);
	gid = tei_read_bytes(&r, sizeof(self.gid.raw));
	n = tei_read_u8(&r);
	name = tei_read_bytes(&r, n);
	if (!gid || !name || !tei_reader_done(&r))
		return "of a wrong length";
	if (n > NAME_LEN(out) || !is_name(name, n))
		return "name is none";
	memcpy(self.gid.raw, gid, sizeof(self.gid.raw));
	memcpy(self.name, name, n);
	fault = self_fault(&self);
	if (!fault)
		*out = self;
	return fault;
}

/* ---- networks ---- */

int tei_verbs_prefix_of(enum verbs_link link, const union ibv_gid *gid)
{
	struct tei_address address;
	uint8_t prefix;
	int index = 0;

	if (link == VERBS_LINK_IB)
		return IB_PREFIX;
	if (tei_address_from_bytes(gid->raw, sizeof(gid->raw), 0, &address))
		index = tei_interface_of(&address, &prefix);
	if (index <= 0)
		return tei_is_shortage(index) ? index : 0;
	return tei_verbs_gid_is_v4(gid) ? V4_PREFIX + prefix : prefix;
}

/* Returns the shorter prefix; where one is unknown, it may be the same. */
static unsigned int common_prefix(const struct verbs_self *a,
				  const struct verbs_self *b)
{
	if (!a->prefix || !b->prefix)
		return a->prefix + b->prefix;
	return a->prefix < b->prefix ? a->prefix : b->prefix;
}

static int rank_of_networks(const struct verbs_self *a,
			    const struct verbs_self *b)
{
	bool link = tei_scope_of(a->gid.raw) == TEI_SCOPE_LINK;
	bool same =
		tei_same_network(a->gid.raw, b->gid.raw, common_prefix(a, b));

	if (a->link == VERBS_LINK_IB) /* by no router that we could name */
		return same ? RANK_SAME_NET : RANK_NONE;
	if (tei_verbs_gid_is_v4(&a->gid) != tei_verbs_gid_is_v4(&b->gid) ||
	    link != (tei_scope_of(b->gid.raw) == TEI_SCOPE_LINK))
		return RANK_NONE;
	if (link)
		return RANK_LINK;
	return same ? RANK_SAME_NET : RANK_ROUTED;
}

/* ---- the user's map ---- */

/* A part of a text, not ended by 0. */
struct part {
	const char *at;
	size_t len;
};

/* The part of @rest before the next @end, without blanks around; rest after. */
static struct part next_part(struct part *rest, char end)
{
	const char *stop = memchr(rest->at, end, rest->len);
	size_t n = stop ? (size_t)(stop - rest->at) : rest->len;
	struct part part = {rest->at, n};

	rest->at += n + !!stop;
	rest->len -= n + !!stop;
	while (part.len && strchr(SEPARATORS, *part.at)) {
		part.at++;
		part.len--;
	}
	while (part.len && strchr(SEPARATORS, part.at[part.len - 1]))
		part.len--;
	return part;
}

static struct part part_of(const char *text)
{
	return (struct part){text ? text : "", text ? strlen(text) : 0};
}

/* "mlx5_0" names every port of the device, "mlx5_0/1" one. */
static bool names(struct part word, const char *name)
{
	size_t device = strcspn(name, "/");

	return (word.len == device && !memcmp(word.at, name, device)) ||
	       (word.len == strlen(name) && !memcmp(word.at, name, word.len));
}

static int rank_in_list(struct part list, const char *name)
{
	for (int place = 0; list.len; place++) {
		if (names(next_part(&list, ','), name))
			return RANK_MAP + (place < PLACES ? PLACES - place : 0);
	}
	return RANK_NONE;
}

/* False: the map does not name @mine. */
static bool is_mapped(const char *map, const char *mine, const char *other,
		      int *rank)
{
	struct part rest = part_of(map);

	while (rest.len) {
		struct part entry = next_part(&rest, ';');

		if (!names(next_part(&entry, '='), mine))
			continue;
		*rank = rank_in_list(entry, other);
		return true;
	}
	return false;
}

const char *tei_verbs_map_fault(const char *map)
{
	struct part rest = part_of(map);

	while (rest.len) {
		struct part entry = next_part(&rest, ';');

		if (!entry.len)
			continue; /* at the end, say */
		if (!memchr(entry.at, '=', entry.len))
			return "an entry is not of the form rail=peer,...";
		if (!next_part(&entry, '=').len)
			return "an entry names no rail of ours";
		do {
			if (!next_part(&entry, ',').len)
				return "an entry names no rail of a peer";
		} while (entry.len);
	}
	return NULL;
}

int tei_verbs_match(const char *map, const struct verbs_self *mine,
		    const struct verbs_self *other)
{
	int rank;

	if (mine->link != other->link)
		return RANK_NONE;
	if (is_mapped(map, mine->name, other->name, &rank))
		return rank;
	rank = rank_of_networks(mine, other);
	if (rank && !strcmp(mine->name, other->name))
		rank += SAME_NAME;
	return rank;
}
