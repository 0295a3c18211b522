# SPDX-License-Identifier: Apache-2.0
# On the shared libraries alone, as their users' programs.
add_executable(compat_peer compat/peer.c)
target_link_libraries(compat_peer PRIVATE transfer_engine te_test_lib
	te_test_objects te_flags PkgConfig::CMOCKA)
set_target_properties(compat_peer PROPERTIES
	RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# By shared memory, and by tcp alone.
add_executable(consumer_nixl ${PROJECT_SOURCE_DIR}/tests/consumers/nixl.c)
target_include_directories(consumer_nixl PRIVATE ${PROJECT_SOURCE_DIR}/compat)
target_link_libraries(consumer_nixl PRIVATE te_flags transfer_engine
	${CMAKE_DL_LIBS})
add_dependencies(consumer_nixl fake_cuda)
set_target_properties(consumer_nixl PROPERTIES
	RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
foreach(way shm tcp)
	add_test(NAME integration.consumers.nixl_${way} COMMAND consumer_nixl)
	set_tests_properties(integration.consumers.nixl_${way} PROPERTIES
		TIMEOUT ${TE_TEST_TIMEOUT} LABELS integration)
endforeach()
set_tests_properties(integration.consumers.nixl_tcp PROPERTIES
	ENVIRONMENT MC_FORCE_TCP=1)
# Memory of a GPU, of which NIXL says where it is, or has that found out.
foreach(location "*" cuda:1)
	string(REPLACE "*" "any" name nixl_vram_${location})
	string(REPLACE ":" "" name ${name})
	add_test(NAME integration.consumers.${name} COMMAND consumer_nixl)
	set_tests_properties(integration.consumers.${name} PROPERTIES
		TIMEOUT ${TE_TEST_TIMEOUT} LABELS integration
		ENVIRONMENT "MC_TRANSFER_TIMEOUT=5;TE_TEST_MEMORY=cuda:1;TE_TEST_LOCATION=${location};TE_CUDA_LIBRARY=$<TARGET_FILE:fake_cuda>")
endforeach()

# compat_test(store file.c libraries...) -> ctest integration.compat.store
function(compat_test name file)
	set(target test_integration_compat_${name})
	add_executable(${target} compat/${file})
	target_link_libraries(${target} PRIVATE ${ARGN} te_test_lib
		te_test_objects te_flags PkgConfig::CMOCKA)
	set_target_properties(${target} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
	add_test(NAME integration.compat.${name} COMMAND ${target})
	set_tests_properties(integration.compat.${name} PROPERTIES
		TIMEOUT ${TE_TEST_TIMEOUT} SKIP_RETURN_CODE 77 LABELS integration
		ENVIRONMENT ${te_lazy})
endfunction()

foreach(name engine trouble)
	compat_test(${name} test_${name}.c transfer_engine)
	target_compile_definitions(test_integration_compat_${name} PRIVATE
		PEER="$<TARGET_FILE:compat_peer>")
	add_dependencies(test_integration_compat_${name} compat_peer)
endforeach()

compat_test(store test_store.c te_test_pool mooncake_store)
add_dependencies(test_integration_compat_store mooncake_master)

# A program for Mooncake's C++ client, by each compiler there is, and as extensions
# of PyTorch may be compiled, with the older strings: it does not matter how, for no
# symbol of C++ crosses the library. A sanitizer's run time is that of the compiler
# that made the libraries.
set(consumers "gxx g++ -std=c++17" "clangxx clang++ -std=c++17"
	"torch g++ -std=c++20 -O3 -D_GLIBCXX_USE_CXX11_ABI=0")
set(sanitize)
if(TE_SANITIZE)
	set(sanitize -fsanitize=${TE_SANITIZE})
	# Optimising what sanitizers add takes five times as long to compile.
	list(TRANSFORM consumers REPLACE " -O3" "")
	set(other clang)
	if(NOT CMAKE_C_COMPILER_ID STREQUAL GNU)
		set(other " g")
	endif()
	list(FILTER consumers EXCLUDE REGEX "${other}\\+\\+")
endif()
foreach(consumer IN LISTS consumers)
	separate_arguments(flags UNIX_COMMAND "${consumer}")
	list(POP_FRONT flags word name)
	find_program(TE_COMPILER_${name} ${name})
	if(NOT TE_COMPILER_${name})
		continue()
	endif()
	foreach(source ${CMAKE_CURRENT_SOURCE_DIR}/compat/consumer.cpp
			${PROJECT_SOURCE_DIR}/tests/consumers/adapter.cpp)
		get_filename_component(role ${source} NAME_WE)
		set(program ${CMAKE_BINARY_DIR}/tests/compat_${role}_${word})
		add_custom_command(OUTPUT ${program}
			COMMAND ${TE_COMPILER_${name}} ${flags} -Wall -Wextra
				-Werror -g ${sanitize}
				-I${PROJECT_SOURCE_DIR}/compat -o ${program}
				${source}
				-L${CMAKE_LIBRARY_OUTPUT_DIRECTORY}
				-lmooncake_store
				-Wl,-rpath,$ORIGIN/../lib
				-pthread
			DEPENDS mooncake_store ${source}
				${PROJECT_SOURCE_DIR}/compat/client_types.h
				${PROJECT_SOURCE_DIR}/compat/config.h
				${PROJECT_SOURCE_DIR}/compat/real_client.h
				${PROJECT_SOURCE_DIR}/compat/store_c.h
			VERBATIM)
		add_custom_target(compat_${role}_${word} ALL
			DEPENDS ${program})
	endforeach()
	compat_test(${word} test_cxx.c te_test_pool)
	target_compile_definitions(test_integration_compat_${word} PRIVATE
		CONSUMER="${CMAKE_BINARY_DIR}/tests/compat_consumer_${word}")
	add_dependencies(test_integration_compat_${word} mooncake_master
		mooncake_client compat_consumer_${word})
endforeach()
