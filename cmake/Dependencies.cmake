# SPDX-License-Identifier: Apache-2.0
# What the build needs; `./dev` installs the Debian packages of
# tools/packages.txt. docs/decisions/ says why each library is here.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBEVENT REQUIRED IMPORTED_TARGET
	libevent_core>=2.1 libevent_extra>=2.1 libevent_pthreads>=2.1)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c>=1.3)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.13)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1>=0.2)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash>=0.8)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto>=3.0)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.30)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal>=2.30)
# Events of the master; only their headers, and of tests the libraries.
pkg_search_module(MSGPACK REQUIRED IMPORTED_TARGET msgpack-c msgpack)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq>=4.2)
pkg_get_variable(ZMQ_HEADERS libzmq includedir)
# Only of the modules that speak to directories.
pkg_check_modules(LIBCURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis>=0.14)
# Headers of the verbs backend; only its module links the library.
pkg_check_modules(IBVERBS IMPORTED_TARGET libibverbs>=1.14)
# The same of the ofi backend.
pkg_check_modules(LIBFABRIC IMPORTED_TARGET libfabric>=1.17)
# Looking at the machine. These two are often missing: say what to install.
foreach(need "HWLOC;hwloc>=2.0;libhwloc-dev" "NUMA;numa>=2.0;libnuma-dev")
	list(GET need 0 prefix)
	list(GET need 1 module)
	list(GET need 2 package)
	pkg_check_modules(${prefix} IMPORTED_TARGET ${module})
	if(NOT ${prefix}_FOUND)
		message(FATAL_ERROR "${module} was not found by pkg-config: install "
			"the package ${package} (`./dev build` does so by itself)")
	endif()
endforeach()

add_library(te_deps INTERFACE)
target_link_libraries(te_deps INTERFACE m PkgConfig::LIBEVENT
	PkgConfig::PROTOBUF_C PkgConfig::JANSSON PkgConfig::XXHASH
	PkgConfig::CRYPTO PkgConfig::ISAL PkgConfig::HWLOC
	PkgConfig::NUMA)
