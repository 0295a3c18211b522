# SPDX-License-Identifier: Apache-2.0
add_library(te_test_master STATIC
	master/caller.c
	master/master.c)
target_link_libraries(te_test_master PUBLIC te_test_all)
te_tests(integration master
	TESTS admin admin_bodies attacks calls events garbage identity mistakes others program protected
		strategies tasks
	SOURCES settled.c
	LIBRARIES te_test_master te_test_subscriber)
add_dependencies(integration_master mooncake_master)
