# libtenon_compiler.so: the compiler and the runtime for C++ programs, with LLVM inside and out of sight.
# `cmake --install build --component compiler` installs it with its headers.
add_library(tenon_compiler SHARED)
target_link_libraries(tenon_compiler PRIVATE tenon)
tenon_older_glibc(tenon_compiler)
target_compile_features(tenon_compiler INTERFACE cxx_std_20)
set(headers_dir "${CMAKE_INSTALL_INCLUDEDIR}/tenon/compiler")
target_include_directories(tenon_compiler INTERFACE
  "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR};${PROJECT_SOURCE_DIR}/include;${PROJECT_BINARY_DIR}/runtime/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR};${headers_dir}>")
set(exports "${CMAKE_CURRENT_SOURCE_DIR}/exports.map")
set_target_properties(tenon_compiler PROPERTIES
  EXPORT_NAME compiler
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib"
  LINK_DEPENDS "${exports}")
tenon_library_version(tenon_compiler)
if(TENON_SANITIZE STREQUAL "")
  target_link_options(tenon_compiler PRIVATE
    "-Wl,--version-script=${exports}" -Wl,-Bsymbolic-functions "$<$<CONFIG:Release>:-s>")
endif()

install(TARGETS tenon_compiler EXPORT TenonCompilerTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT compiler EXCLUDE_FROM_ALL NAMELINK_COMPONENT compiler)
install(EXPORT TenonCompilerTargets NAMESPACE Tenon:: DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Tenon"
  COMPONENT compiler EXCLUDE_FROM_ALL)
include("${PROJECT_SOURCE_DIR}/cmake/header_closure.cmake")
tenon_header_closure(headers tenon/compiler.h
  "${PROJECT_SOURCE_DIR}/include;${CMAKE_CURRENT_SOURCE_DIR};${PROJECT_SOURCE_DIR}")
foreach(header IN LISTS headers)
  string(REPLACE "|" ";" header "${header}")
  list(GET header 0 folder)
  list(GET header 1 name)
  cmake_path(GET name PARENT_PATH place)
  string(COMPARE EQUAL "${folder}" "${PROJECT_SOURCE_DIR}/include" is_public)
  install(FILES "${folder}/${name}" DESTINATION "$<IF:${is_public},${CMAKE_INSTALL_INCLUDEDIR},${headers_dir}>/${place}"
    COMPONENT compiler EXCLUDE_FROM_ALL)
endforeach()

# Tenon::lazy is built by the project that uses it (cmake/TenonLazy.cmake.in): its sources are installed, in
# `cmake --install build --component lazy`.
set(lazy_sources_dir "${CMAKE_INSTALL_DATADIR}/tenon/lazy")
set(cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Tenon")
file(RELATIVE_PATH lazy_path "/${cmake_dir}" "/${lazy_sources_dir}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/TenonLazy.cmake.in" TenonLazy.cmake @ONLY)
set(extension_dir "${PROJECT_SOURCE_DIR}/python/tenon/lazy/extension")
file(GLOB lazy_headers CONFIGURE_DEPENDS "${extension_dir}/*.h")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/TenonLazy.cmake" DESTINATION "${cmake_dir}"
  COMPONENT lazy EXCLUDE_FROM_ALL)
install(FILES "${extension_dir}/lazy.cpp" ${lazy_headers} DESTINATION "${lazy_sources_dir}"
  COMPONENT lazy EXCLUDE_FROM_ALL)
install(FILES "${extension_dir}/tenon/lazy.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tenon"
  COMPONENT lazy EXCLUDE_FROM_ALL)
