# SPDX-License-Identifier: Apache-2.0
foreach(name bytes conf hash heap log loop memory net process)
	te_test(unit base ${name})
endforeach()
