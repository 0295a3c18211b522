/* SPDX-License-Identifier: Apache-2.0 */
/* tool.h - run a benchmark and look at what it says */
#ifndef TESTS_INTEGRATION_PERF_TOOL_H
#define TESTS_INTEGRATION_PERF_TOOL_H

#include <jansson.h>
#include <stddef.h>

#include "tests/lib/tmpdir.h"

/*
 * Run @program with args[] (NULL at the end), which must end with @code, and
 * return what it printed; to be freed with free().
 */
char *tool_output(const char *program, const char *const args[], int code);
/* The same for one that ends well and prints a JSON object: a reference. */
json_t *tool_json(const char *program, const char *const args[]);

struct tool_mistake {
	const char *arg, *names;
};
/* Each alone ends it with 2 and one line, which names what is wrong. */
void tool_refuses(const char *program, const struct tool_mistake *mistakes,
		  size_t n);
/* The same for arguments that do not go together. */
struct tool_conflict {
	const char *args[4]; /* up to NULL */
	const char *names;
};
void tool_refuses_together(const char *program,
			   const struct tool_conflict *conflicts, size_t n);

struct test_process;
/*
 * te-perf with args[], of which one is --listen; @flag: what its initiators
 * are told, "--connect=127.0.0.1:PORT".
 */
struct test_process *tool_listener(const char *const args[], char flag[64]);
/*
 * SIGKILL for one of its children, whose command line has @text in it, as soon
 * as there is one.
 */
void tool_kill_child(struct test_process *p, const char *text);
/* Sends SIGINT, with which it must end well. */
void tool_interrupt(struct test_process *p);
/*
 * Starts @program, interrupts it so as soon as it has printed @line twice, and
 * returns what it printed; to be freed with free().
 */
char *tool_interrupted(const char *program, const char *const args[],
		       const char *line);

/* A file that does not exist yet, and the flag that names it. */
struct tool_file {
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 8];
	char flag[TEST_PATH_MAX + 48];
};
/* @name: of the flag, "--svg". */
void tool_file_init(struct tool_file *f, const char *name);
/* Removes the file, and returns what was in it; to be freed with free(). */
char *tool_file_take(struct tool_file *f);

/* Fails the test unless each of names[], up to NULL, is a number in @o. */
void assert_numbers(const json_t *o, const char *const names[]);
/* Row @i of a report; it is there. */
const json_t *row_of(const json_t *report, size_t i);
/* The value called @name of @o, which must be of that kind. */
json_int_t integer(const json_t *o, const char *name);
double number(const json_t *o, const char *name);
const char *text_of(const json_t *o, const char *name);

#endif
