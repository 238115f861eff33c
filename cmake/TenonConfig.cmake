# find_package(Tenon): Tenon::runtime and Tenon::compiler, as far as they are installed.
include("${CMAKE_CURRENT_LIST_DIR}/TenonTargets.cmake" OPTIONAL)
include("${CMAKE_CURRENT_LIST_DIR}/TenonCompilerTargets.cmake" OPTIONAL)
foreach(component IN LISTS Tenon_FIND_COMPONENTS)
  if(NOT TARGET Tenon::${component})
    set(Tenon_FOUND FALSE)
    set(Tenon_NOT_FOUND_MESSAGE "${component} is not installed: cmake --install BUILD --component ${component}")
  endif()
endforeach()
