# SPDX-License-Identifier: Apache-2.0
te_tests(unit store_server
	TESTS admin admin_pieces admin_tenants create epoch_key events label match metadata
		metadata_http quotas rpc settings turns
	SOURCES bare.c
	LIBRARIES te_test_subscriber)
# Brings its own socket of events.
te_tests(unit store_server PROGRAM unit_store_server_socket
	TESTS events_thread)
