# SPDX-License-Identifier: Apache-2.0
foreach(name admin create metadata metadata_http rpc settings)
	te_test(unit store_server ${name})
endforeach()
te_test(unit store_server match)
te_test(unit store_server events te_test_subscriber)
te_test(unit store_server events_thread)
