# pons_use_precompiled(TARGET common|tests|cli [FLAGS flag...])
#
# Gives the target one of the headers in cmake/precompiled, which halves the time of a build from nothing. FLAGS are
# those that the target is compiled with beyond everybody's: a compiled header serves only the flags it was made with.
option(PONS_PRECOMPILED "Share compiled headers between files" ON)

# CMake's own words would pass the paths behind -Xclang, where ccache does not see that they lie in the checkout.
set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE>)

# ccache cannot compare compiled headers of two checkouts: they hold paths. It takes the word of a file NAME.pch.sum,
# which is the digest of all text that went in, so that another checkout finds the objects of this one.
function(pons_sum_of_precompiled target name)
  set(header ${CMAKE_SOURCE_DIR}/cmake/precompiled/${name}.h)
  set(sum ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.pch.sum)
  add_custom_command(OUTPUT ${sum} DEPENDS ${header} DEPFILE ${sum}.d VERBATIM
    COMMAND ${CMAKE_CXX_COMPILER} -x c++ -std=c++23 -E -P -MD -MF ${sum}.d -MT ${sum} ${header} -o ${sum}.text
    COMMAND sh -c "sha256sum <\"$1\" >\"$2\" && rm \"$1\"" sh ${sum}.text ${sum})
  add_custom_target(${target}_sum DEPENDS ${sum})
  add_dependencies(${target} ${target}_sum)
endfunction()

function(pons_use_precompiled target name)
  cmake_parse_arguments(ARG "" "" "FLAGS" ${ARGN})
  if(NOT PONS_PRECOMPILED)
    return()
  endif()
  string(JOIN "" shared pons_precompiled_${name} ${ARG_FLAGS})
  if(NOT TARGET ${shared})
    set(source ${CMAKE_BINARY_DIR}/precompiled/${shared}.cc)
    file(WRITE ${source} "")
    add_library(${shared} OBJECT ${source})
    target_compile_options(${shared} PRIVATE ${ARG_FLAGS})
    target_link_libraries(${shared} PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
    if(name STREQUAL "tests")  # its definitions are on the command line of every test
      target_link_libraries(${shared} PRIVATE GTest::gmock)
    endif()
    target_precompile_headers(${shared} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled/${name}.h)
    # One out of the cache would name files of the checkout that made it.
    set_target_properties(${shared} PROPERTIES CXX_COMPILER_LAUNCHER "")
    pons_sum_of_precompiled(${shared} ${name})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${shared})
endfunction()
