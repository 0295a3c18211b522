/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl.c - as NIXL's plugin and TensorRT-LLM use the engine, from C alone
 *
 * It needs the header and -ltransfer_engine, nothing else of this tree. One agent
 * writes blocks into another process and reads them back: 1,024 tasks of one batch
 * in several submissions, each with its word, asked about without a pause. The
 * other process is this program again ("agent [HOST:PORT]"), which compares what
 * it has with what it is told, and is killed in the middle.
 *
 * With TE_TEST_MEMORY=cuda:N the memory of both is that GPU's, by the driver that
 * TE_CUDA_LIBRARY names; TE_TEST_LOCATION is what it is registered as, else "*".
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transfer_engine_c.h"

#define TASKS    1024 /* of one batch */
#define SUBMIT   128  /* at once */
#define SIZE     4096
#define LENGTH   ((size_t)TASKS * SIZE)
#define NAME_LEN 64
#define ROUNDS   3

#define CHECK(fact) check(fact, #fact, __LINE__)

static void check(int fact, const char *what, int line)
{
	if (fact)
		return;
	(void)fprintf(stderr, "nixl.c:%d: not so: %s\n", line, what);
	exit(1);
}

/* ---- memory of the host, or of a GPU ---- */

static struct {
	int (*init)(unsigned int flags);
	int (*retain)(void **context, int device);
	int (*push)(void *context);
	int (*alloc)(uint64_t *out, size_t size);
	int (*free)(uint64_t at);
	int (*stream)(void **out, unsigned int flags);
	int (*await)(void *stream);
	int (*out)(void *to, uint64_t from, size_t size, void *stream);
	int (*in)(uint64_t to, const void *from, size_t size, void *stream);
} cuda;

static void *stream; /* of the GPU; NULL: memory is the host's */

static void find(void *library, const char *name, void *at)
{
	void *symbol = dlsym(library, name);

	CHECK(symbol != NULL);
	memcpy(at, &symbol, sizeof(symbol));
}

static void load_driver(void)
{
	const char *file = getenv("TE_CUDA_LIBRARY");
	void *library = dlopen(file ? file : "libcuda.so.1", RTLD_NOW);

	CHECK(library != NULL);
	find(library, "cuInit", &cuda.init);
	find(library, "cuDevicePrimaryCtxRetain", &cuda.retain);
	find(library, "cuCtxPushCurrent_v2", &cuda.push);
	find(library, "cuMemAlloc_v2", &cuda.alloc);
	find(library, "cuMemFree_v2", &cuda.free);
	find(library, "cuStreamCreate", &cuda.stream);
	find(library, "cuStreamSynchronize", &cuda.await);
	find(library, "cuMemcpyDtoHAsync_v2", &cuda.out);
	find(library, "cuMemcpyHtoDAsync_v2", &cuda.in);
}

/* memory[LENGTH]; the GPU's context stays current in this thread. */
static unsigned char *allocate(void)
{
	const char *place = getenv("TE_TEST_MEMORY");
	unsigned char *memory;
	void *context = NULL;
	uint64_t at;
	int gpu;

	if (!place || sscanf(place, "cuda:%d", &gpu) != 1) {
		memory = calloc(1, LENGTH);
		CHECK(memory != NULL);
		return memory;
	}
	load_driver();
	CHECK(!cuda.init(0) && !cuda.retain(&context, gpu));
	CHECK(!cuda.push(context) && !cuda.stream(&stream, 1));
	CHECK(!cuda.alloc(&at, LENGTH));
	return (unsigned char *)(uintptr_t)at;
}

static void give_back(unsigned char *memory)
{
	if (stream)
		CHECK(!cuda.free((uintptr_t)memory));
	else
		free(memory);
}

static void fill(unsigned char *memory, int pattern)
{
	static unsigned char bytes[LENGTH];

	if (!stream) {
		memset(memory, pattern, LENGTH);
		return;
	}
	memset(bytes, pattern, LENGTH);
	CHECK(!cuda.in((uintptr_t)memory, bytes, LENGTH, stream));
	CHECK(!cuda.await(stream));
}

static int holds(const unsigned char *memory, int pattern, size_t length)
{
	static unsigned char bytes[LENGTH];

	if (stream) {
		CHECK(!cuda.out(bytes, (uintptr_t)memory, length, stream));
		CHECK(!cuda.await(stream));
		memory = bytes;
	}
	return memory[0] == pattern && !memcmp(memory, memory + 1, length - 1);
}

/* ---- an engine with memory, on either side ---- */

struct agent {
	transfer_engine_t engine;
	char name[NAME_LEN];
	unsigned char *memory; /* memory[LENGTH] */
};

static struct agent start(const char *at)
{
	const char *location = getenv("TE_TEST_LOCATION");
	struct agent a = {.memory = allocate()};

