/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish.h - a name of ours in a directory, for as long as we live
 *
 * A thread writes the entry, refreshes it, and writes it again when it is gone
 * (a directory may have forgotten everything) or what it says is no longer
 * true. A directory that is not reached is one warning and tried again, less
 * and less often.
 *
 * The entry under our name may be another engine's. One that is surely gone
 * (its addresses refuse connections, or are ours now) is replaced at once; a
 * living one keeps the name, which is one warning, until it leaves or its entry
 * vanishes. Removing is conditional: nobody's entry but our own.
 */
#ifndef TE_DIRECTORY_PUBLISH_H
#define TE_DIRECTORY_PUBLISH_H

#include <stdint.h>

#include "te/directory/entry.h"

struct tei_directory;
struct tei_publisher;

/* Takes a reference to @dir. -ENOMEM, -EAGAIN (no thread), -ENAMETOOLONG. */
int tei_publisher_start(struct tei_directory *dir, const char *name,
			const struct tei_entry *self,
			struct tei_publisher **out);
/*
 * The entry is to say @self from now on. Any thread, until stop(); does not
 * wait.
 */
void tei_publisher_renew(struct tei_publisher *p, const struct tei_entry *self);
/* Begin to remove the entry; does not wait. NULL is fine, here and below. */
void tei_publisher_leave(struct tei_publisher *p);
/*
 * Wait until it is removed, at most until @until_ns; then the thread is left to
 * itself, and ends after the call that it is in and one that removes. Frees.
 */
void tei_publisher_stop(struct tei_publisher *p, uint64_t until_ns);

#endif
