/* SPDX-License-Identifier: Apache-2.0 */
/* patient.h - machines of files for te-doctor to look at */
#ifndef TESTS_UNIT_CMD_PATIENT_H
#define TESTS_UNIT_CMD_PATIENT_H

#include "cmd/doctor/host.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"

struct patient {
	char dir[TEST_PATH_MAX];
	struct tei_probes probes;
	struct tei_report report;
};

/*
 * The machine tests/data/topology/@tree.tree, or "one-gpu", which is one-nic
 * with a GPU of NVIDIA's; and all that a healthy one has beside it. Files can
 * then be changed: test_tree_write(), _lose(), _link().
 */
void patient_open(struct patient *p, const char *tree);
void patient_lose(const struct patient *p, const char *path);
/* A link in place of what is there. */
void patient_link(const struct patient *p, const char *path,
		  const char *target);
/* Every check, with a report of its own. */
void patient_look(struct patient *p);
/* There is a finding of this check and object, and it says this. */
void patient_has(const struct patient *p, const char *check, const char *object,
		 enum tei_mark mark, const char *text);
void patient_close(struct patient *p);

/* One thing that is wrong with a machine, and what is found then. */
struct ailment {
	const char *path, *text; /* NULL: the file is lost */
	const char *check, *object;
	enum tei_mark mark;
	const char *found;
};

/* Each alone, on a machine that is healthy otherwise. */
void patients_show(const char *tree, const struct ailment *list, size_t n);

#endif
