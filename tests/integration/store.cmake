# SPDX-License-Identifier: Apache-2.0
# Masters, owners and clients as real processes.
add_library(te_test_pool STATIC ../store/named.c ../store/pool.c)
target_link_libraries(te_test_pool PRIVATE te_flags PkgConfig::CMOCKA)

te_helper(store_writer SOURCES store/writer.c LIBRARIES te_test_pool)
target_link_options(store_writer PRIVATE -Wl,--wrap=tes_put_write_begin)
te_helper(store_attacker SOURCES store/attacker.c)
te_helper(store_dummy SOURCES store/dummy.c LIBRARIES te_test_pool)
# Stands still where it is told to.
te_helper(store_halter SOURCES store/halter.c store/halt.c LIBRARIES te_test_pool)
foreach(symbol tes_put_write_begin tes_put_end_begin tes_get_read sendmsg recv readv
		process_vm_readv process_vm_writev)
	target_link_options(store_halter PRIVATE -Wl,--wrap=${symbol})
endforeach()
# A library that is loaded before a master's own, and moves its wall clock.
add_library(te_test_wall_step MODULE ../lib/wall_step.c)
target_link_libraries(te_test_wall_step PRIVATE te_flags)

te_tests(integration store
	TESTS addresses away buried changes chaos clock concurrent cut_off daemon drain drain_jobs drains
		dummy epoch expiry fence large late_reads mistakes mounts open owner parts
		releases replicas replicas_made restart setup silent stall strangers survivor
		tasks tenants traffic trouble turns users
	SOURCES chaos.c cram.c daemon.c emptied.c late.c leak.c load.c ../../lib/wall.c
	LIBRARIES te_test_pool te_test_master)
set_property(TEST integration.store.fence integration.store.survivor APPEND PROPERTY
	ENVIRONMENT ${te_libfabric})
target_compile_definitions(integration_store PRIVATE
	TEST_WALL_LIBRARY="$<TARGET_FILE:te_test_wall_step>")
add_dependencies(integration_store mooncake_client mooncake_master store_attacker store_dummy
	store_halter store_writer te_test_wall_step)
if(TARGET te_ofi)
	add_dependencies(integration_store te_ofi)
endif()

# With a driver of GPUs that the test loads.
te_tests(integration store PROGRAM integration_store_gpu
	TESTS gpu
	SOURCES daemon.c
	LIBRARIES te_test_pool te_test_master $<TARGET_OBJECTS:te_test_fake_cuda>)
add_dependencies(integration_store_gpu fake_cuda mooncake_client mooncake_master)
