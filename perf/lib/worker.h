/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h - what a process shares with the one that started it: memory, in a
 * memfd that it inherits, and words on its standard streams
 *
 * The other side of the words is process.h. Threads: none of its own.
 */
#ifndef PERF_LIB_WORKER_H
#define PERF_LIB_WORKER_H

#include <stdbool.h>
#include <stdint.h>

/* @len bytes of zeros, in a memfd called @name. munmap() and close(). -errno. */
int tei_shared_create(const char *name, uint64_t len, void **out, int *out_fd);
/* Map all of another's. -EINVAL: it has less than @least bytes; -errno. */
int tei_shared_open(int fd, uint64_t least, void **out);

/* Whether the next line begins with @word. Blocks. */
bool tei_worker_hear(const char *word);
void tei_worker_say(const char *word);

#endif
