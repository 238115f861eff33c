#include "ops/common.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <numeric>

namespace tenon::ops {

void copy_element(Tensor& out, int64_t to, const Tensor& in, int64_t from) {
  const int64_t size = size_of(in.dtype());
  if (out.dtype() == in.dtype()) {
    std::memcpy(out.data() + to * size, in.data() + from * size, static_cast<size_t>(size));
  } else if (is_float(in.dtype())) {
    out.set_real(to, in.real(from));
  } else {
    out.set_integer(to, in.integer(from));
  }
}

std::string_view kept_text(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text));
}

double known_count(const TensorType& type) {
  double count = 1;
  for (const Expr& size : type.shape) count *= static_cast<double>(size.constant());
  return count;
}

Types elementwise_type(InferContext& c) {
  const auto* elementwise = std::get_if<Elementwise>(&c.op().semantics.get());
  const DType dtype = elementwise ? compute_dtype(*elementwise, c) : result_dtype(c.present_types());
  return {{dtype, elementwise_bool(c)[0].shape}};
}

Types elementwise_bool(InferContext& c) {
  Shape shape;
  for (const TensorType& type : c.present_types()) shape = broadcast(shape, type.shape);
  return {{DType::kBool, std::move(shape)}};
}

InferFn same_as(size_t operand) {
  return [operand](InferContext& c) -> Types { return {c.type(operand)}; };
}

InferFn same_shape(size_t operand, DType dtype) {
  return [operand, dtype](InferContext& c) -> Types { return {{dtype, c.type(operand).shape}}; };
}

Shape without_dims(const Shape& shape, const std::vector<int64_t>& dims, bool keepdim) {
  Shape result;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const bool reduced = std::ranges::binary_search(dims, static_cast<int64_t>(dim));
    if (!reduced) result.push_back(shape[dim]);
    if (reduced && keepdim) result.push_back(1);
  }
  return result;
}

std::vector<int64_t> dims_between(int64_t first, int64_t end) {
  std::vector<int64_t> dims(static_cast<size_t>(end - first));
  std::iota(dims.begin(), dims.end(), first);
  return dims;
}

Value along(Builder& b, Value vector, int64_t dim, int64_t rank) {
  Shape shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(dim)] = element_count(vector.shape());
  return b.reshape(vector, shape);
}

const Samples& unary_samples() {
  static const Samples samples = {"T[3, 4]", "T[]", "T[0]", "T[1]", "T[2, 1, 3]", "T[2, 0, 3]", "T[40]"};
  return samples;
}

const Samples& binary_samples() {
  static const Samples samples = {"T[3, 4], T[3, 4]", "T[], T[]",         "T[2, 1, 3], T[4, 1]",
                                  "T[3, 1], T[1, 4]", "T[0, 3], T[1]",    "T[5], T[]",
                                  "T[1], T[2, 3]",    "T[2, 0], T[2, 1]", "T[40], T[40]"};
  return samples;
}

const Samples& promoting_samples() {
  static const Samples samples = {"f32[3], i64[3]", "f32[3], f64[]",  "i64[3], f32[]", "f16[3], bf16[3]",
                                  "u8[3], i8[3]",   "bool[3], i32[]", "i8[2], i64[]",  "bool[3], f16[]",
                                  "f16[2], f32[2]", "i16[2], u8[2]"};
  return samples;
}

const Samples& ternary_samples() {
  static const Samples samples = {"T[3, 4], T[3, 4], T[3, 4]", "T[], T[], T[]", "T[2, 1, 3], T[4, 1], T[3]",
                                  "T[0, 3], T[1], T[3]", "T[20], T[], T[20]"};
  return samples;
}

Samples operator+(const Samples& a, const Samples& b) {
  Samples all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

}  // namespace tenon::ops
