/* SPDX-License-Identifier: Apache-2.0 */
/* test_master.c - the metadata server in the master, and clients that use it */
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "te/directory/entry.h"
#include "tests/integration/master/caller.h"
#include "tests/lib/dial.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define PORT_LINE "HTTP metadata server started on port "

static uint16_t metadata_port(const struct master *m)
{
	const char *line = test_process_line(m->process, PORT_LINE, SOON_MS);

	assert_non_null(line);
	return (uint16_t)atoi(strstr(line, PORT_LINE) + strlen(PORT_LINE));
}

/* The status of @method of that key; the body to @answer. */
static int ask(uint16_t port, const char *method, const char *key,
	       const char *body, char answer[4096])
{
	char request[1024];
	int fd = test_dial(port);
	size_t len = 0;
	ssize_t n;

	snprintf(request, sizeof(request),
		 "%s /metadata?key=%s HTTP/1.1\r\nHost: localhost\r\n"
		 "Content-Length: %zu\r\n\r\n%s",
		 method, key, strlen(body), body);
	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL),
			 strlen(request));
	while ((n = recv(fd, answer + len, 4095 - len, 0)) > 0)
		len += (size_t)n;
	answer[len] = '\0';
	close(fd);
	assert_true(len > strlen("HTTP/1.1 "));
	return atoi(answer + strlen("HTTP/1.1 "));
}

struct question {
	uint16_t port;
	char key[128];
	int status;
};

static bool is_answered(void *arg)
{
	const struct question *q = arg;
	char answer[4096];

	return ask(q->port, "GET", q->key, "", answer) == q->status;
}

static struct test_process *client(const struct master *m, const char *metadata,
				   char name[64])
{
	char master[64], directory[96];
	const char *const args[] = {
		"--port=0", "--host=127.0.0.1", "--global_segment_size=1MB",
		master,     directory,          NULL};
	struct test_process *p;
	const char *line;

	snprintf(master, sizeof(master), "--master_server_address=127.0.0.1:%u",
		 m->rpc);
	snprintf(directory, sizeof(directory), "--metadata_server=%s",
		 metadata);
	p = test_process_start("mooncake_client", args);
	line = test_process_line(p, " serves ", SOON_MS);
	assert_non_null(line);
	assert_int_equal(sscanf(line, "client %63s", name), 1);
	return p;
}

/* A master with @args, and a client of it whose entry is *@published. */
static struct test_process *published_client(struct master *m,
					     const char *const args[],
					     char name[64],
					     struct question *published)
{
	struct test_process *owner;
	char url[64];

	master_start(m, args);
	*published = (struct question){.port = metadata_port(m), .status = 200};
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/metadata",
		 published->port);
	owner = client(m, url, name);
	snprintf(published->key, sizeof(published->key),
		 "mooncake/rpc_meta/%.64s", name);
	assert_true(test_wait_until(is_answered, published, SOON_MS));
	return owner;
}

static void what_others_wrote_for_a_client_goes_with_it(void **state)
{
	static const char *const args[] = {
		"--enable_http_metadata_server",
		"--http_metadata_server_port=0",
		"--enable_metadata_cleanup_on_timeout", "--client_ttl=1", NULL};
	struct question published, described;
	char name[64], answer[4096];
	struct test_process *owner;
	struct master m;
	uint16_t port;

	(void)state;
	owner = published_client(&m, args, name, &published);
	port = published.port;
	described = published;
	snprintf(described.key, sizeof(described.key), "mooncake/ram/%.64s",
		 name);
	/* As others do, without a time limit. */
	assert_int_equal(ask(port, "PUT", described.key, "{}", answer), 200);
	test_process_signal(owner, SIGKILL);
	test_process_end(owner);
	described.status = 404; /* its own expires by itself */
	assert_true(test_wait_until(is_answered, &described, SOON_MS));
	master_stop(&m);
}

/* What everybody can read of an entry lets nobody change it. */
static void reader_of_an_entry_cannot_change_it(void **state)
{
	static const char *const args[] = {"--enable_http_metadata_server",
					   "--http_metadata_server_port=0",
					   NULL};
	static const char word[] = "\"incarnation\":\"";
	char name[64], before[4096], answer[4096], with[256];
	struct question published;
	struct test_process *owner;
	const char *life;
	struct master m;
	uint16_t port;

	(void)state;
	owner = published_client(&m, args, name, &published);
	port = published.port;
	assert_int_equal(ask(port, "GET", published.key, "", before), 200);
	life = strstr(before, word);
	assert_non_null(life);
	snprintf(with, sizeof(with),
		 "%s&if_incarnation=%.32s&incarnation=%.32s&ttl_ms=60000",
		 published.key, life + strlen(word), life + strlen(word));
	assert_int_equal(ask(port, "PUT", with, "{}", answer), 412);
	assert_int_equal(ask(port, "DELETE", with, "", answer), 412);
	assert_int_equal(ask(port, "DELETE", published.key, "", answer), 412);
	assert_int_equal(ask(port, "GET", published.key, "", answer), 200);
	assert_string_equal(answer, before);
	test_process_signal(owner, SIGTERM);
	assert_int_equal(test_process_wait(owner, SOON_MS), 0);
	published.status = 404;
	assert_true(test_wait_until(is_answered, &published, SOON_MS));
	test_process_end(owner);
	master_stop(&m);
}

static void metadata_server_is_off_unless_asked_for(void **state)
{
	struct master m;

	(void)state;
	master_start(&m, (const char *const[]){NULL});
	assert_null(strstr(test_process_output(m.process), PORT_LINE));
	master_stop(&m);
}

static bool has_warned(void *arg)
{
	return strstr(test_process_output(arg), "warn  directory");
}

static void client_without_its_directory_warns_once_and_serves(void **state)
{
	struct test_process *owner;
	const char *said;
	struct master m;
	char name[64];

	(void)state;
	master_start(&m, (const char *const[]){NULL});
	/* Port 1 of loopback refuses. */
	owner = client(&m, "http://127.0.0.1:1/metadata", name);
	assert_non_null(strstr(name, "127.0.0.1:"));
	assert_true(test_wait_until(has_warned, owner, SOON_MS));
	test_process_signal(owner, SIGTERM);
	assert_int_equal(test_process_wait(owner, SOON_MS), 0);
	said = strstr(test_process_output(owner), "warn  directory");
	assert_non_null(said);
	assert_null(strstr(said + 1, "warn  directory"));
	test_process_end(owner);
	master_stop(&m);
}

static void malformed_directory_is_named(void **state)
{
	static const char *const args[] = {
		"--port=0", "--metadata_server=gopher://x", NULL};
	struct test_process *p = test_process_start("mooncake_client", args);

	(void)state;
	assert_int_equal(test_process_wait(p, SOON_MS), 2);
	assert_non_null(strstr(test_process_output(p),
			       "--metadata_server gopher://x: no such kind"));
	test_process_end(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_others_wrote_for_a_client_goes_with_it),
		cmocka_unit_test(reader_of_an_entry_cannot_change_it),
		cmocka_unit_test(metadata_server_is_off_unless_asked_for),
		cmocka_unit_test(
			client_without_its_directory_warns_once_and_serves),
		cmocka_unit_test(malformed_directory_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
