/* SPDX-License-Identifier: Apache-2.0 */
/* test_prefault.c - memory that is brought in before it is used */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "te/region/memory.h"
#include "tests/lib/faults.h"
#include "tests/lib/maps.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define MIB     ((size_t)1 << 20)
#define LEN     (8 * MIB)
#define PAGE    ((size_t)4096)
#define BIG     (512 * MIB)
#define WAIT_MS 30000

static char lines[8192]; /* that were logged; guarded by lines_mu */
static pthread_mutex_t lines_mu = PTHREAD_MUTEX_INITIALIZER;
static char root[TEST_PATH_MAX];

static void keep_line(int level, const char *line, void *arg)
{
	size_t len;

	(void)arg;
	pthread_mutex_lock(&lines_mu);
	len = strlen(lines);
	snprintf(lines + len, sizeof(lines) - len, "%d %s\n", level, line);
	pthread_mutex_unlock(&lines_mu);
}

static bool was_said(void *text)
{
	bool said;

	pthread_mutex_lock(&lines_mu);
	said = strstr(lines, text) != NULL;
	pthread_mutex_unlock(&lines_mu);
	return said;
}

static unsigned int times_said(const char *text)
{
	unsigned int n = 0;

	pthread_mutex_lock(&lines_mu);
	for (const char *at = lines; (at = strstr(at, text)); at++)
		n++;
	pthread_mutex_unlock(&lines_mu);
	return n;
}

/* ---- stand-ins: the linker has these called instead (--wrap) ---- */

#define NODE_AS_IT_IS (-2)
#define NODES_MAX     8

static _Atomic int node_of_caller;    /* what tei_memory_node() returns */
static int nodes[NODES_MAX];          /* that the thread prefers, in turn */
static _Atomic unsigned int n_nodes;  /* the same node again counts once */
static _Atomic uint64_t ns_per_piece; /* 0: the thread has the system's time */

/* True in the thread that brings memory in, whose time only pieces move. */
static _Thread_local bool is_bringing_in;
static _Thread_local uint64_t time_of_pieces = TEI_NS_PER_S;
static void *(*_Atomic bring_in_all)(void *);

static void *bring_in_here(void *arg)
{
	/* gcc calls through an atomic pointer without an atomic load. */
	void *(*bring_in)(void *) = atomic_load(&bring_in_all);

	is_bringing_in = true;
	return bring_in(arg);
}

int __real_tei_thread_start(pthread_t *out, const char *name,
			    void *(*fn)(void *), void *arg);
int __wrap_tei_thread_start(pthread_t *out, const char *name,
			    void *(*fn)(void *), void *arg)
{
	if (strcmp(name, "te-prefault") != 0)
		return __real_tei_thread_start(out, name, fn, arg);
	atomic_store(&bring_in_all, fn);
	return __real_tei_thread_start(out, name, bring_in_here, arg);
}

uint64_t __real_tei_now_ns(void);
uint64_t __wrap_tei_now_ns(void)
{
	return is_bringing_in && ns_per_piece ? time_of_pieces
					      : __real_tei_now_ns();
}

/* Grows as the thread's time does, so that it gives way to nobody. */
uint64_t __real_tei_thread_cpu_ns(void);
uint64_t __wrap_tei_thread_cpu_ns(void)
{
	return is_bringing_in && ns_per_piece ? time_of_pieces
					      : __real_tei_thread_cpu_ns();
}

int __real_tei_memory_node(void);
int __wrap_tei_memory_node(void)
{
	return node_of_caller == NODE_AS_IT_IS ? __real_tei_memory_node()
					       : node_of_caller;
}

/* Runs once per piece, before it. */
void __real_tei_memory_prefer(int node);
void __wrap_tei_memory_prefer(int node)
{
	unsigned int n = n_nodes;

	if (is_bringing_in && n < NODES_MAX && (!n || nodes[n - 1] != node)) {
		nodes[n] = node;
		n_nodes = n + 1;
	}
	time_of_pieces += ns_per_piece;
	__real_tei_memory_prefer(node);
}

