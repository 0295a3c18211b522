# SPDX-License-Identifier: Apache-2.0
add_library(te_test_master STATIC
	master/caller.c
	master/master.c)
target_link_libraries(te_test_master PUBLIC te_test_all)
foreach(name admin admin_bodies calls garbage mistakes others program protected
		strategies tasks)
	te_test(integration master ${name} te_test_master te_test_all)
	add_dependencies(test_integration_master_${name} mooncake_master)
endforeach()
te_test(integration master events te_test_master te_test_subscriber te_test_all)
add_dependencies(test_integration_master_events mooncake_master)
foreach(name mistakes others)
	target_sources(test_integration_master_${name} PRIVATE master/settled.c)
endforeach()
