# SPDX-License-Identifier: Apache-2.0
te_tests(unit store_proto TESTS extent identity strings)
