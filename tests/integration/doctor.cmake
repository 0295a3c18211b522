# SPDX-License-Identifier: Apache-2.0
# te-doctor as users run it.
te_test(integration doctor te_doctor te_test_all)
add_dependencies(test_integration_doctor_te_doctor te-doctor)
