# The warnings of our own targets, for clang and gcc alike. They are errors where the code would be wrong; `make lint`
# treats all of them as errors. Records leave optional fields out, and state mandatory ones with Required<T>, so a missing
# initializer is no warning. GCC's -Wshadow warns of parameters of lambdas and of members' names, GCC warns of Clang's
# attributes, and its -Wdangling-else of googletest's macros, which have an else inside.
function(tenon_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wno-missing-field-initializers
    -Wcast-qual
    -Wextra-semi
    -Wimplicit-fallthrough
    -Wnon-virtual-dtor
    -Woverloaded-virtual
    $<$<NOT:$<CXX_COMPILER_ID:GNU>>:-Wshadow>
    -Wvla
    -Werror=return-type
    -Werror=switch
    -Werror=uninitialized
    -Werror=unused-result
    $<$<CXX_COMPILER_ID:GNU>:-Wno-attributes=clang::>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-dangling-else>)
endfunction()
