# Headers that most files of a target include, parsed once: half of the time to compile a file was spent in them. A file
# still includes what it uses; the presets for debuggers and sanitizers precompile nothing, and find a missing include.
function(tenon_precompile_only target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")  # so that ccache knows it again
  endif()
  if(CCACHE_PROGRAM AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    set(launcher "${CMAKE_COMMAND}" -E env ${ccache_env} CCACHE_SLOPPINESS=pch_defines,time_macros "${CCACHE_PROGRAM}")
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "${launcher}")
  endif()
endfunction()

# For what is written with the compiler's headers: those that most of its files include, and the given ones.
function(tenon_precompile target)
  cmake_path(SET op NORMALIZE "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../src/graph/op.h")
  tenon_precompile_only(${target} <algorithm> <functional> <map> <memory> <optional> <set> <string> <unordered_map>
    <variant> <vector> <fmt/format.h> "${op}" ${ARGN})
endfunction()
