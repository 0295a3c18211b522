/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - pictures of the machines in tests/data/topology */
#include "machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void machine_unpack(struct machine *m, const char *name)
{
	char tree[128];

	test_tmpdir_create(m->dir);
	snprintf(tree, sizeof(tree), "topology/%s.tree", name);
	test_tree_unpack(tree, m->dir);
	snprintf(m->root, sizeof(m->root), "%s/sys", m->dir);
	m->topo = NULL;
}

void machine_look(struct machine *m, uint32_t flags)
{
	const struct te_topo_source source = {.sysfs_root = m->root,
					      .flags = flags};
	char error[300] = "";

	if (te_topo_load(&source, &m->topo, error, sizeof(error)))
		fail_msg("%s", error);
}

void machine_open(struct machine *m, const char *name)
{
	machine_unpack(m, name);
	machine_look(m, 0);
}

void machine_close(struct machine *m)
{
	te_topo_destroy(m->topo);
	test_tmpdir_remove(m->dir);
}

uint32_t nic_at(const struct te_topo *topo, const char *name)
{
	uint32_t index = 0;

	if (te_topo_find_nic(topo, name, &index))
		fail_msg("no NIC %s", name);
	return index;
}

uint32_t memory_at(const struct te_topo *topo, const char *name)
{
	uint32_t index = 0;

	if (te_topo_find_memory(topo, name, &index))
		fail_msg("no memory %s", name);
	return index;
}

struct te_topo_nic nic_named(const struct te_topo *topo, const char *name)
{
	struct te_topo_nic nic;

	assert_int_equal(te_topo_nic(topo, nic_at(topo, name), &nic), 0);
	return nic;
}

struct te_topo_memory memory_named(const struct te_topo *topo, const char *name)
{
	struct te_topo_memory memory;

	assert_int_equal(te_topo_memory(topo, memory_at(topo, name), &memory),
			 0);
	return memory;
}

const char *rails_of(const struct te_topo *topo, const char *memory)
{
	static char text[4096];
	uint32_t nics[64];
	size_t n = TEST_COUNT(nics), n_preferred, i, len = 0;
	struct te_topo_nic nic;

	assert_int_equal(te_topo_rails(topo, memory_at(topo, memory), nics, &n,
				       &n_preferred),
			 0);
	text[0] = '\0';
	for (i = 0; i <= n; i++) {
		if (i == n_preferred)
			len += (size_t)snprintf(text + len, sizeof(text) - len,
						"%s|", len ? " " : "");
		if (i == n)
			break;
		assert_int_equal(te_topo_nic(topo, nics[i], &nic), 0);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
					len ? " " : "", nic.name);
	}
	return text;
}

int has_note(const struct te_topo *topo, uint32_t kind, const char *text)
{
	struct te_topo_note note;
	uint32_t i;

	for (i = 0; !te_topo_note(topo, i, &note); i++) {
		if (note.kind == kind && strstr(note.text, text))
			return 1;
	}
	return 0;
}

char *json_of(const struct te_topo *topo, enum te_topo_form form)
{
	size_t len = 0;
	char *text;

	assert_int_equal(te_topo_format(topo, form, NULL, &len), -ENOBUFS);
	text = malloc(len);
	assert_non_null(text);
	assert_int_equal(te_topo_format(topo, form, text, &len), 0);
	assert_int_equal(strlen(text) + 1, len);
	return text;
}
