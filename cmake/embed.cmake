# Makes the text of a file a string constant: `tenon_embed(tenon kPrelude backends/cpp/prelude.h)` lets the target's
# sources include "embedded/kPrelude.h", which defines `tenon::kPrelude`.
function(tenon_embed target name file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
  file(READ "${file}" text)
  file(CONFIGURE OUTPUT "embedded/${name}.h" @ONLY CONTENT
    "#pragma once\n\n#include <string_view>\n\nnamespace tenon {\ninline constexpr std::string_view @name@ = R\"embedded(@text@)embedded\";\n}\n")
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
endfunction()
