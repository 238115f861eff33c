# How everything is compiled and linked: by compilers that are new enough, with ccache and lld where they exist, and with
# the sanitizers.
include(CheckLinkerFlag)

set(TENON_OLDEST_GNU 12)
set(TENON_OLDEST_Clang 16)
if(DEFINED TENON_OLDEST_${CMAKE_CXX_COMPILER_ID}
   AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS TENON_OLDEST_${CMAKE_CXX_COMPILER_ID})
  message(FATAL_ERROR "Tenon is written in C++20, which ${CMAKE_CXX_COMPILER} ${CMAKE_CXX_COMPILER_VERSION} does not know "
    "well enough: take g++ ${TENON_OLDEST_GNU} or clang ${TENON_OLDEST_Clang}, or newer: CC=clang-19 CXX=clang++-19")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Objects without debug information have no paths in them: clones and worktrees share them.
  set(ccache_env "")
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    set(ccache_env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env ${ccache_env} "${CCACHE_PROGRAM}")
endif()

check_linker_flag(CXX -fuse-ld=lld TENON_HAS_LLD)
if(TENON_HAS_LLD)
  add_link_options(-fuse-ld=lld)
endif()

if(TENON_SANITIZE STREQUAL "address")
  set(sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(TENON_SANITIZE STREQUAL "thread")
  set(sanitize_flags -fsanitize=thread -fno-omit-frame-pointer)
elseif(NOT TENON_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TENON_SANITIZE is \"${TENON_SANITIZE}\"; it can be empty, address or thread")
endif()
if(sanitize_flags)
  if(TENON_PYTHON)
    message(FATAL_ERROR "a sanitized Python module does not load into a plain interpreter; set TENON_PYTHON=OFF")
  endif()
  add_compile_options(${sanitize_flags})
  add_link_options(${sanitize_flags})
endif()
