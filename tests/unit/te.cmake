# SPDX-License-Identifier: Apache-2.0
te_test(unit te config)
te_test(unit te crc)
te_test(unit te group)
te_test(unit te handle)
te_test(unit te plan)
te_test(unit te remote)
