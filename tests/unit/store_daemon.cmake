# SPDX-License-Identifier: Apache-2.0
# The agent over a store that the tests play themselves.
te_tests(unit store_daemon
	TESTS buffers calls dummy greeting
	SOURCES play.c)
