// Library functions: what a program calls by name, over plain memory. The op's record (src/ops/) says what a function
// computes; this header says how it is called.
//
// A call is not trusted: numbers, dtypes, ranks and sizes are checked against each other before any memory is touched.
// Only the views must point to valid memory. It allocates nothing but scratch memory.
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
  std::span<TensorView> outputs;  // must not overlap another view
  std::span<const int64_t>
      numbers;            // the attributes of the record that are booleans, integers and expressions, in order
  std::string_view text;  // the string attribute
  const tenon_services* services;

  // Allocates an output whose shape only the function knows, and returns its view, of that shape and dtype i64. Called
  // for functions with `makes_output`, which ignore the view in `outputs` and set it. May throw.
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
  void (*body)(LibraryCall& call);  // called after the checks that all functions share
};

// Stands for an attribute that is the result size of nonzero. Its value is not used.
inline constexpr int64_t kAnyCount = -1;

const LibraryFunction* find_library_function(std::string_view name);  // null if unknown
std::span<const LibraryFunction> library_functions();

// Throws a StatusError, and leaves outputs undefined: TENON_BAD_FILE for a call that breaks the function's rules,
// TENON_RUN_FAILED for bad data (a singular matrix, a k that is out of range), TENON_OUT_OF_MEMORY if `services` has no
// scratch memory.
void run(const LibraryFunction& function, LibraryCall& call);

// The most bytes of scratch that a good call takes at a time if `services` has so many threads. Needs no memory: views
// may be null. Throws a StatusError for sizes that no tensor can have.
int64_t scratch_of(const LibraryFunction& function, const LibraryCall& call, int64_t threads);

}  // namespace tenon::runtime
