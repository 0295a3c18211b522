# SPDX-License-Identifier: Apache-2.0
foreach(name admin admin_pieces admin_tenants create label metadata metadata_http quotas rpc settings)
	te_test(unit store_server ${name})
endforeach()
te_test(unit store_server match)
te_test(unit store_server events te_test_subscriber)
te_test(unit store_server events_thread)
foreach(name admin admin_pieces)
	target_sources(test_unit_store_server_${name} PRIVATE
		store_server/bare.c)
endforeach()
