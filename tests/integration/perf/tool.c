/* SPDX-License-Identifier: Apache-2.0 */
/* tool.c - run a benchmark and look at what it says */
#include "tests/integration/perf/tool.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/process.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define LIMIT_MS 240000

char *tool_output(const char *program, const char *const args[], int code)
{
	return test_process_run(program, args, code, LIMIT_MS);
}

json_t *tool_json(const char *program, const char *const args[])
{
	char *text = tool_output(program, args, 0);
	const char *object = strchr(text, '{');
	json_error_t error;
	json_t *o = object ? json_loads(object, 0, &error) : NULL;

	if (!o)
		print_error("%s printed no JSON object:\n%s\n", program, text);
	free(text);
	assert_non_null(o);
	return o;
}

void tool_refuses(const char *program, const struct tool_mistake *mistakes,
		  size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *const args[] = {mistakes[i].arg, NULL};
		char *text = tool_output(program, args, 2);

		assert_non_null(strstr(text, mistakes[i].names));
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
		free(text);
	}
}

struct test_process *tool_listener(const char *const args[], char flag[64])
{
	struct test_process *p = test_process_start("te-perf", args);
	const char *line = test_process_line(p, "listens on", LIMIT_MS);
	const char *port;

	assert_non_null(line);
	port = strrchr(line, ':');
	assert_non_null(port);
	snprintf(flag, 64, "--connect=127.0.0.1:%d", atoi(port + 1));
	return p;
}

/* ---- children of it ---- */

struct search {
	int parent, found;
	const char *text;
};

static int parent_of(int pid)
{
	char path[64];
	int ppid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%*d (%*[^)]) %*c %d", &ppid) != 1)
		ppid = 0;
	fclose(f);
	return ppid;
}

static bool command_has(int pid, const char *text)
{
	char path[64], line[512];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(line, 1, sizeof(line) - 1, f);
	fclose(f);
	for (size_t i = 0; i < n; i++)
		if (!line[i])
			line[i] = ' ';
	line[n] = 0;
	return strstr(line, text) != NULL;
}

static bool find_child(void *arg)
{
	struct search *s = arg;
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	int pid;

	assert_non_null(proc);
	s->found = 0;
	while (!s->found && (entry = readdir(proc))) {
		pid = atoi(entry->d_name);
		if (pid > 0 && parent_of(pid) == s->parent &&
		    command_has(pid, s->text))
			s->found = pid;
	}
	closedir(proc);
	return s->found != 0;
}

void tool_kill_child(struct test_process *p, const char *text)
{
	struct search s = {.parent = test_process_pid(p), .text = text};

	assert_true(test_wait_until(find_child, &s, LIMIT_MS));
	assert_int_equal(kill(s.found, SIGKILL), 0);
}

void tool_interrupt(struct test_process *p)
{
	test_process_signal(p, SIGINT);
	assert_int_equal(test_process_wait(p, LIMIT_MS), 0);
	test_process_end(p);
}

void assert_numbers(const json_t *o, const char *const names[])
{
	for (; *names; names++) {
		if (!json_is_number(json_object_get(o, *names)))
			print_error("no number \"%s\"\n", *names);
		assert_true(json_is_number(json_object_get(o, *names)));
	}
}

json_int_t integer(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

double number(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	assert_true(json_is_number(v));
	return json_number_value(v);
}
