// Tensors: expressions over named dimensions, their data and their code.
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <limits>

#include "backends/backend.h"
#include "face.h"
#include "loops/work.h"

namespace tenon::web {
namespace {

using NamedTensor = named::Tensor;

// An operand as the page writes it: a tensor, or a number.
struct OperandWords {
  const NamedTensor* tensor;
  enum : uint32_t { kTensor, kInteger, kReal } kind;
  double number;
};

// An index: a tensor, or the text of an expression.
struct CoordinateWords {
  const NamedTensor* tensor;
  const char* expr;
};

struct PartWords {
  const NamedTensor* tensor;
  const char* dim;
};

struct SizeWords {
  const char* symbol;
  int32_t size;
};

named::Operand operand_from(const OperandWords& words) {
  if (words.kind == OperandWords::kTensor) return *words.tensor;
  if (words.kind == OperandWords::kInteger) return static_cast<int64_t>(words.number);
  return words.number;
}

named::Coordinate coordinate_from(const CoordinateWords& words) {
  if (words.tensor) return *words.tensor;
  return expr_from(words.expr);
}

std::vector<named::Coordinate> coordinates_from(const CoordinateWords* words, uint32_t count) {
  std::vector<named::Coordinate> coordinates;
  for (uint32_t i = 0; i < count; ++i) coordinates.push_back(coordinate_from(words[i]));
  return coordinates;
}

// A copy of the page's array.
Tensor tensor_from(const tenon_tensor& from) {
  Tensor copy = Tensor::zeros(static_cast<DType>(from.dtype), Sizes(from.shape, from.shape + from.rank));
  const auto bytes = static_cast<size_t>(copy.numel() * size_of(copy.dtype()));
  if (bytes > 0) std::memcpy(copy.data(), from.data, bytes);
  return copy;
}

template <class Make>
tenon_status made(NamedTensor** result, Make make) {
  return guarded([&] { *result = new NamedTensor(make()); });
}

NamedTensor reduced(const NamedTensor& tensor, std::string_view op, const named::Symbols& dims) {
  if (op == "sum") return tensor.sum(dims);
  if (op == "prod") return tensor.prod(dims);
  if (op == "mean") return tensor.mean(dims);
  if (op == "max") return tensor.max(dims);
  if (op == "min") return tensor.min(dims);
  fail("there is no reduction {}", op);
}

std::string json_of(const NamedTensor& tensor) {
  std::string dims, shape;
  for (const named::Symbol& dim : tensor.dims()) {
    dims += (dims.empty() ? "" : ",") + fmt::format("[{},{}]", quoted(dim.name()), quoted(dim.index_symbol().name()));
  }
  for (const Expr& size : tensor.shape()) {
    shape += (shape.empty() ? "" : ",") + (size.is_constant() ? to_string(size) : quoted(named::shown(size)));
  }
  return fmt::format("{{\"dtype\":\"{}\",\"dims\":[{}],\"shape\":[{}]}}", name_of(tensor.dtype()), dims, shape);
}

}  // namespace

// ---- inputs ---------------------------------------------------------------------------------------------------------

EXPORT(tensor_input)(const char* dims, const char* dtype, NamedTensor** result) {
  return made(result, [&] { return NamedTensor(symbols_from(dims), dtype_from(dtype)); });
}

EXPORT(tensor_bind)(const NamedTensor* tensor, const tenon_tensor* data) {
  return guarded([&] { tensor->bind(tensor_from(*data)); });
}

EXPORT(tensor_free)(NamedTensor* tensor) {
  delete tensor;
  return TENON_OK;
}

// ---- expressions ----------------------------------------------------------------------------------------------------

EXPORT(tensor_apply)(const char* op, const OperandWords* operands, uint32_t count, NamedTensor** result) {
  return made(result, [&] {
    std::vector<named::Operand> all;
    for (uint32_t i = 0; i < count; ++i) all.push_back(operand_from(operands[i]));
    return named::apply(op, all);
  });
}

EXPORT(tensor_reduce)(const NamedTensor* tensor, const char* op, const char* dims, NamedTensor** result) {
  return made(result, [&] { return reduced(*tensor, op, symbols_from(dims)); });
}

EXPORT(tensor_index)(const NamedTensor* tensor, const CoordinateWords* words, uint32_t count, NamedTensor** result) {
  return made(result, [&] { return (*tensor)[coordinates_from(words, count)]; });
}

EXPORT(tensor_at)(const NamedTensor* tensor, const CoordinateWords* words, uint32_t count, const OperandWords* fill,
                  NamedTensor** result) {
  return made(result, [&] { return tensor->at(coordinates_from(words, count), operand_from(*fill)); });
}

EXPORT(tensor_to)(const NamedTensor* tensor, const char* dims, NamedTensor** result) {
  return made(result, [&] { return tensor->to(symbols_from(dims)); });
}

EXPORT(tensor_transpose)(const NamedTensor* tensor, const char* dims, NamedTensor** result) {
  return made(result, [&] { return tensor->transpose(symbols_from(dims)); });
}

EXPORT(tensor_flatten)(const NamedTensor* tensor, const char* dims, const char* flat, NamedTensor** result) {
  return made(result, [&] { return tensor->flatten(symbols_from(dims), symbol_from(flat)); });
}

EXPORT(tensor_split)(const NamedTensor* tensor, const char* flat, const char* parts, int32_t innermost,
                     NamedTensor** result) {
  return made(result, [&] {
    const named::Symbols symbols = symbols_from(parts);
    return innermost > 0 ? tensor->split(symbol_from(flat), symbols, innermost)
                         : tensor->split(symbol_from(flat), symbols);
  });
}

EXPORT(tensor_pad)(const NamedTensor* tensor, const char* dim, int32_t low, int32_t high, const OperandWords* fill,
                   const char* padded, NamedTensor** result) {
  return made(result,
              [&] { return tensor->pad(symbol_from(dim), low, high, operand_from(*fill), symbol_from(padded)); });
}

EXPORT(tensor_cast)(const NamedTensor* tensor, const char* dtype, NamedTensor** result) {
  return made(result, [&] { return tensor->cast(dtype_from(dtype)); });
}

EXPORT(tensor_with_sizes)(const NamedTensor* tensor, const SizeWords* words, uint32_t count, NamedTensor** result) {
  return made(result, [&] {
    std::vector<std::pair<named::Symbol, int64_t>> sizes;
    for (uint32_t i = 0; i < count; ++i) sizes.emplace_back(symbol_from(words[i].symbol), words[i].size);
    return tensor->with_sizes(sizes);
  });
}

EXPORT(tensor_concat)(const PartWords* words, uint32_t count, const char* whole, NamedTensor** result) {
  return made(result, [&] {
    std::vector<std::pair<NamedTensor, named::Symbol>> parts;
    for (uint32_t i = 0; i < count; ++i) parts.emplace_back(*words[i].tensor, symbol_from(words[i].dim));
    return named::concat(parts, symbol_from(whole));
  });
}

EXPORT(tensor_of_expr)(const char* expr, NamedTensor** result) {
  return made(result, [&] { return named::index(expr_from(expr)); });
}

// ---- what it is -----------------------------------------------------------------------------------------------------

// {dtype, dims: [[name, symbol]], shape} as JSON. A size that is not known is an expression.
EXPORT(tensor_describe)(const NamedTensor* tensor) {
  return guarded([&] { set_text(json_of(*tensor)); });
}

EXPORT(tensor_code)(const NamedTensor* tensor) {
  return guarded([&] { set_text(tensor->code()); });
}

// ---- running --------------------------------------------------------------------------------------------------------

EXPORT(tensor_data)(const NamedTensor* tensor, Tensor** result) {
  return guarded([&] { *result = new Tensor(tensor->data()); });
}

EXPORT(array_view)(const Tensor* array, tenon_tensor* view) {
  return guarded([&] {
    *view = {array->data(), static_cast<tenon_dtype>(array->dtype()), static_cast<int32_t>(array->rank()),
             array->shape().data(), nullptr};
  });
}

EXPORT(array_free)(Tensor* array) {
  delete array;
  return TENON_OK;
}

// Runs for so long, and at least 3 times. The seconds of the fastest run, the runs, and the flops of one.
EXPORT(tensor_benchmark)(const NamedTensor* tensor, double seconds, double* result) {
  return guarded([&] {
    using Clock = std::chrono::steady_clock;
    tensor->data();
    double best = std::numeric_limits<double>::infinity(), total = 0, runs = 0;
    for (; runs < 3 || total < seconds; ++runs) {
      const Clock::time_point begin = Clock::now();
      tensor->data();
      const double taken = std::chrono::duration<double>(Clock::now() - begin).count();
      best = std::min(best, taken);
      total += taken;
    }
    const Expr flops = loops::flops(tensor->loop_tree());
    result[0] = best, result[1] = runs;
    result[2] = flops.is_constant() ? static_cast<double>(flops.constant()) : 0;
  });
}

EXPORT(tensor_loop_tree)(const NamedTensor* tensor, loops::LoopTree** result) {
  return guarded([&] { *result = new loops::LoopTree(tensor->loop_tree()); });
}

EXPORT(tensor_set)(const NamedTensor* tensor, const loops::LoopTree* tree) {
  return guarded([&] { tree ? tensor->set(*tree) : tensor->reset_schedule(); });
}

}  // namespace tenon::web
