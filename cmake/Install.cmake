# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where. Programs find the libraries relative to
# themselves, and te.pc its prefix, so that an installed tree can be moved.
include(CMakePackageConfigHelpers)

file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(program_rpath "$ORIGIN/${up}" "$ORIGIN/../lib") # installed; in the build tree
list(REMOVE_DUPLICATES program_rpath)

# te_installed(rpath target...): linked with the path that it is installed with.
# CMake would otherwise pad the path of the build tree with colons, to have room
# for the other, and the loader takes what is empty for the current directory.
function(te_installed rpath)
	set_target_properties(${ARGN} PROPERTIES BUILD_WITH_INSTALL_RPATH ON
		INSTALL_RPATH "${rpath}")
endfunction()

function(te_programs dir)
	get_property(targets DIRECTORY ${dir} PROPERTY BUILDSYSTEM_TARGETS)
	foreach(target IN LISTS targets)
		get_target_property(type ${target} TYPE)
		if(type STREQUAL EXECUTABLE)
			te_installed("${program_rpath}" ${target})
			install(TARGETS ${target} RUNTIME)
		endif()
	endforeach()
endfunction()
te_programs(cmd)
te_programs(perf)

te_installed("$ORIGIN" te_store_shared transfer_engine mooncake_store)
set_target_properties(te_shared PROPERTIES EXPORT_NAME te)
set_target_properties(te_store_shared PROPERTIES EXPORT_NAME store)
install(TARGETS te_shared te_store_shared EXPORT te LIBRARY)
# For programs written for Mooncake, which know the headers without a folder.
install(TARGETS transfer_engine mooncake_store EXPORT te LIBRARY)
install(FILES compat/transfer_engine_c.h compat/store_c.h compat/real_client.h
	compat/client_types.h compat/config.h TYPE INCLUDE)
install(TARGETS te_static te_store_static ARCHIVE)
install(TARGETS te_directory_curl te_directory_redis
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(module te_verbs te_ofi)
	if(TARGET ${module})
		install(TARGETS ${module}
			LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
	endif()
endforeach()
install(DIRECTORY include/te TYPE INCLUDE FILES_MATCHING PATTERN "*.h")

# find_package(te): te::te, te::store, te::transfer_engine, te::mooncake_store.
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/te)
install(EXPORT te NAMESPACE te:: FILE te-config.cmake DESTINATION ${cmake_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/te-config-version.cmake
	COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/te-config-version.cmake
	DESTINATION ${cmake_dir})

# pkg-config te, te-store, transfer-engine, mooncake-store. The libraries that a static link needs are named by
# themselves, so that a shared link asks for none of their development files.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PC_UP ${CMAKE_INSTALL_PREFIX}/${pc_dir}
	${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" PC_UP "${PC_UP}")
string(JOIN " " PC_PRIVATE -lm ${LIBEVENT_LDFLAGS} ${PROTOBUF_C_LDFLAGS}
	${JANSSON_LDFLAGS} ${XXHASH_LDFLAGS} ${CRYPTO_LDFLAGS} ${ISAL_LDFLAGS}
	${HWLOC_LDFLAGS} ${NUMA_LDFLAGS} -lpthread)
foreach(name te te-store transfer-engine mooncake-store)
	configure_file(cmake/${name}.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
	install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${pc_dir})
endforeach()