static int set_up(void **state)
{
	(void)state;
	lines[0] = '\0';
	node_of_caller = NODE_AS_IT_IS;
	n_nodes = 0;
	ns_per_piece = 0;
	te_log_set(keep_line, NULL);
	te_log_set_level(2);
	test_tmpdir_create(root);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	te_log_set(NULL, NULL);
	te_log_set_level(1);
	test_tmpdir_remove(root);
	return 0;
}

static void set_room(size_t mib)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "MemTotal: 10240 kB\nMemAvailable: %zu kB\n",
		 mib * 1024 + 1024); /* a tenth of all is kept */
	test_tree_write(root, "proc/meminfo", text);
}

/* ---- memory ---- */

static struct te_engine *engine_with(const char *bytes)
{
	const char *const settings[] = {"prefault", bytes, NULL};

	return rig_engine(settings);
}

static uint8_t *lend(struct te_engine *engine, size_t len, uint32_t access,
		     te_region_id *region)
{
	void *at;

	assert_int_equal(te_memory_alloc(engine, len, &at), 0);
	*region = rig_region(engine, at, len, access);
	return at;
}

static void take_back(struct te_engine *engine, te_region_id region, void *at)
{
	assert_int_equal(te_region_remove(engine, region), 0);
	te_memory_free(engine, at);
}

/* Bytes of pages that are in memory. */
static size_t there(void *at, size_t len)
{
	static unsigned char pages[BIG / PAGE];
	size_t n = 0;

	assert_int_equal(mincore(at, len, pages), 0);
	for (size_t i = 0; i < len / PAGE; i++)
		n += pages[i] & 1 ? PAGE : 0;
	return n;
}

struct lent {
	struct te_engine *engine;
	void *at;
	size_t len;
};

static bool is_all_there(void *arg)
{
	const struct lent *lent = arg;

	return there(lent->at, lent->len) == lent->len;
}

static bool has_begun(void *arg)
{
	const struct lent *lent = arg;

	return there(lent->at, lent->len) != 0;
}

/* Until the engine says so: a page is there before that. */
static bool is_none_left(void *arg)
{
	return !test_stat(arg, "te_prefault_left_bytes", NULL);
}

static void await_all(struct te_engine *engine, void *at, size_t len)
{
	struct lent lent = {engine, at, len};

	assert_true(test_wait_until(is_all_there, &lent, WAIT_MS));
	assert_true(test_wait_until(is_none_left, engine, WAIT_MS));
}

/* ---- regions ---- */

static void lent_memory_comes_by_itself_and_keeps_its_bytes(void **state)
{
	struct te_engine *engine = engine_with("1g");
	te_region_id region;
	void *memory;
	uint8_t *at;

	(void)state;
	assert_int_equal(te_memory_alloc(engine, LEN, &memory), 0);
	at = memory;
	rig_fill(at + 3 * PAGE, PAGE);
	assert_int_equal(there(at, LEN), PAGE);
	region = rig_region(engine, at, LEN, RIG_ANY);
	rig_fill(at + LEN - PAGE, PAGE); /* meanwhile */
	await_all(engine, at, LEN);
	assert_memory_equal(at + 3 * PAGE, at + LEN - PAGE, PAGE);
	for (size_t i = 4 * PAGE; i < LEN - PAGE; i++)
		assert_int_equal(at[i], 0);
	assert_int_equal(test_stat(engine, "te_prefault_bytes_total", "lent"),
			 LEN);
	assert_true(test_wait_until(was_said, "0.008 GB were brought in, in",
				    WAIT_MS));
	assert_int_equal(times_said("0.008 GB of lent memory are brought in "),
			 1);
	take_back(engine, region, at);
	te_engine_destroy(engine);
}

