/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_in.c - a picture from JSON, in the full form or as a matrix
 *
 * What is known must have the right type and be within its limits; what is
 * unknown is passed over. Every refusal names the place: mems[2].rails[0][1].
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/json.h"

/* ---- refusing ---- */

static int refuse(const struct tei_topo_reader *r, const char *place,
		  const char *why)
{
	return tei_topo_fail(r->e, -EBADMSG, "%s: %s: %s", r->name, place, why);
}

static int refuse_key(const struct tei_topo_reader *r, const char *place,
		      const char *key, const char *why)
{
	return tei_topo_fail(r->e, -EBADMSG, "%s: %s.%s: %s", r->name, place,
			     key, why);
}

static int full(const struct tei_topo_reader *r, int rc, const char *what)
{
	if (rc == -E2BIG)
		return tei_topo_fail(r->e, -EBADMSG,
				     "%s: more %s than any machine has",
				     r->name, what);
	return tei_topo_fail(r->e, rc, "%s: out of memory", r->name);
}

/* ---- fields of an object; one that is absent leaves *@out as it is ---- */

int tei_topo_read_name(const struct tei_topo_reader *r, const json_t *from,
		       const char *place, const char *key,
		       char out[TEI_TOPO_NAME_MAX])
{
	const json_t *value = json_object_get(from, key);
	const char *text = json_string_value(value);

	if (!value || (text && !*text))
		return 0;
	if (!text || !tei_topo_is_name(text))
		return refuse_key(r, place, key,
				  "should be a name of up to 47 printable "
				  "characters");
	snprintf(out, TEI_TOPO_NAME_MAX, "%s", text);
	return 0;
}

int tei_topo_read_number(const struct tei_topo_reader *r, const json_t *from,
			 const char *place, const char *key, int64_t least,
			 int64_t most, int64_t *out)
{
	const json_t *value = json_object_get(from, key);
	char why[80];

	if (!value)
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < least ||
	    json_integer_value(value) > most) {
		snprintf(why, sizeof(why), "should be a number, %lld to %lld",
			 (long long)least, (long long)most);
		return refuse_key(r, place, key, why);
	}
	*out = json_integer_value(value);
	return 0;
}

static int read_u32(const struct tei_topo_reader *r, const json_t *from,
		    const char *place, const char *key, uint32_t *out)
{
	int64_t value = *out;
	int rc = tei_topo_read_number(r, from, place, key, 0, UINT32_MAX,
				      &value);

	*out = (uint32_t)value;
	return rc;
}

static int read_u64(const struct tei_topo_reader *r, const json_t *from,
		    const char *place, const char *key, uint64_t *out)
{
	int64_t value = (int64_t)*out;
	int rc =
		tei_topo_read_number(r, from, place, key, 0, INT64_MAX, &value);

	*out = (uint64_t)value;
	return rc;
}

static int read_node(const struct tei_topo_reader *r, const json_t *from,
		     const char *place, const char *key, int32_t *out)
{
	int64_t value = *out;
	int rc = tei_topo_read_number(r, from, place, key, -1,
				      TEI_TOPO_NODE_NUMBERS - 1, &value);

	*out = (int32_t)value;
	return rc;
}

static int read_model(const struct tei_topo_reader *r, const json_t *from,
		      const char *place, const char *key, char *out,
		      size_t room)
{
	const json_t *value = json_object_get(from, key);

	if (!value)
		return 0;
	if (!json_is_string(value))
		return refuse_key(r, place, key, "should be text");
	tei_topo_copy_model(out, room, json_string_value(value));
	return 0;
}

/* One word of words[], whose place is the value. */
static int read_word(const struct tei_topo_reader *r, const json_t *from,
		     const char *place, const char *key,
		     const char *const words[], uint32_t *out)
{
	const json_t *value = json_object_get(from, key);
	const char *text = json_string_value(value);
	uint32_t i;

	if (!value)
		return 0;
	for (i = 0; text && words[i]; i++) {
		if (*words[i] && strcmp(words[i], text) == 0) {
			*out = i;
			return 0;
		}
	}
	return refuse_key(r, place, key, "no word that it may be");
}

