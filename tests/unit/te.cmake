# SPDX-License-Identifier: Apache-2.0
te_test(unit te batch)
te_test(unit te config)
te_test(unit te crc)
te_test(unit te engine)
te_test(unit te group)
te_test(unit te guest)
te_test(unit te handle)
te_test(unit te plan)
te_test(unit te region)
te_test(unit te remote)
te_test(unit te stress)

# Brings its own list of backends.
add_library(te_test_fake OBJECT te/fake.c)
target_link_libraries(te_test_fake PRIVATE te_flags)
te_test(unit te failover $<TARGET_OBJECTS:te_test_fake>)

add_library(te_test_visitor OBJECT te/visitor.c)
target_link_libraries(te_test_visitor PRIVATE te_flags)
add_dependencies(te_test_visitor te_proto_control)
te_test(unit te control $<TARGET_OBJECTS:te_test_visitor>)
te_test(unit te silence $<TARGET_OBJECTS:te_test_visitor>)
add_dependencies(test_unit_te_silence te_proto_control)
