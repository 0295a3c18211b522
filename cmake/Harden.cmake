# SPDX-License-Identifier: Apache-2.0
# What makes an error in the code harder to use, in all that a release build makes;
# tools/check-binaries reads it back. Debug builds have sanitizers instead, which do
# not go with _FORTIFY_SOURCE.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported() # programs are linked as they are compiled
check_c_compiler_flag(-fstack-clash-protection TE_HAS_STACK_CLASH)
check_c_compiler_flag(-fcf-protection=full TE_HAS_CF_PROTECTION) # x86 alone

if(NOT TE_SANITIZE)
	# -U: some distributions' compilers define it, with another value.
	set(flags -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
	if(TE_HAS_STACK_CLASH)
		list(APPEND flags -fstack-clash-protection)
	endif()
	if(TE_HAS_CF_PROTECTION)
		list(APPEND flags -fcf-protection=full)
	endif()
	set(release $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
	add_compile_options("$<${release}:${flags}>")
	add_link_options($<${release}:LINKER:-z,relro,-z,now,-z,noexecstack>)
endif()
