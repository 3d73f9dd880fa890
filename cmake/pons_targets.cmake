# pons_library(NAME [FOLDERS folder...] [DEPENDS folder...] [LINK lib...] [PRIVATE_LINK lib...] [FLAGS flag...]
#              [PRECOMPILED name])
#
# Makes the target of one folder of src/. Public headers live in include/pons/NAME/, everything else is private to the
# folder. DEPENDS names other folders: the only ones whose headers can be included. Files ending in _test.cc become the
# folder's unit test NAME_test. FOLDERS are folders below with sources of the same library. FLAGS are for library and test.
# PRECOMPILED names the shared header of cmake/precompiled, if not the common one.
function(pons_library name)
  cmake_parse_arguments(ARG "" "PRECOMPILED" "FOLDERS;DEPENDS;LINK;PRIVATE_LINK;FLAGS" ${ARGN})
  file(GLOB headers CONFIGURE_DEPENDS include/pons/${name}/*.h)
  set(patterns *.cc)
  foreach(folder ${ARG_FOLDERS})
    list(APPEND patterns ${folder}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(TRANSFORM ARG_DEPENDS PREPEND pons_)

  add_library(pons_${name} STATIC ${sources})
  target_sources(pons_${name} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${headers})
  if(ARG_FOLDERS)
    target_include_directories(pons_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  target_link_libraries(pons_${name} PUBLIC ${ARG_DEPENDS} ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  target_compile_options(pons_${name} PRIVATE ${ARG_FLAGS})
  if(NOT ARG_PRECOMPILED)
    set(ARG_PRECOMPILED common)
  endif()
  pons_use_precompiled(pons_${name} ${ARG_PRECOMPILED} FLAGS ${ARG_FLAGS})
  if(tests AND NOT PONS_FUZZ)
    pons_test(${name}_test SOURCES ${tests} LINK pons_${name} ${ARG_PRIVATE_LINK} FLAGS ${ARG_FLAGS} LABEL unit)
    target_include_directories(${name}_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
endfunction()

# All that carry the label unit.
add_custom_target(unit_tests)

# pons_test(NAME SOURCES file... LINK target... LABEL unit|kernel [FLAGS flag...])
function(pons_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;LINK;FLAGS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  # They run with the sanitizers on; other builds make them only when asked by name.
  if(NOT PONS_SANITIZE)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock_main)
  target_compile_options(${name} PRIVATE ${ARG_FLAGS})
  if(PONS_SANITIZE)
    pons_use_precompiled(${name} tests FLAGS ${ARG_FLAGS})
  endif()
  # One ctest entry per executable: a process per TEST() would spend its time starting sanitizers.
  add_test(NAME ${ARG_LABEL}/${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${ARG_LABEL}/${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT 1200)
  if(ARG_LABEL STREQUAL "unit")
    add_dependencies(unit_tests ${name})
  endif()
endfunction()
