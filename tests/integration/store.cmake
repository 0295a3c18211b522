# SPDX-License-Identifier: Apache-2.0
# Masters, owners and clients as real processes.
add_library(te_test_pool STATIC ../store/pool.c)
target_link_libraries(te_test_pool PRIVATE te_flags PkgConfig::CMOCKA)

add_executable(store_writer store/writer.c)
target_link_libraries(store_writer PRIVATE te_test_all te_test_pool)

add_executable(store_dummy store/dummy.c)
target_link_libraries(store_dummy PRIVATE te_test_all te_test_pool)

# Stands still where it is told to.
add_executable(store_halter store/halter.c store/halt.c)
target_link_libraries(store_halter PRIVATE te_test_all te_test_pool)
foreach(symbol tes_put_write tes_put_end tes_get_read sendmsg recv readv
		process_vm_readv process_vm_writev)
	target_link_options(store_halter PRIVATE -Wl,--wrap=${symbol})
endforeach()

foreach(name fence late_reads)
	te_test(integration store ${name} te_test_pool)
	target_sources(test_integration_store_${name} PRIVATE store/cram.c
		store/late.c)
	add_dependencies(test_integration_store_${name} mooncake_master
		store_halter)
endforeach()

foreach(name buried changes crowd cut_off daemon drain dummy large mistakes mounts open
		owner parts replicas restart setup stall strangers survivor tasks tenants
		traffic trouble)
	te_test(integration store ${name} te_test_pool)
	add_dependencies(test_integration_store_${name} mooncake_master
		mooncake_client store_dummy store_writer)
endforeach()
target_sources(test_integration_store_strangers PRIVATE store/leak.c)
target_sources(test_integration_store_daemon PRIVATE store/daemon.c)
target_sources(test_integration_store_dummy PRIVATE store/daemon.c)

foreach(name away drains expiry replicas_made silent)
	te_test(integration store ${name} te_test_pool te_test_master)
	add_dependencies(test_integration_store_${name} mooncake_master
		mooncake_client)
endforeach()

# A library that is loaded before a master's own, and moves its wall clock.
add_library(te_test_wall_step MODULE ../lib/wall_step.c)
target_link_libraries(te_test_wall_step PRIVATE te_flags)
te_test(integration store clock te_test_pool)
target_sources(test_integration_store_clock PRIVATE ../lib/wall.c)
target_compile_definitions(test_integration_store_clock PRIVATE
	TEST_WALL_LIBRARY="$<TARGET_FILE:te_test_wall_step>")
add_dependencies(test_integration_store_clock mooncake_master te_test_wall_step)

te_test(integration store chaos te_test_pool te_test_master)
target_sources(test_integration_store_chaos PRIVATE store/chaos.c)
add_dependencies(test_integration_store_chaos mooncake_master mooncake_client
	store_writer)

te_test(integration store drain_jobs te_test_pool te_test_master)
add_dependencies(test_integration_store_drain_jobs mooncake_master
	mooncake_client)
foreach(name drain drain_jobs)
	target_sources(test_integration_store_${name} PRIVATE store/load.c)
endforeach()
foreach(name drains drain_jobs)
	target_sources(test_integration_store_${name} PRIVATE store/emptied.c)
endforeach()
