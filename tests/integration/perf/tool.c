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

static void assert_refused(const char *program, const char *const args[],
			   const char *names)
{
	char *text = tool_output(program, args, 2);

	test_contains(text, names);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	free(text);
}

void tool_refuses(const char *program, const struct tool_mistake *mistakes,
		  size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_refused(program,
			       (const char *const[]){mistakes[i].arg, NULL},
			       mistakes[i].names);
}

void tool_refuses_together(const char *program,
			   const struct tool_conflict *conflicts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_refused(program, conflicts[i].args, conflicts[i].names);
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

char *tool_interrupted(const char *program, const char *const args[],
		       const char *line)
{
	struct test_process *p = test_process_start(program, args);
	char *text;

	for (int i = 0; i < 2; i++)
		assert_non_null(test_process_line(p, line, LIMIT_MS));
	test_process_signal(p, SIGINT);
	assert_int_equal(test_process_wait(p, LIMIT_MS), 0);
	text = strdup(test_process_output(p));
	assert_non_null(text);
	test_process_end(p);
	return text;
}

/* ---- files ---- */

#define FILE_MAX (1u << 20)

void tool_file_init(struct tool_file *f, const char *name)
{
	test_tmpdir_create(f->dir);
	(void)snprintf(f->path, sizeof(f->path), "%s/file", f->dir);
	(void)snprintf(f->flag, sizeof(f->flag), "%s=%s", name, f->path);
}

char *tool_file_take(struct tool_file *f)
{
	char *text = calloc(1, FILE_MAX);
	FILE *in = fopen(f->path, "re");

	assert_non_null(text);
	assert_non_null(in);
	assert_true(fread(text, 1, FILE_MAX - 1, in) > 0);
	fclose(in);
	test_tmpdir_remove(f->dir);
	return text;
}

/* ---- reports ---- */

const json_t *row_of(const json_t *report, size_t i)
{
	const json_t *row = json_array_get(json_object_get(report, "rows"), i);

	assert_non_null(row);
	return row;
}

const char *text_of(const json_t *o, const char *name)
{
	const char *text = json_string_value(json_object_get(o, name));

	assert_non_null(text);
	return text;
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
