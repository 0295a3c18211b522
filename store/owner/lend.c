/* SPDX-License-Identifier: Apache-2.0 */
/* lend.c - memory of segments: fresh, or part of a file; and letting go of it */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/client/client.h"

#define ALL_MS 500 /* letting go of all when the store closes */

void tes_segments_init(struct te_store *store)
{
	tei_list_init(&store->segments.list);
}

static void free_memory(struct te_store *store, struct tes_segment *segment)
{
	if (segment->mapping)
		(void)munmap(segment->mapping, (size_t)segment->bytes);
	else if (segment->memory)
		te_memory_free(store->engine, segment->memory);
	segment->mapping = NULL;
	segment->memory = NULL;
}

void tes_segment_withdraw(struct te_store *store, struct tes_segment *segment,
			  uint32_t ms)
{
	bool released = tes_executor_release(&store->executor, segment, ms);

	/* Else a writer stands still in the middle of a copy. */
	if (segment->region &&
	    te_region_remove_within(store->engine, segment->region, ms) ==
		    -ETIMEDOUT)
		LOG_WARN("segment: left to the engine: a process, stopped in "
			 "the middle of a copy, may still write to it");
	else if (!released)
		LOG_WARN("segment: its memory is kept: a copy to another owner "
			 "does not end");
	else
		free_memory(store, segment);
	segment->region = 0;
	segment->memory = NULL;
}

/* All of them together take as long as one may. */
void tes_segments_fini(struct te_store *store)
{
	uint64_t until = tei_now_ns() + ALL_MS * TEI_NS_PER_MS, now;
	struct tei_list *node;

	while ((node = tei_list_pop(&store->segments.list))) {
		struct tes_segment *segment =
			tei_list_entry(node, struct tes_segment, link);

		now = tei_now_ns();
		tes_segment_withdraw(
			store, segment,
			now < until
				? (uint32_t)((until - now) / TEI_NS_PER_MS) + 1
				: 1);
		tes_segment_free(segment);
	}
}

void tes_segment_free(struct tes_segment *segment)
{
	tes_keep_fini(&segment->keep);
	tei_free(segment);
}

static struct tes_segment *new_segment(uint64_t bytes)
{
	struct tes_segment *segment = tei_calloc(1, sizeof(*segment));

	if (!segment)
		return NULL;
	tei_list_init(&segment->link);
	segment->bytes = bytes;
	tes_keep_init(&segment->keep, bytes);
	if (RAND_bytes(segment->id, sizeof(segment->id)) == 1)
		return segment;
	tes_segment_free(segment);
	return NULL;
}

int tes_segment_create(struct te_store *store, uint64_t bytes,
		       struct tes_segment **out)
{
	struct tes_segment *segment;
	int rc;

	if (!bytes || bytes > TE_LENGTH_MAX)
		return TE_STORE_INVALID_PARAMS;
	segment = new_segment(bytes);
	if (!segment)
		return TE_STORE_INTERNAL_ERROR;
	rc = te_memory_alloc(store->engine, bytes, &segment->memory);
	if (rc) {
		LOG_ERROR("segment: %llu bytes: %s", (unsigned long long)bytes,
			  te_strerror(rc));
		tes_segment_free(segment);
		return TE_STORE_INTERNAL_ERROR;
	}
	*out = segment;
	return 0;
}

/* Of a file that has these bytes; else touching them would be a signal. */
static int map_file(struct tes_segment *segment, int fd, uint64_t offset)
{
	struct stat st;
	void *at;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size < 0 || offset > (uint64_t)st.st_size ||
	    segment->bytes > (uint64_t)st.st_size - offset)
		return -ERANGE;
	at = mmap(NULL, (size_t)segment->bytes, PROT_READ | PROT_WRITE,
		  MAP_SHARED, fd, (off_t)offset);
	if (at == MAP_FAILED)
		return -errno;
	segment->mapping = segment->memory = at;
	segment->device = st.st_dev;
	segment->inode = st.st_ino;
	segment->offset = offset;
	return 0;
}

int tes_segment_map(const char *path, uint64_t offset, uint64_t bytes,
		    struct tes_segment **out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct tes_segment *segment;
	int fd, rc;

	if (!bytes || bytes > TE_LENGTH_MAX || bytes % page || offset % page ||
	    offset > INT64_MAX - bytes)
		return TE_STORE_INVALID_PARAMS;
	segment = new_segment(bytes);
	if (!segment)
		return TE_STORE_INTERNAL_ERROR;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	rc = fd < 0 ? -errno : map_file(segment, fd, offset);
	if (fd >= 0)
		(void)close(fd);
	if (rc) {
		LOG_ERROR("segment: %s: %s", path,
			  rc == -ERANGE ? "shorter than what is to be mounted"
					: strerror(-rc));
		tes_segment_free(segment);
		return TE_STORE_INVALID_PARAMS;
	}
	*out = segment;
	return 0;
}
