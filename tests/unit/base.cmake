# SPDX-License-Identifier: Apache-2.0
foreach(name bytes clock conf conf_file hash heap http log lookup loop memory net process spin)
	te_test(unit base ${name})
endforeach()
add_library(test_base_frame_peer STATIC base/frame_peer.c)
target_link_libraries(test_base_frame_peer PUBLIC te_test_all)
foreach(name frame frame_bad)
	te_test(unit base ${name} test_base_frame_peer)
endforeach()