	if (!location)
		location = "*";
	a.engine = createTransferEngine("P2PHANDSHAKE", at, "", 0, 1);
	CHECK(a.engine != NULL);
	CHECK(!getLocalIpAndPort(a.engine, a.name, sizeof(a.name)));
	CHECK(!registerLocalMemory(a.engine, a.memory, LENGTH, location, 1));
	return a;
}

static void end(struct agent *a)
{
	CHECK(!unregisterLocalMemory(a->engine, a->memory));
	destroyTransferEngine(a->engine);
	give_back(a->memory);
}

/* ---- the other process ---- */

/* "PATTERN LENGTH", from whom the answer is for. */
static void answer(struct agent *a, const notify_msg_t *told)
{
	segment_id_t segment = openSegment(a->engine, told->name);
	notify_msg_t word = {a->name, (char *)"wrong"};
	size_t length = 0;
	int pattern = -1;

	CHECK(sscanf(told->msg, "%d %zu", &pattern, &length) == 2);
	if (holds(a->memory, pattern, length))
		word.msg = (char *)"right";
	CHECK(segment > 0);
	CHECK(!genNotifyInEngine(a->engine, (uint64_t)segment, word));
}

/* Until its input ends. */
static int serve(const char *at)
{
	struct agent a = start(at);
	struct pollfd input = {.fd = 0, .events = POLLIN};
	notify_msg_t *told;
	int n;

	printf("%s %" PRIuPTR "\n", a.name, (uintptr_t)a.memory);
	(void)fflush(stdout);
	while (!poll(&input, 1, 1)) {
		told = getNotifsFromEngine(a.engine, &n);
		for (int i = 0; i < n; i++)
			answer(&a, &told[i]);
		CHECK(!freeNotifsMsgBuf(told, n));
	}
	end(&a);
	return 0;
}

struct other {
	pid_t pid;
	int input;
	char name[NAME_LEN];
	uint64_t memory;
	segment_id_t segment; /* here */
};

static void become_the_other(const char *at, int input, int output)
{
	char *const args[] = {(char *)"nixl", (char *)"agent",
			      (char *)(uintptr_t)at, NULL};

	(void)dup2(input, 0);
	(void)dup2(output, 1);
	for (int fd = 3; fd < 64; fd++)
		(void)close(fd);
	(void)execv("/proc/self/exe", args);
	_exit(127);
}

static struct other meet(const struct agent *a, const char *at)
{
	struct other o = {0};
	int input[2], output[2];
	FILE *lines;

	CHECK(!pipe(input) && !pipe(output));
	o.pid = fork();
	CHECK(o.pid >= 0);
	if (!o.pid)
		become_the_other(at, input[0], output[1]);
	(void)close(input[0]);
	(void)close(output[1]);
	o.input = input[1];
	lines = fdopen(output[0], "r");
	CHECK(lines != NULL);
	CHECK(fscanf(lines, "%63s %" SCNu64, o.name, &o.memory) == 2);
	(void)fclose(lines);
	o.segment = openSegment(a->engine, o.name);
	CHECK(o.segment > 0);
	return o;
}

static void part(struct other *o, int signal)
{
	int status;

	if (signal)
		CHECK(!kill(o->pid, signal));
	(void)close(o->input);
	CHECK(waitpid(o->pid, &status, 0) == o->pid);
	CHECK(signal ? WIFSIGNALED(status)
		     : WIFEXITED(status) && !WEXITSTATUS(status));
}

static int is_free(int port)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
	};
	int fd = socket(AF_INET, SOCK_STREAM, 0), rc;

	CHECK(fd >= 0);
	rc = bind(fd, (const struct sockaddr *)&address, sizeof(address));
	(void)close(fd);
	return !rc;
}

/*
 * With a port that stays free while its owner is dead: those that the kernel
 * chooses, from 32768 on, may be another's by then.
 */
static void name_to_keep(const char *host, char name[NAME_LEN])
{
	int port = 20000 + (int)(getpid() % 10000);

	while (!is_free(port))
		port++;
	(void)snprintf(name, NAME_LEN, "%s:%d", host, port);
}

/* ---- transfers ---- */

static void submit(const struct agent *a, const struct other *o,
		   batch_id_t batch, int opcode, int first,
		   const notify_msg_t *word)
{
	struct transfer_request r[SUBMIT];
	int rc;

	for (int i = 0; i < SUBMIT; i++) {
		size_t at = (size_t)(first + i) * SIZE;

		r[i] = (struct transfer_request){.opcode = opcode,
						 .source = a->memory + at,
						 .target_id = o->segment,
						 .target_offset =
							 o->memory + at,
						 .length = SIZE};
	}
	rc = word ? submitTransferWithNotify(a->engine, batch, r, SUBMIT, *word)
		  : submitTransfer(a->engine, batch, r, SUBMIT);
	CHECK(!rc);
}

