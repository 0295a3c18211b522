# SPDX-License-Identifier: Apache-2.0
add_library(te_test_machine STATIC topology/machine.c)
target_link_libraries(te_test_machine PUBLIC te_test_all)
foreach(name hwloc json json_refused notes rails sysfs text where)
	te_test(unit topology ${name} te_test_machine te_test_all)
endforeach()