/* A region that is not made of whole pages: those that it touches. */
static void part_of_a_memory_comes_alone(void **state)
{
	struct te_engine *engine = engine_with("1g");
	te_region_id region;
	void *at;

	(void)state;
	assert_int_equal(te_memory_alloc(engine, LEN, &at), 0);
	region = rig_region(engine, (uint8_t *)at + 2 * PAGE - 1, PAGE + 2,
			    RIG_ANY);
	await_all(engine, (uint8_t *)at + PAGE, 3 * PAGE);
	assert_int_equal(there(at, LEN), 3 * PAGE);
	take_back(engine, region, at);
	te_engine_destroy(engine);
}

static void other_memory_comes_when_it_is_touched(void **state)
{
	struct te_engine *engine = engine_with("1g");
	te_region_id local, read_only, of_caller, last;
	uint8_t *a = lend(engine, LEN, TE_ACCESS_LOCAL, &local);
	uint8_t *b = lend(engine, LEN, TE_ACCESS_REMOTE_READ, &read_only), *d;
	void *c = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(c, MAP_FAILED);
	of_caller = rig_region(engine, c, LEN, RIG_ANY);
	d = lend(engine, LEN, RIG_ANY, &last); /* its turn is the last */
	await_all(engine, d, LEN);
	assert_int_equal(there(a, LEN) + there(b, LEN) + there(c, LEN), 0);
	assert_int_equal(test_stat(engine, "te_prefault_bytes_total", NULL),
			 LEN);
	take_back(engine, local, a);
	take_back(engine, read_only, b);
	take_back(engine, last, d);
	assert_int_equal(te_region_remove(engine, of_caller), 0);
	munmap(c, LEN);
	te_engine_destroy(engine);
}

static void nothing_comes_where_it_is_off(void **state)
{
	struct te_engine *engine = engine_with("0");
	te_region_id region;
	uint8_t *at = lend(engine, LEN, RIG_ANY, &region);

	(void)state;
	assert_true(is_none_left(engine));
	take_back(engine, region, at);
	te_engine_destroy(engine);
	assert_int_equal(times_said("lent memory"), 0);
}

/* A host without these nodes refuses them, which changes nothing. */
static void pages_come_from_the_node_of_who_added_their_region(void **state)
{
	static const int wanted[] = {3, 5, -1};
	struct te_engine *engine = engine_with("1g");
	te_region_id regions[3];
	uint8_t *at[3];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		node_of_caller = wanted[i];
		at[i] = lend(engine, LEN, RIG_ANY, &regions[i]);
	}
	node_of_caller = 7; /* of nobody who adds one */
	for (size_t i = 0; i < 3; i++)
		await_all(engine, at[i], LEN);
	assert_int_equal(n_nodes, 3);
	assert_memory_equal(nodes, wanted, sizeof(wanted));
	for (size_t i = 0; i < 3; i++)
		take_back(engine, regions[i], at[i]);
	te_engine_destroy(engine);
}

/* ---- progress ---- */

/* 32 pieces of 4 s: a line after each third, which is the first after 10 s. */
static void progress_is_logged_every_ten_seconds(void **state)
{
	struct te_engine *engine = engine_with("1g");
	te_region_id region;
	uint8_t *at;

	(void)state;
	ns_per_piece = 4 * TEI_NS_PER_S;
	at = lend(engine, LEN, RIG_ANY, &region);
	await_all(engine, at, LEN);
	assert_true(was_said("2 engine 127.0.0.1:"));
	assert_true(was_said("lent memory: 0.001 of 0.008 GB (9 %) were "
			     "brought in, in 12.0 s"));
	assert_true(was_said("lent memory: 0.002 of 0.008 GB (19 %) were "
			     "brought in, in 24.0 s"));
	assert_true(was_said("lent memory: 0.008 of 0.008 GB (94 %) were "
			     "brought in, in 120.0 s"));
	assert_int_equal(times_said(" %) were brought in"), 10);
	take_back(engine, region, at);
	te_engine_destroy(engine);
}

