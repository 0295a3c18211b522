# SPDX-License-Identifier: Apache-2.0
te_tests(unit topology
	TESTS hwloc json json_refused notes rails sysfs text where
	SOURCES machine.c)
