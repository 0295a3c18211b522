# SPDX-License-Identifier: Apache-2.0
# The same cases against each kind of directory, as processes of the test's own.
te_helper(directory_owner SOURCES directory/owner.c)
te_helper(directory_names
	SOURCES directory/test_names.c directory/service.c)
target_compile_definitions(directory_names PRIVATE
	OWNER_DIR="${CMAKE_BINARY_DIR}/tests")
add_dependencies(directory_names directory_owner te_directory_curl
	te_directory_redis te-metad)
te_tests(integration directory
	TESTS master redis_login
	SOURCES service.c
	LIBRARIES te_test_master te_test_pool)
add_dependencies(integration_directory mooncake_master mooncake_client
	te_directory_curl te_directory_redis)
foreach(kind etcd http redis)
	add_test(NAME integration.directory.${kind}
		COMMAND directory_names ${kind})
	set_tests_properties(integration.directory.${kind} PROPERTIES
		TIMEOUT ${TE_TEST_TIMEOUT} SKIP_RETURN_CODE 77
		LABELS integration ENVIRONMENT
		TE_BACKEND_PATH=${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
endforeach()
