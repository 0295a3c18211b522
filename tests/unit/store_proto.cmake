# SPDX-License-Identifier: Apache-2.0
te_test(unit store_proto extent)
te_test(unit store_proto strings)
