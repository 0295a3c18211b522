/* SPDX-License-Identifier: Apache-2.0 */
/* tool.h - run a benchmark and look at what it says */
#ifndef TESTS_INTEGRATION_PERF_TOOL_H
#define TESTS_INTEGRATION_PERF_TOOL_H

#include <jansson.h>

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
/* SIGINT, with which it must end well. */
void tool_interrupt(struct test_process *p);

/* Fails the test unless each of names[], up to NULL, is a number in @o. */
void assert_numbers(const json_t *o, const char *const names[]);
/* The integer @name of @o. */
json_int_t integer(const json_t *o, const char *name);
double number(const json_t *o, const char *name);

#endif