static void progress_counts_what_was_lent_last(void **state)
{
	struct te_engine *engine = engine_with("1g");
	te_region_id regions[2];
	uint8_t *at[2];

	(void)state;
	ns_per_piece = 4 * TEI_NS_PER_S;
	at[0] = lend(engine, LEN, RIG_ANY, &regions[0]);
	assert_true(test_wait_until(was_said, "lent memory: 0.008 GB were",
				    WAIT_MS));
	at[1] = lend(engine, LEN, RIG_ANY, &regions[1]);
	await_all(engine, at[1], LEN);
	assert_int_equal(times_said("0.001 of 0.008 GB (9 %) were brought in, "
				    "in 12.0 s"),
			 2);
	for (size_t i = 0; i < 2; i++)
		take_back(engine, regions[i], at[i]);
	te_engine_destroy(engine);
}

static void progress_counts_what_the_setting_permits(void **state)
{
	struct te_engine *engine = engine_with("4m");
	te_region_id region;
	uint8_t *at;

	(void)state;
	ns_per_piece = 4 * TEI_NS_PER_S;
	at = lend(engine, LEN, RIG_ANY, &region);
	assert_true(test_wait_until(was_said, "as the setting prefault has it",
				    WAIT_MS));
	assert_true(was_said("lent memory: 0.001 of 0.004 GB (19 %) were "
			     "brought in, in 12.0 s"));
	assert_int_equal(times_said(" %) were brought in"), 5);
	take_back(engine, region, at);
	te_engine_destroy(engine);
}

static void nothing_is_logged_before_ten_seconds(void **state)
{
	struct te_engine *engine = engine_with("1g");
	te_region_id region;
	uint8_t *at;

	(void)state;
	ns_per_piece = TEI_NS_PER_S / 4; /* 8 s in all */
	at = lend(engine, LEN, RIG_ANY, &region);
	await_all(engine, at, LEN);
	assert_int_equal(times_said(" %) were brought in"), 0);
	take_back(engine, region, at);
	te_engine_destroy(engine);
}

/* ---- limits ---- */

static void no_more_comes_than_the_setting_says(void **state)
{
	struct te_engine *engine = engine_with("1m");
	te_region_id first, second;
	uint8_t *a = lend(engine, LEN, RIG_ANY, &first), *b;

	(void)state;
	assert_true(test_wait_until(was_said, "2 engine 127.0.0.1:", WAIT_MS));
	assert_true(test_wait_until(was_said, "as the setting prefault has it",
				    WAIT_MS));
	assert_int_equal(there(a, LEN), MIB);
	assert_int_equal(test_stat(engine, "te_prefault_left_bytes", NULL),
			 LEN - MIB);
	b = lend(engine, MIB / 2, RIG_ANY, &second);
	assert_int_equal(there(b, MIB / 2), 0);
	take_back(engine, first, a);
	await_all(engine, b, MIB / 2); /* there is room again */
	take_back(engine, second, b);
	te_engine_destroy(engine);
}

static struct te_engine *engine_below_root(void)
{
	const char *const settings[] = {"prefault_root", root, "prefault", "1g",
					NULL};

	return rig_engine(settings);
}

static void it_waits_for_room_and_goes_on(void **state)
{
	struct te_engine *engine;
	te_region_id region;
	uint8_t *at;

	(void)state;
	set_room(0);
	engine = engine_below_root();
	at = lend(engine, 2 * LEN, RIG_ANY, &region);
	assert_true(test_wait_until(
		was_said, "the memory of this host leaves 0.000 GB", WAIT_MS));
	assert_true(was_said("1 engine "));
	assert_int_equal(there(at, 2 * LEN), 0);
	set_room(3); /* enough to go on, but not to begin again */
	set_room(200);
	await_all(engine, at, 2 * LEN);
	assert_int_equal(times_said("come when they are used"), 1);
	take_back(engine, region, at);
	te_engine_destroy(engine);
}

/* What is left is looked at again while memory comes. */
static void it_stops_where_room_runs_out(void **state)
{
	struct te_engine *engine;
	te_region_id region;
	uint8_t *at;

	(void)state;
	set_room(3);
	engine = engine_below_root();
	at = lend(engine, BIG, RIG_ANY, &region);
	assert_true(test_wait_until(has_begun, &(struct lent){engine, at, BIG},
				    WAIT_MS));
	set_room(0);
	/* On a host that held this thread up all may have come by now. */
	if (test_wait_until(was_said, "the memory of this host leaves", 1000))
		assert_true(there(at, BIG) >= 3 * MIB);
	take_back(engine, region, at);
	te_engine_destroy(engine);
}

