# Makes the digest of files a string constant. As a function, `tenon_digest(tenon kSources a.cpp b.h)` lets the target's
# sources include "embedded/kSources.h", which defines `tenon::kSources` and follows the files; as a script (cmake -P), it
# writes that header.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  file(STRINGS "${LIST}" files)
  set(all "")
  foreach(file IN LISTS files)
    file(SHA256 "${file}" digest)
    string(APPEND all "${digest}\n")
  endforeach()
  string(SHA256 digest "${all}")
  file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT
    "#pragma once\n\n#include <string_view>\n\nnamespace tenon {\ninline constexpr std::string_view @NAME@ = \"@digest@\";\n}\n")
  return()
endif()

function(tenon_digest target name)
  set(list "${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.txt")
  set(out "${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.h")
  list(JOIN ARGN "\n" lines)
  file(CONFIGURE OUTPUT "${list}" CONTENT "${lines}\n" @ONLY)
  add_custom_command(OUTPUT "${out}" DEPENDS "${list}" ${ARGN} VERBATIM
    COMMAND "${CMAKE_COMMAND}" "-DLIST=${list}" "-DOUT=${out}" "-DNAME=${name}" -P "${CMAKE_CURRENT_FUNCTION_LIST_FILE}")
  target_sources(${target} PRIVATE "${out}")
endfunction()
