# SPDX-License-Identifier: Apache-2.0
te_test(unit store_core space)
te_test(unit store_core put)
te_test(unit store_core read)
te_test(unit store_core session)
te_test(unit store_core fence)
te_test(unit store_core evict)
te_test(unit store_core random)
