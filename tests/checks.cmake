# SPDX-License-Identifier: Apache-2.0
# Checks of the tree and of what is built from it, as tests. `ctest -L check`
# runs these alone.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
find_program(TE_CXX NAMES c++ g++ clang++)

set(tools ${PROJECT_SOURCE_DIR}/tools)

# te_check(name command...): ctest check.name
function(te_check name)
	add_test(NAME check.${name} COMMAND ${ARGN})
	set_tests_properties(check.${name} PROPERTIES
		TIMEOUT ${TE_TEST_TIMEOUT} SKIP_RETURN_CODE 77 LABELS check)
endfunction()

# Of the sources and of the checks themselves: no sanitizer changes what they find.
if(NOT TE_SANITIZE)
	te_check(includes ${Python3_EXECUTABLE} ${tools}/check-includes)
	te_check(tree ${Python3_EXECUTABLE} ${tools}/check-tree)
	te_check(rooms ${Python3_EXECUTABLE} ${tools}/check-rooms
		${CMAKE_BINARY_DIR})
	te_check(headers ${tools}/check-headers c ${CMAKE_BINARY_DIR}
		${CMAKE_C_COMPILER})
	if(TE_CXX)
		te_check(headers_cxx ${tools}/check-headers c++ ${CMAKE_BINARY_DIR}
			${TE_CXX})
	else() # exit code 77: skipped
		te_check(headers_cxx sh -c "echo no C++ compiler found; exit 77")
	endif()
	te_check(compatibility ${Python3_EXECUTABLE} ${tools}/check-compatibility)
	te_check(itself ${Python3_EXECUTABLE}
		${CMAKE_CURRENT_SOURCE_DIR}/tools/test_checks.py)
	te_check(compare ${Python3_EXECUTABLE}
		${CMAKE_CURRENT_SOURCE_DIR}/tools/test_compare.py)
endif()

# Every test finds it set, and leaves the user's home as it is.
te_check(state_home sh -c
	"test \"$XDG_STATE_HOME\" = \"${CMAKE_BINARY_DIR}/state\"")
te_check(symbols ${Python3_EXECUTABLE} ${tools}/check-symbols
	${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
if(TE_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
	set(binaries --paths)
endif()
te_check(binaries ${Python3_EXECUTABLE} ${tools}/check-binaries ${binaries}
	${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}
	${CMAKE_BINARY_DIR}/python/mooncake)
te_check(binaries_tests ${Python3_EXECUTABLE} ${tools}/check-binaries --paths
	${CMAKE_BINARY_DIR}/tests ${CMAKE_BINARY_DIR}/examples)
te_check(install ${tools}/check-install ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR}
	${CMAKE_C_COMPILER} ${TE_CXX} "${TE_SANITIZE}")
if(TE_CXX AND NOT TE_SANITIZE) # of what users get
	te_check(package ${tools}/check-package ${CMAKE_COMMAND}
		${CMAKE_CPACK_COMMAND} ${CMAKE_BINARY_DIR}
		${CMAKE_C_COMPILER} ${TE_CXX})
endif()

# docs/settings.md says what the registry says.
add_executable(settings_rows ${tools}/settings.c)
target_link_libraries(settings_rows PRIVATE te_test_objects te_flags)
set_target_properties(settings_rows PROPERTIES
	RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
te_check(settings ${Python3_EXECUTABLE} ${tools}/check-settings
	$<TARGET_FILE:settings_rows> ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
# docs/metrics.md says what the programs print.
te_check(metrics ${Python3_EXECUTABLE} ${tools}/check-metrics
	${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
