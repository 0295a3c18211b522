# SPDX-License-Identifier: Apache-2.0
foreach(name bytes hash heap process)
	te_test(unit base ${name})
endforeach()
