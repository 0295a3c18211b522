# SPDX-License-Identifier: Apache-2.0
# The programs of cmd/ that have parts to test alone: te-doctor.
add_library(te_test_patient STATIC cmd/patient.c)
target_link_libraries(te_test_patient PUBLIC te_doctor_checks te_test_all)
foreach(name doctor_host doctor_pairs doctor_peer doctor_rdma)
	te_test(unit cmd ${name} te_test_patient te_doctor_checks te_test_all)
endforeach()
