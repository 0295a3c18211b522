# SPDX-License-Identifier: Apache-2.0
te_tests(unit base
	TESTS bounce bytes clock conf conf_file copy copy_choice faster fastest fds follow frame frame_bad frame_crowd hash
		heap http http_body http_host http_page http_pieces http_user
		incarnation log lookup loop mapped median memory module net peer process
		room spin wakeup
	SOURCES frame_peer.c http_site.c)
add_dependencies(unit_base te_directory_redis)
set_tests_properties(unit.base.module PROPERTIES ENVIRONMENT
	TEST_MODULES=${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
