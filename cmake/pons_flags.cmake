# Compiler flags that hold for every target.

add_compile_options(
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough -Werror
  -Wno-missing-field-initializers  # designated initialisers with defaults are how options are passed
  -fno-omit-frame-pointer)

if(PONS_SANITIZE)
  add_compile_options(-fsanitize=${PONS_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PONS_SANITIZE})
endif()
if(PONS_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(PONS_HARDEN)
  add_compile_options(-fstack-protector-strong -fstack-clash-protection -fcf-protection
    -D_FORTIFY_SOURCE=2 -D_GLIBCXX_ASSERTIONS)
  add_link_options(-Wl,-z,relro,-z,now)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  add_link_options(-pie)
endif()
