# SPDX-License-Identifier: Apache-2.0
# A Debian package of all that is installed: `cpack` in the build's folder. What
# else it needs is found out from the libraries themselves.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME te)
set(CPACK_PACKAGE_CONTACT "te maintainers <te@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
	"transfer engine and key/value pool, with Mooncake's interfaces")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
	${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
# Ours among themselves are in the one package.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)
include(CPack)
