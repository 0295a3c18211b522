# SPDX-License-Identifier: Apache-2.0
# te_proto(target folder/name.proto): an object library of what protoc-c makes,
# included as "folder/name.pb-c.h". Generated code does not take our warnings.
find_program(PROTOC_C NAMES protoc-c REQUIRED)

function(te_proto target proto)
	string(REPLACE ".proto" ".pb-c" stem ${proto})
	set(gen ${CMAKE_BINARY_DIR}/gen)
	file(MAKE_DIRECTORY ${gen})
	add_custom_command(
		OUTPUT ${gen}/${stem}.c ${gen}/${stem}.h
		COMMAND ${PROTOC_C} --c_out=${gen} --proto_path=${PROJECT_SOURCE_DIR}
			${PROJECT_SOURCE_DIR}/${proto}
		DEPENDS ${PROJECT_SOURCE_DIR}/${proto}
		COMMENT "protoc-c ${proto}")
	add_library(${target} OBJECT ${gen}/${stem}.c ${gen}/${stem}.h)
	target_include_directories(${target} PUBLIC ${gen})
	target_link_libraries(${target} PUBLIC PkgConfig::PROTOBUF_C)
endfunction()
