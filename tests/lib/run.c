/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - main() of a program of tests: runs the one that is named
 *
 * TEST_NAMES is the file that lists them, TEST(name) or, where main() takes
 * arguments, TEST_ARGS(name). The build writes it (te_tests() in
 * tests/CMakeLists.txt).
 */
#include <stdio.h>
#include <string.h>

#define TEST(name)      int test_##name##_main(void);
#define TEST_ARGS(name) int test_##name##_main(int argc, char **argv);
#include TEST_NAMES
#undef TEST
#undef TEST_ARGS

static const struct {
	const char *name;
	int (*run)(void);                       /* or: */
	int (*run_args)(int argc, char **argv); /* argv[0] is the name */
} tests[] = {
#define TEST(name)      {#name, test_##name##_main, NULL},
#define TEST_ARGS(name) {#name, NULL, test_##name##_main},
#include TEST_NAMES
};

int main(int argc, char **argv)
{
	size_t n = sizeof(tests) / sizeof(tests[0]);

	for (size_t i = 0; argc > 1 && i < n; i++) {
		if (strcmp(argv[1], tests[i].name) != 0)
			continue;
		if (tests[i].run)
			return tests[i].run();
		return tests[i].run_args(argc - 1, argv + 1);
	}
	fprintf(stderr, "usage: %s TEST [ARGUMENT...], TEST being one of:\n",
		argv[0]);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "  %s\n", tests[i].name);
	return 2;
}
