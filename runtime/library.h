// The functions that a program calls by name: library tasks of the op table, over plain memory. What each computes its
// record says (src/ops/); how it is called is said here.
//
// Nothing of a call is trusted but that its views are memory: numbers, dtypes, ranks and sizes are checked against each
// other, and only then is memory touched. It allocates nothing but scratch memory.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/kernel.h"
#include "runtime/short_name.h"
#include "runtime/tensor_view.h"

namespace tenon::runtime {

struct LibraryCall {
  std::span<const TensorView> inputs;
  std::span<TensorView> outputs;  // overlap no other view
  std::span<const int64_t>
      numbers;            // the record's attributes that are booleans, integers and expressions, in its order
  std::string_view text;  // its attribute that is a string
  const tenon_services* services;

  // Gives memory for an output whose shape only the function knows, and its view, which must have that shape and i64 as
  // its dtype. Called for an output of a function with `makes_output`, which ignores the view in `outputs` and sets it.
  // May throw.
  TensorView (*make_output)(void* context, size_t output, std::span<const int64_t> shape) = nullptr;
  void* context = nullptr;
};

struct LibraryFunction {
  ShortName<24> name;
  uint32_t inputs;
  uint32_t outputs;
  uint32_t numbers;
  bool takes_text;
  bool makes_output;
  void (*body)(LibraryCall& call);  // of a call that has been checked as far as it is the same for all
};

// The number in the place of an attribute that is a size of nonzero's own: any will do.
inline constexpr int64_t kAnyCount = -1;

const LibraryFunction* find_library_function(std::string_view name);  // null where there is none
std::span<const LibraryFunction> library_functions();

// Throws a StatusError, after which outputs are undefined: TENON_BAD_FILE for a call that breaks the function's rules,
// TENON_RUN_FAILED for the model's own (a matrix that is singular, a k that is not there), TENON_OUT_OF_MEMORY where
// `services` has no scratch memory.
void run(const LibraryFunction& function, LibraryCall& call);

}  // namespace tenon::runtime