static int read_pci(const struct tei_topo_reader *r, const json_t *from,
		    const char *place, struct tei_topo_pci *pci)
{
	const json_t *more = json_object_get(from, "pci");
	const char *path = json_string_value(json_object_get(more, "path"));
	const json_t *id = json_object_get(from, "pci_bus_id");
	const char *bus_id = json_string_value(id);
	char where[64];
	int rc;

	if (id && (!bus_id ||
		   (*bus_id && !tei_topo_is_bus_id(bus_id, strlen(bus_id)))))
		return refuse_key(r, place, "pci_bus_id",
				  "should be like 0000:3b:00.0");
	if (bus_id)
		snprintf(pci->bus_id, sizeof(pci->bus_id), "%s", bus_id);
	if (json_object_get(more, "path") &&
	    (!path || !tei_topo_pci_from_path(pci, path) ||
	     strcmp(pci->path, path) != 0 ||
	     (bus_id && strcmp(bus_id, pci->bus_id) != 0)))
		return refuse_key(r, place, "pci.path",
				  "should be like pci0000:3a/0000:3a:00.0/"
				  "0000:3b:00.0, ending in pci_bus_id");
	snprintf(where, sizeof(where), "%s.pci", place);
	rc = read_u32(r, more, where, "width", &pci->width);
	if (!rc)
		rc = read_u32(r, more, where, "max_width", &pci->max_width);
	if (!rc)
		rc = read_u32(r, more, where, "mtps", &pci->mtps);
	if (!rc)
		rc = read_u32(r, more, where, "max_mtps", &pci->max_mtps);
	return rc ? rc : read_u64(r, more, where, "path_bps", &pci->path_bps);
}

/* ---- NICs ---- */

const char *const tei_topo_kinds[] = {
	[0] = "",
	[TE_TOPO_ETH] = "eth",
	[TE_TOPO_ROCE] = "roce",
	[TE_TOPO_IB] = "ib",
	[TE_TOPO_RDMA] = "rdma",
	[TE_TOPO_OTHER] = "other",
	NULL,
};

const char *const tei_topo_states[] = {
	[TE_TOPO_STATE_UNKNOWN] = "unknown",
	[TE_TOPO_UP] = "up",
	[TE_TOPO_DOWN] = "down",
	NULL,
};

/* TENT's number for what kind of NIC it is; "kind" says it better. */
static void guess_kind(const json_t *from, struct tei_topo_nic *nic)
{
	const json_t *type = json_object_get(from, "type");

	if (!json_is_integer(type))
		return;
	if (json_integer_value(type) == TEI_TOPO_TENT_RDMA)
		nic->kind = TE_TOPO_RDMA;
	else if (json_integer_value(type) == TEI_TOPO_TENT_TCP)
		nic->kind = TE_TOPO_ETH;
}

static int read_link(const struct tei_topo_reader *r, const json_t *from,
		     const char *place, struct tei_topo_nic *nic)
{
	int rc;

	guess_kind(from, nic);
	nic->is_virtual = json_is_true(json_object_get(from, "virtual"));
	rc = read_word(r, from, place, "kind", tei_topo_kinds, &nic->kind);
	if (!rc)
		rc = read_word(r, from, place, "state", tei_topo_states,
			       &nic->state);
	if (!rc)
		rc = read_node(r, from, place, "numa_node", &nic->numa_node);
	if (!rc)
		rc = read_u64(r, from, place, "speed_bps", &nic->speed_bps);
	return rc;
}

static int read_nic(const struct tei_topo_reader *r, const json_t *from,
		    const char *place)
{
	struct tei_topo_nic *nic;
	int rc;

	if (!json_is_object(from))
		return refuse(r, place, "should be an object");
	nic = tei_topo_add_nic(r->t, &rc);
	if (!nic)
		return full(r, rc, "NICs");
	rc = tei_topo_read_name(r, from, place, "name", nic->name);
	if (!rc && !*nic->name)
		rc = refuse_key(r, place, "name", "is missing");
	if (!rc)
		rc = tei_topo_read_name(r, from, place, "interface",
					nic->interface);
	if (!rc)
		rc = tei_topo_read_name(r, from, place, "rdma", nic->rdma);
	if (!rc)
		rc = read_u32(r, from, place, "rdma_port", &nic->rdma_port);
	if (!rc)
		rc = read_model(r, from, place, "model", nic->model,
				sizeof(nic->model));
	if (!rc)
		rc = read_link(r, from, place, nic);
	return rc ? rc : read_pci(r, from, place, &nic->pci);
}

