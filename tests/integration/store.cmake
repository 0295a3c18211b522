# SPDX-License-Identifier: Apache-2.0
# Masters, owners and clients as real processes.
add_library(te_test_pool STATIC ../store/pool.c)
target_link_libraries(te_test_pool PRIVATE te_flags PkgConfig::CMOCKA)

add_executable(store_writer store/writer.c)
target_link_libraries(store_writer PRIVATE te_test_all te_test_pool)

add_executable(store_dummy store/dummy.c)
target_link_libraries(store_dummy PRIVATE te_test_all te_test_pool)

foreach(name buried changes crowd dummy mistakes mounts owner parts replicas restart stall
		strangers traffic trouble)
	te_test(integration store ${name} te_test_pool)
	add_dependencies(test_integration_store_${name} mooncake_master
		mooncake_client store_dummy store_writer)
endforeach()
target_sources(test_integration_store_strangers PRIVATE store/leak.c)
