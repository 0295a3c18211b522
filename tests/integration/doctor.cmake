# SPDX-License-Identifier: Apache-2.0
# te-doctor as users run it.
foreach(name pairs peer te_doctor)
	te_test(integration doctor ${name} te_doctor_checks te_test_all)
	add_dependencies(test_integration_doctor_${name} te-doctor)
endforeach()
