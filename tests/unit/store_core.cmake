# SPDX-License-Identifier: Apache-2.0
te_test(unit store_core space)
te_test(unit store_core put)
