# What makes libraries and programs run on other systems than this one.

# Functions that glibc changed or added after 2.34, defined inside of each library and program that asks for them, so that
# what is built here also runs where glibc is older (manylinux_2_34).
function(tenon_older_glibc target)
  if(TENON_ELSEWHERE)
    set(source "${PROJECT_SOURCE_DIR}/cmake/older_glibc.cpp")
    target_sources(${target} PRIVATE "${source}")
    set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS -fno-lto)
  endif()
endfunction()

# LLVM can compress, with zlib and zstd. The targets of its package name the shared libraries.
function(tenon_static_compression)
  if(TENON_ELSEWHERE)
    foreach(library z zstd)
      find_library(TENON_STATIC_${library} lib${library}.a REQUIRED)
    endforeach()
    set_target_properties(ZLIB::ZLIB PROPERTIES
      IMPORTED_LOCATION "${TENON_STATIC_z}" IMPORTED_LOCATION_RELEASE "${TENON_STATIC_z}")
    set_target_properties(zstd::libzstd_shared PROPERTIES
      IMPORTED_LOCATION "${TENON_STATIC_zstd}" IMPORTED_LOCATION_RELEASE "${TENON_STATIC_zstd}")
  endif()
endfunction()

# The versions in a library's name are links to one file, and a wheel holds no links.
function(tenon_library_version target)
  if(NOT SKBUILD)
    set_target_properties(${target} PROPERTIES VERSION "${PROJECT_VERSION}" SOVERSION "${PROJECT_VERSION_MAJOR}")
  endif()
endfunction()
