# find_package(Tenon): Tenon::runtime, Tenon::compiler and, where a project asks for it, Tenon::lazy, as far as they are
# installed.
include("${CMAKE_CURRENT_LIST_DIR}/TenonTargets.cmake" OPTIONAL)
include("${CMAKE_CURRENT_LIST_DIR}/TenonStaticTargets.cmake" OPTIONAL)
include("${CMAKE_CURRENT_LIST_DIR}/TenonCompilerTargets.cmake" OPTIONAL)
if("lazy" IN_LIST Tenon_FIND_COMPONENTS)
  include("${CMAKE_CURRENT_LIST_DIR}/TenonLazy.cmake" OPTIONAL)
endif()
foreach(component IN LISTS Tenon_FIND_COMPONENTS)
  if(NOT TARGET Tenon::${component})
    set(Tenon_FOUND FALSE)
    set(Tenon_NOT_FOUND_MESSAGE "${component} is not installed: cmake --install BUILD --component ${component}")
  endif()
endforeach()