/* Asks until all have ended; how many of them have failed. */
static int n_failed(const struct agent *a, batch_id_t batch, int n)
{
	struct transfer_status s;
	int n_bad = 0;

	for (int task = 0; task < n; task++) {
		CHECK(!getTransferStatus(a->engine, batch, (size_t)task, &s));
		while (s.status == STATUS_WAITING) {
			(void)sched_yield(); /* the other needs a core, too */
			CHECK(!getTransferStatus(a->engine, batch, (size_t)task,
						 &s));
		}
		CHECK(s.status == STATUS_COMPLETED ||
		      s.status == STATUS_FAILED);
		n_bad += s.status == STATUS_FAILED;
	}
	return n_bad;
}

/* All words of the other, which has compared @n times. */
static void expect_right(const struct agent *a, int n)
{
	notify_msg_t *told;
	int n_told;

	while (n > 0) {
		told = getNotifsFromEngine(a->engine, &n_told);
		for (int i = 0; i < n_told; i++)
			CHECK(!strcmp(told[i].msg, "right"));
		CHECK(!freeNotifsMsgBuf(told, n_told));
		n -= n_told;
		(void)sched_yield();
	}
	CHECK(!n);
}

/* A batch that is used up by submissions that tell, and one that reads. */
static void exchange(const struct agent *a, const struct other *o, int pattern)
{
	batch_id_t batch = allocateBatchID(a->engine, TASKS);
	struct transfer_status s;
	char text[32];
	notify_msg_t word = {(char *)(uintptr_t)a->name, text};
	struct transfer_request more = {OPCODE_WRITE, a->memory, o->segment,
					o->memory, SIZE};

	CHECK(batch != INVALID_BATCH);
	fill(a->memory, pattern);
	for (int first = 0; first < TASKS; first += SUBMIT) {
		(void)snprintf(text, sizeof(text), "%d %zu", pattern,
			       (size_t)(first + SUBMIT) * SIZE);
		submit(a, o, batch, OPCODE_WRITE, first, &word);
	}
	CHECK(submitTransfer(a->engine, batch, &more, 1) == 2);
	CHECK(n_failed(a, batch, TASKS) == 0);
	CHECK(!freeBatchID(a->engine, batch));
	CHECK(getTransferStatus(a->engine, batch, 0, &s) == -1);
	CHECK(freeBatchID(a->engine, batch) == 1);
	expect_right(a, TASKS / SUBMIT);

	batch = allocateBatchID(a->engine, TASKS);
	fill(a->memory, 0);
	for (int first = 0; first < TASKS; first += SUBMIT)
		submit(a, o, batch, OPCODE_READ, first, NULL);
	CHECK(n_failed(a, batch, TASKS) == 0);
	CHECK(!freeBatchID(a->engine, batch));
	CHECK(holds(a->memory, pattern, LENGTH));
}

/* Half is submitted before it dies: that may be there or not. */
static void lose(const struct agent *a, struct other *o)
{
	batch_id_t batch = allocateBatchID(a->engine, TASKS);
	int first = 0;

	for (; first < TASKS / 2; first += SUBMIT)
		submit(a, o, batch, OPCODE_WRITE, first, NULL);
	part(o, SIGKILL);
	for (; first < TASKS; first += SUBMIT)
		submit(a, o, batch, OPCODE_WRITE, first, NULL);
	CHECK(n_failed(a, batch, TASKS) >= TASKS / 2);
	CHECK(!freeBatchID(a->engine, batch));
}

int main(int argc, char *argv[])
{
	const char *host = getenv("NIXL_MOONCAKE_IP_ADDR");
	char name[NAME_LEN];
	struct agent a;
	struct other o;
	segment_id_t before;

	if (!host)
		host = "127.0.0.1";
	if (argc > 1)
		return serve(argc > 2 ? argv[2] : host);
	/* A peer that is away is waited for so long, in seconds. */
	(void)setenv("MC_TRANSFER_TIMEOUT", "15", 0);
	a = start(host);
	o = meet(&a, host);
	for (int pattern = 1; pattern <= ROUNDS; pattern++)
		exchange(&a, &o, pattern);
	lose(&a, &o);
	/* Under another name, and under the one that is known. */
	(void)setenv("MC_LEGACY_RPC_PORT_BINDING", "1", 1);
	name_to_keep(host, name);
	o = meet(&a, name);
	exchange(&a, &o, 7);
	before = o.segment;
	lose(&a, &o);
	o = meet(&a, name);
	CHECK(o.segment == before);
	exchange(&a, &o, 8);
	part(&o, 0);
	end(&a);
	printf("ok\n");
	return 0;
}
