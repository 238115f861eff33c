// Inside of lazy: what the functions of the table (include/tenon/aten_compiler.h) work on.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "capture/importer.h"
#include "program/donate.h"
#include "program/program.h"
#include "tenon/aten_compiler.h"

// An import: a graph that grows call by call. Numbers of tensors are places in `tensors`.
struct tenon_import {
  tenon::Importer importer = tenon::Importer("lazy");
  std::vector<tenon::AtenTensor> tensors;
  std::vector<uint64_t> result_counts;  // of each external call
  size_t input_count = 0;
  // Of the last answer to the caller:
  std::deque<std::vector<tenon_aten_arg>> lists;
  tenon_aten_arg result = {};
  mutable std::vector<int64_t> shape;
};

struct tenon_aten_program {
  tenon::Program program;
  std::vector<tenon::ResultPlace> results;
  std::vector<int64_t> places;  // of each result the input whose memory it is in, or -1
  bool takes_key;
  std::vector<tenon::UnsupportedCall> unsupported;
  mutable std::once_flag is_described = {};
  mutable std::string text = {};
};

namespace tenon {

// Runs the body of a function of the table; what it throws becomes a status and a text.
template <class Body>
tenon_status guarded(tenon_text* error, tenon_status failure, Body body) {
  try {
    body();
    return TENON_OK;
  } catch (const Error& thrown) {
    return tenon_write_text(error, failure, thrown.what());
  } catch (const std::bad_alloc&) {
    return tenon_write_text(error, TENON_OUT_OF_MEMORY, "there is no more memory");
  } catch (const std::exception& thrown) {
    return tenon_write_text(error, TENON_INTERNAL, thrown.what());
  } catch (...) {  // InterruptedWork
    return tenon_write_text(error, TENON_RUN_FAILED, "interrupted");
  }
}

// Throws an Error for a number that no tensor has.
const AtenTensor& tensor_at(const tenon_import& import, int64_t number);

// Throws an Error for a dtype or rank that is none.
TensorType type_of(const tenon_tensor& tensor);
Tensor borrowed(const tenon_tensor& tensor, std::shared_ptr<void> owner);

// Compiles a finished import. Throws an Error.
std::unique_ptr<tenon_aten_program> compile_import(tenon_import& import, const tenon_compile_request& request);

// Its graph, its segments, the calls that PyTorch runs, and the loops of its kernels.
const std::string& text_of(const tenon_aten_program& program);

// Throws an Error.
void run_program(const tenon_aten_program& program, std::span<const tenon_tensor> inputs,
                 std::span<tenon_owned_tensor> results);

}  // namespace tenon
