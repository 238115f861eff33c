# tenon_test_files(target file...): a CTest test for each file of a GoogleTest program, which runs the suites that the
# file is the first to name. A process for each file, not for each case: to start one takes longer than most cases do.
# The last test, "others of <target>", runs the suites that no file names, or did not when CMake ran.
#
#     ctest -R loops/                                            # the files of a folder
#     build/bin/tenon_tests --gtest_filter='Schedule.Tile*'      # some cases
function(tenon_test_files target)
  set(known "")
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source)
    file(READ "${source}" text)
    string(REGEX MATCHALL "\nT(EST|EST_F|EST_P|YPED_TEST)\\([ \n]*[A-Za-z0-9_]+," macros "${text}")
    list(TRANSFORM macros REPLACE "^.*\\([ \n]*([A-Za-z0-9_]+),$" "\\1")
    list(REMOVE_DUPLICATES macros)
    list(REMOVE_ITEM macros ${known})
    if(NOT macros)
      continue()
    endif()
    list(APPEND known ${macros})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests" OUTPUT_VARIABLE name)
    string(REGEX REPLACE "(_test)?\\.cpp$" "" name "${name}")
    tenon_suite_filter(filter "${macros}")
    tenon_test_process("${name}" ${target} "${filter}")
  endforeach()
  tenon_suite_filter(filter "${known}")
  tenon_test_process("others of ${target}" ${target} "-${filter}")
  set_tests_properties("others of ${target}" PROPERTIES FAIL_REGULAR_EXPRESSION "")  # there need be none
endfunction()

# The suites' cases, also those with parameters ("All/Suite.Case/3") and types ("Suite/0.Case").
function(tenon_suite_filter result suites)
  list(TRANSFORM suites REPLACE "^(.+)$" "\\1.*:*/\\1.*:\\1/*")
  list(JOIN suites ":" filter)
  set(${result} "${filter}" PARENT_SCOPE)
endfunction()

function(tenon_test_process name target filter)
  add_test(NAME "${name}" COMMAND ${target} --gtest_brief=1 "--gtest_filter=${filter}"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  # A filter that selects nothing is a mistake in the filter.
  set_tests_properties("${name}" PROPERTIES TIMEOUT 1200 FAIL_REGULAR_EXPRESSION "\\] 0 tests from 0 ")
endfunction()
