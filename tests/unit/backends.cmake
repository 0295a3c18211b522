# SPDX-License-Identifier: Apache-2.0
# These define the core's side themselves, so nothing of te/ is linked.
add_library(te_test_fake_core OBJECT backends/fake_core.c)
target_link_libraries(te_test_fake_core PRIVATE te_flags)
set(fake $<TARGET_OBJECTS:te_test_fake_core>)
te_test(unit backends transfer ${fake})
add_library(te_test_raw OBJECT backends/raw.c)
target_link_libraries(te_test_raw PRIVATE te_flags)
set(raw ${fake} $<TARGET_OBJECTS:te_test_raw>)
te_test(unit backends hostile ${raw})
te_test(unit backends trouble ${raw})
te_test(unit backends trains ${raw})
te_test(unit backends zerocopy ${raw})
te_test(unit backends devices ${fake})
