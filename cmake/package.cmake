# The Debian package: `./dev package`, or the target `package` of the release preset. Makes
# build/release/pons_<version>_<architecture>.deb.

if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  return()  # sanitized binaries are not for users
endif()

# apt shows the version, a person reads the changelog: the two must agree.
file(STRINGS packaging/changelog changelog_head LIMIT_COUNT 1)
if(NOT changelog_head MATCHES "^pons \\(${PROJECT_VERSION}\\) ")
  message(FATAL_ERROR "packaging/changelog begins with \"${changelog_head}\": add an entry for ${PROJECT_VERSION}")
endif()

# Policy wants the changelog compressed, without a time stamp so that two builds give the same file.
set(changelog ${CMAKE_BINARY_DIR}/packaging/changelog.gz)
set(completion ${CMAKE_BINARY_DIR}/packaging/pons.bash)
add_custom_command(OUTPUT ${changelog} DEPENDS ${CMAKE_SOURCE_DIR}/packaging/changelog VERBATIM
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/packaging
  COMMAND sh -c "gzip -9nc \"$1\" >\"$2\"" sh ${CMAKE_SOURCE_DIR}/packaging/changelog ${changelog})
# From the binary itself, so that it knows exactly the commands that are there.
add_custom_command(OUTPUT ${completion} DEPENDS pons VERBATIM
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/packaging
  COMMAND sh -c "\"$1\" completion bash >\"$2\"" sh $<TARGET_FILE:pons> ${completion})
add_custom_target(package_files ALL DEPENDS ${changelog} ${completion})

set(doc share/doc/pons)
install(TARGETS pons DESTINATION bin)
install(FILES packaging/pons.service DESTINATION lib/systemd/system)
install(FILES packaging/pons.yaml DESTINATION /etc/pons)
install(FILES ${completion} DESTINATION share/bash-completion/completions RENAME pons)
install(FILES packaging/copyright ${changelog} README.md ARCHITECTURE.md DESTINATION ${doc})
install(DIRECTORY docs/use docs/operate DESTINATION ${doc}/docs)
install(FILES examples/pons.yaml DESTINATION ${doc}/examples)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pons)
set(CPACK_PACKAGE_CONTACT "The Pons authors <maintainers@pons.invalid>")
set(CPACK_SET_DESTDIR ON)  # one file goes outside the prefix: /etc/pons/pons.yaml
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# Whatever the umask of whoever builds it.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
  "A supervisor and six processes, each confined by the kernel to what it needs;
a doctor that proves the confinement by trying; one public HTTP listener.
The service is installed but not started.")
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "tzdata, libpq5")  # schedules are in time zones; the latter is loaded when it is wanted
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "systemd, mmdebstrap, e2fsprogs")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
foreach(script conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/packaging/${script})
endforeach()
include(CPack)