static void a_control_group_without_room_leaves_it_as_it_is(void **state)
{
	struct te_engine *engine;
	te_region_id region;
	uint8_t *at;

	(void)state;
	set_room(1000);
	test_tree_write(root, "proc/self/cgroup", "0::/a/b\n");
	test_tree_write(root, "sys/fs/cgroup/a/memory.max", "1048576\n");
	test_tree_write(root, "sys/fs/cgroup/a/memory.current", "900000\n");
	engine = engine_below_root();
	at = lend(engine, LEN, RIG_ANY, &region);
	assert_true(test_wait_until(
		was_said, "the limit of its control group leaves", WAIT_MS));
	assert_int_equal(there(at, LEN), 0);
	take_back(engine, region, at);
	te_engine_destroy(engine);
}

static void without_a_thread_memory_comes_when_it_is_touched(void **state)
{
	struct te_engine *engine = engine_with("1g");
	te_region_id region;
	uint8_t *at;

	(void)state;
	tei_fault_arm(TEI_FAULT_THREAD, 1);
	at = lend(engine, LEN, RIG_ANY, &region);
	tei_fault_disarm_all();
	assert_true(was_said("no thread"));
	assert_true(is_none_left(engine));
	at[0] = 1;
	take_back(engine, region, at);
	te_engine_destroy(engine);
}

/* ---- ends in the midst ---- */

static void regions_may_go_at_any_time(void **state)
{
	struct te_engine *engine = engine_with("1g");
	te_region_id region, other;
	uint8_t *at, *b;

	(void)state;
	for (int i = 0; i < 20; i++) {
		at = lend(engine, BIG, RIG_ANY, &region);
		b = lend(engine, LEN, RIG_ANY, &other);
		if (i % 2)
			assert_true(test_wait_until(
				has_begun, &(struct lent){engine, at, BIG},
				WAIT_MS));
		take_back(engine, region, at);
		take_back(engine, other, b);
		assert_true(is_none_left(engine));
	}
	at = lend(engine, LEN, RIG_ANY, &region);
	await_all(engine, at, LEN);
	take_back(engine, region, at);
	te_engine_destroy(engine);
}

/* A mistake of the caller, which holds up nobody. */
static void memory_that_is_freed_too_early_is_left_out(void **state)
{
	struct te_engine *engine = engine_with("1g");
	te_region_id early, other;
	void *at, *b;

	(void)state;
	assert_int_equal(te_memory_alloc(engine, BIG, &at), 0);
	assert_int_equal(te_memory_alloc(engine, LEN, &b), 0);
	early = rig_region(engine, at, BIG, RIG_ANY);
	te_memory_free(engine, at);
	other = rig_region(engine, b, LEN, RIG_ANY);
	await_all(engine, b, LEN);
	assert_int_equal(te_region_remove(engine, early), 0);
	take_back(engine, other, b);
	te_engine_destroy(engine);
	assert_int_equal(times_said("come when they are used"), 0);
}

static void engines_may_end_at_any_time(void **state)
{
	te_region_id region;

	(void)state;
	for (int i = 0; i < 10; i++) {
		struct te_engine *engine = engine_with("1g");
		uint8_t *at = lend(engine, BIG, RIG_ANY, &region);

		if (i % 2)
			assert_true(test_wait_until(
				has_begun, &(struct lent){engine, at, BIG},
				WAIT_MS));
		te_engine_destroy(engine); /* and frees the memory */
	}
}

