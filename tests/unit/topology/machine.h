/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - pictures of the machines in tests/data/topology */
#ifndef TESTS_UNIT_TOPOLOGY_MACHINE_H
#define TESTS_UNIT_TOPOLOGY_MACHINE_H

#include <te/topo.h>

#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"

struct machine {
	char dir[TEST_PATH_MAX];
	char root[TEST_PATH_MAX + 8]; /* dir/sys */
	struct te_topo *topo;
};

/* Unpack @name.tree; look() takes the picture. Each fails the test on error. */
void machine_unpack(struct machine *m, const char *name);
void machine_look(struct machine *m, uint32_t flags);
/* Both. */
void machine_open(struct machine *m, const char *name);
void machine_close(struct machine *m);

uint32_t nic_at(const struct te_topo *topo, const char *name);
uint32_t memory_at(const struct te_topo *topo, const char *name);
struct te_topo_nic nic_named(const struct te_topo *topo, const char *name);
struct te_topo_memory memory_named(const struct te_topo *topo,
				   const char *name);
/* "a b | c d": the preferred NICs of a memory, and the others. */
const char *rails_of(const struct te_topo *topo, const char *memory);
/* Whether there is a note of this kind that contains this text. */
int has_note(const struct te_topo *topo, uint32_t kind, const char *text);
/* The picture as JSON; te_test frees it with free(). */
char *json_of(const struct te_topo *topo, enum te_topo_form form);

#endif
