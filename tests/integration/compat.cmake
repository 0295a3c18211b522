# SPDX-License-Identifier: Apache-2.0
# On the shared libraries alone, as their users' programs.
add_executable(compat_peer compat/peer.c)
target_link_libraries(compat_peer PRIVATE te_flags transfer_engine)
set_target_properties(compat_peer PROPERTIES
	RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

function(compat_test name)
	set(target test_integration_compat_${name})
	add_executable(${target} compat/test_${name}.c)
	target_link_libraries(${target} PRIVATE ${ARGN} te_test_lib
		te_test_objects te_flags PkgConfig::CMOCKA)
	set_target_properties(${target} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
	add_test(NAME integration.compat.${name} COMMAND ${target})
	set_tests_properties(integration.compat.${name} PROPERTIES
		TIMEOUT ${TE_TEST_TIMEOUT} SKIP_RETURN_CODE 77 LABELS integration)
endfunction()

foreach(name engine trouble)
	compat_test(${name} transfer_engine)
	target_compile_definitions(test_integration_compat_${name} PRIVATE
		PEER="$<TARGET_FILE:compat_peer>")
	add_dependencies(test_integration_compat_${name} compat_peer)
endforeach()

compat_test(store te_test_pool mooncake_store)
add_dependencies(test_integration_compat_store mooncake_master)