/* ---- memories ---- */

/* "cpu:3" says what it is and where. */
void tei_topo_name_memory(struct tei_topo_memory *m)
{
	if (!strncmp(m->name, "cuda:", 5)) {
		m->kind = TE_TOPO_CUDA;
	} else if (!strncmp(m->name, "hip:", 4)) {
		m->kind = TE_TOPO_HIP;
	} else if (!strncmp(m->name, "cpu:", 4)) {
		const char *digits = m->name + 4;
		unsigned long n = strtoul(digits, NULL, 10);

		m->kind = TE_TOPO_HOST;
		if (*digits >= '0' && *digits <= '9' &&
		    n < TEI_TOPO_NODE_NUMBERS)
			m->numa_node = (int32_t)n;
	}
}

static int read_memory(const struct tei_topo_reader *r, const json_t *from,
		       const char *place)
{
	struct tei_topo_memory *m;
	int rc;

	if (!json_is_object(from))
		return refuse(r, place, "should be an object");
	m = tei_topo_add_memory(r->t, &rc);
	if (!m)
		return full(r, rc, "memories");
	rc = tei_topo_read_name(r, from, place, "name", m->name);
	if (!rc && !*m->name)
		rc = refuse_key(r, place, "name", "is missing");
	if (rc)
		return rc;
	tei_topo_name_memory(m);
	rc = read_node(r, from, place, "numa_node", &m->numa_node);
	if (!rc)
		rc = read_u64(r, from, place, "bytes", &m->bytes);
	if (!rc)
		rc = read_model(r, from, place, "model", m->model,
				sizeof(m->model));
	if (!rc)
		rc = read_pci(r, from, place, &m->pci);
	return rc ? rc : tei_topo_read_rails(r, from, place, m);
}

/* ---- the whole ---- */

static int read_each(const struct tei_topo_reader *r, const json_t *root,
		     const char *key,
		     int (*fn)(const struct tei_topo_reader *r,
			       const json_t *from, const char *place))
{
	const json_t *array = json_object_get(root, key);
	char place[32];
	size_t i;
	int rc = 0;

	if (array && !json_is_array(array))
		return refuse(r, key, "should be an array");
	for (i = 0; !rc && i < json_array_size(array); i++) {
		snprintf(place, sizeof(place), "%s[%zu]", key, i);
		rc = fn(r, json_array_get(array, i), place);
	}
	return rc;
}

static int read_full(const struct tei_topo_reader *r, const json_t *root)
{
	int rc = read_model(r, root, "top", "model", r->t->model,
			    sizeof(r->t->model));

	if (!rc)
		rc = read_each(r, root, "nodes", tei_topo_read_node);
	if (rc)
		return rc;
	tei_topo_sort_nodes(r->t);
	rc = tei_topo_read_distances(r, root);
	if (!rc)
		rc = read_each(r, root, "nics", read_nic);
	return rc ? rc : read_each(r, root, "mems", read_memory);
}

int tei_topo_from_json(struct te_topo *t, const char *text, size_t len,
		       const char *name, struct tei_topo_error *e)
{
	const struct tei_topo_reader r = {.t = t, .e = e, .name = name};
	json_error_t error;
	json_t *root;
	int rc;

	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		return tei_topo_fail(e, -EBADMSG, "%s:%d:%d: %s", name,
				     error.line, error.column, error.text);
	if (!json_is_object(root))
		rc = refuse(&r, "top", "should be an object");
	else if (json_object_get(root, "nics") || json_object_get(root, "mems"))
		rc = read_full(&r, root);
	else
		rc = tei_topo_read_matrix(&r, root);
	json_decref(root);
	return rc;
}
