// PyTorch's tensors on NVIDIA GPUs, and the stream that it works on.
#pragma once

#include <map>
#include <optional>

#include "bind.h"
#include "exchange.h"
#include "program/run.h"

namespace tenon::python {

// The spec of a GPU by CUDA's number: "cuda", "cuda:1".
std::string cuda_spec(int device);
// CUDA's number of a device of that spec; none: it is another device.
std::optional<int> cuda_number(const runtime::Device& device);

// A torch tensor on CUDA where it is; a copy on the same GPU where its elements are not in order, or not aligned. An
// undefined one for all other arrays.
std::optional<TensorOnDevice> on_cuda(nb::handle array);

void check_cuda_graphs();  // throws an Error with what a kernel of a CUDA graph has failed with

// What the commands of a thread are part of, as long as it lives.
class CudaStream {
 public:
  explicit CudaStream(int device);  // PyTorch's current stream there
  void use() const;
  static void use_own();

 private:
  void* stream_;
};

class UseStream {
 public:
  explicit UseStream(const std::optional<CudaStream>& stream) : is_used_(stream.has_value()) {
    if (stream) stream->use();
  }
  ~UseStream() {
    if (is_used_) CudaStream::use_own();
  }
  UseStream(const UseStream&) = delete;

 private:
  bool is_used_;
};

// Results that PyTorch has allocated.
class CudaResults {
 public:
  explicit CudaResults(std::shared_ptr<runtime::Device> device) : device_(std::move(device)) {}
  ~CudaResults();
  CudaResults(const CudaResults&) = delete;

  TensorOnDevice make(size_t output, DType dtype, const Sizes& shape);  // takes Python's lock
  nb::object tensor(size_t output) const;                               // an invalid object: it made none

 private:
  std::shared_ptr<runtime::Device> device_;
  std::map<size_t, nb::object> made_;
};

}  // namespace tenon::python