static void a_fork_child_leaves_it_to_its_parent(void **state)
{
	struct te_engine *engine = engine_with("1g");
	te_region_id region;
	uint8_t *at = lend(engine, 4 * LEN, RIG_ANY, &region);
	int status;
	pid_t pid;

	(void)state;
	assert_true(test_wait_until(
		has_begun, &(struct lent){engine, at, 4 * LEN}, WAIT_MS));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		bool right = te_region_remove(engine, region) == -ESTALE;

		te_memory_free(engine, at);
		te_engine_destroy(engine);
		at[5] = 1; /* shared */
		_exit(right ? 0 : 1);
	}
	await_all(engine, at, 4 * LEN);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	assert_int_equal(at[5], 1);
	take_back(engine, region, at);
	te_engine_destroy(engine);
}

/* ---- mappings of what peers lend ---- */

static bool are_entered(void *arg)
{
	const struct lent *lent = arg;

	return test_stat(lent->engine, "te_prefault_bytes_total", "mapped") ==
	       lent->len;
}

static void pages_of_peers_are_entered_once_they_are_there(void **state)
{
	const char *const shm[] = {"backends", "shm", "prefault", "1g", NULL};
	const char *const off[] = {"backends", "shm", "prefault", "0", NULL};
	struct te_engine *owner = rig_engine(off), *user = rig_engine(shm);
	static uint8_t local[PAGE] = {1};
	te_region_id region;
	uint8_t *at = lend(owner, LEN, RIG_ANY, &region);
	te_segment_id segment = rig_segment(user, owner);

	(void)state;
	memset(at, 7, 2 * MIB + 5 * PAGE);
	assert_int_equal(rig_move(user, segment, TE_WRITE, at, local, PAGE), 0);
	assert_true(test_wait_until(
		are_entered, &(struct lent){user, at, 2 * MIB + 5 * PAGE},
		WAIT_MS));
	assert_int_equal(there(at, LEN), 2 * MIB + 5 * PAGE);
	assert_int_equal(test_memory_entered(LEN, at), 2 * MIB + 5 * PAGE);

	memset(at, 8, LEN); /* it follows */
	assert_true(test_wait_until(are_entered, &(struct lent){user, at, LEN},
				    WAIT_MS));
	assert_int_equal(test_memory_entered(LEN, at), LEN);
	take_back(owner, region, at);
	te_engine_destroy(user);
	te_engine_destroy(owner);
}

static void peers_may_end_at_any_time(void **state)
{
	const char *const shm[] = {"backends", "shm", "prefault", "1g", NULL};
	static uint8_t local[PAGE] = {1};
	te_region_id region;

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct te_engine *owner = rig_engine(shm),
				 *user = rig_engine(shm);
		uint8_t *at = lend(owner, BIG / 4, RIG_ANY, &region);
		te_segment_id segment = rig_segment(user, owner);

		assert_int_equal(
			rig_move(user, segment, TE_WRITE, at, local, PAGE), 0);
		if (i % 3 == 0)
			te_engine_destroy(owner);
		else if (i % 3 == 1)
			take_back(owner, region, at);
		te_engine_destroy(user);
		if (i % 3)
			te_engine_destroy(owner);
	}
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lent_memory_comes_by_itself_and_keeps_its_bytes),
		TEST(part_of_a_memory_comes_alone),
		TEST(other_memory_comes_when_it_is_touched),
		TEST(nothing_comes_where_it_is_off),
		TEST(pages_come_from_the_node_of_who_added_their_region),
		TEST(progress_is_logged_every_ten_seconds),
		TEST(progress_counts_what_was_lent_last),
		TEST(progress_counts_what_the_setting_permits),
		TEST(nothing_is_logged_before_ten_seconds),
		TEST(no_more_comes_than_the_setting_says),
		TEST(it_waits_for_room_and_goes_on),
		TEST(it_stops_where_room_runs_out),
		TEST(a_control_group_without_room_leaves_it_as_it_is),
		TEST(without_a_thread_memory_comes_when_it_is_touched),
		TEST(regions_may_go_at_any_time),
		TEST(memory_that_is_freed_too_early_is_left_out),
		TEST(engines_may_end_at_any_time),
		TEST(a_fork_child_leaves_it_to_its_parent),
		TEST(pages_of_peers_are_entered_once_they_are_there),
		TEST(peers_may_end_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
