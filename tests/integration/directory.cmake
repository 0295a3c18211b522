# SPDX-License-Identifier: Apache-2.0
# The same cases against each kind of directory, as processes of the test's own.
add_executable(directory_owner directory/owner.c)
add_executable(directory_names directory/test_names.c directory/service.c)
foreach(program owner names)
	target_link_libraries(directory_${program} PRIVATE te_test_all)
	set_target_properties(directory_${program} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()
target_compile_definitions(directory_names PRIVATE
	OWNER_DIR="${CMAKE_BINARY_DIR}/tests")
add_dependencies(directory_names directory_owner te_directory_curl
	te_directory_redis te-metad)
te_test(integration directory master te_test_master te_test_pool te_test_all)
add_dependencies(test_integration_directory_master mooncake_master
	mooncake_client te_directory_curl)
te_test(integration directory redis_login te_test_all)
target_sources(test_integration_directory_redis_login PRIVATE
	directory/service.c)
add_dependencies(test_integration_directory_redis_login te_directory_redis)
foreach(kind etcd http redis)
	add_test(NAME integration.directory.${kind}
		COMMAND directory_names ${kind})
	set_tests_properties(integration.directory.${kind} PROPERTIES
		TIMEOUT ${TE_TEST_TIMEOUT} SKIP_RETURN_CODE 77
		LABELS integration ENVIRONMENT
		TE_BACKEND_PATH=${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
endforeach()
