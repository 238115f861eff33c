#include "train_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "graph/npy.h"
#include "support/runtime_call.h"
#include "support/text.h"

namespace tenon::cli {
namespace {

const runtime::TensorSlot& slot_of(const Runnable& program, size_t input) {
  return program.graph().slots[program.graph().inputs[input].slot];
}

// The size of a dimension where symbol number `symbol` has a value, and all others are 1.
int64_t size_at(const Runnable& program, const runtime::Expr& expr, size_t symbol, int64_t value) {
  std::vector<int64_t> symbols(program.graph().symbols.size(), 1);
  if (symbol < symbols.size()) symbols[symbol] = value;
  return call_runtime([&] { return runtime::evaluate(expr, program.graph().code, symbols); });
}

// The symbol that a size depends on; how many there are where it is a number.
size_t symbol_of(const Runnable& program, const runtime::Expr& expr) {
  const size_t count = program.graph().symbols.size();
  for (size_t i = 0; i < count; ++i) {
    if (size_at(program, expr, i, 1) != size_at(program, expr, i, 2)) return i;
  }
  return count;
}

Tensor array_named(const std::string& path, const NamedTensors& arrays, const InputInfo& spec) {
  std::vector<std::string_view> names;
  for (const auto& [name, array] : arrays) {
    if (name == spec.name) return array;
    names.push_back(name);
  }
  fail_at({path}, "there is no array '{}', which is to be {}{}; there are: {}", spec.name, spec.type,
          did_you_mean(spec.name, names), fmt::join(names, ", "));
}

void check_type(const std::string& path, const Runnable& program, const InputInfo& spec, size_t input,
                const Tensor& array) {
  const bool has_rank = array.rank() == spec.rank;
  bool fits = has_rank && array.dtype() == spec.dtype;
  for (int64_t dim = 1; fits && dim < array.rank(); ++dim) {
    const runtime::Expr& expr = slot_of(program, input).shape[static_cast<size_t>(dim)];
    const bool is_number = symbol_of(program, expr) == program.graph().symbols.size();
    fits = !is_number || size_at(program, expr, 0, 1) == array.size(dim);
  }
  if (fits) return;
  const bool casts = has_rank && array.dtype() != spec.dtype;
  fail_at({path}, "'{}' is to be {}, but the array is {}{}", spec.name, spec.type, to_string(type_of(array)),
          casts ? "; cast it before you save it" : "");
}

uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

BatchSize batch_size_of(const std::string& path, const Runnable& program) {
  std::optional<BatchSize> fixed;
  for (size_t i = 0; i < program.graph().inputs.size(); ++i) {
    const auto& shape = slot_of(program, i).shape;
    if (shape.empty()) continue;
    const size_t symbol = symbol_of(program, shape[0]);
    if (symbol < program.graph().symbols.size()) {
      const runtime::SymbolInfo& info = program.graph().symbols[symbol];
      return {.symbol = symbol, .low = std::max<int64_t>(info.low, 1), .high = info.high};
    }
    const int64_t size = size_at(program, shape[0], 0, 1);
    if (!fixed) fixed = BatchSize{.fixed = size, .low = size, .high = size};
  }
  if (!fixed || *fixed->fixed < 1) fail_at({path}, "no input of the model has samples along its first dimension");
  return *fixed;
}

TrainingData::TrainingData(const std::string& path, const Runnable& program, const BatchSize& size) {
  const NamedTensors arrays = read_npz(path).value();
  const std::vector<InputInfo> specs = program.inputs();
  for (size_t i = 0; i < specs.size(); ++i) {
    const Tensor array = array_named(path, arrays, specs[i]);
    check_type(path, program, specs[i], i, array);
    columns_.push_back(column_of(path, program, size, specs[i], i, array));
  }
  count_samples(path, specs, size);
}

TrainingData::Column TrainingData::column_of(const std::string& path, const Runnable& program, const BatchSize& size,
                                             const InputInfo& spec, size_t input, const Tensor& array) {
  Column column{array.contiguous()};
  if (array.rank() == 0) return column;
  const runtime::Expr& expr = slot_of(program, input).shape[0];
  const int64_t at_one = size_at(program, expr, size.symbol, 1);
  if (size.fixed) {
    column.rows = at_one % *size.fixed == 0 ? at_one / *size.fixed : 0;
    return column;
  }
  column.rows = size_at(program, expr, size.symbol, 2) - at_one;
  if (column.rows != 0 && column.rows != at_one)
    fail_at({path}, "the first dimension of '{}', which is {}, is no multiple of the batch", spec.name, spec.type);
  return column;
}

void TrainingData::count_samples(const std::string& path, const std::vector<InputInfo>& specs, const BatchSize& size) {
  const auto first = std::ranges::find_if(columns_, [](const Column& column) { return column.rows > 0; });
  check(first != columns_.end(), "a batch that no input has");
  samples_ = first->array.size(0) / first->rows;
  if (samples_ == 0) fail_at({path}, "there are no samples in it");
  for (size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    if (column.rows == 0 || column.array.size(0) == samples_ * column.rows) continue;
    const bool is_whole = size.fixed && column.array.size(0) == column.rows * *size.fixed;
    if (!is_whole) {
      fail_at({path}, "'{}' has {} rows, but '{}' has {} samples, which are {} rows of it", specs[i].name,
              column.array.size(0), specs[static_cast<size_t>(first - columns_.begin())].name, samples_,
              samples_ * column.rows);
    }
    column.rows = 0;
  }
}

std::vector<Tensor> TrainingData::batch(std::span<const int64_t> samples) {
  std::vector<Tensor> inputs;
  for (Column& column : columns_) {
    if (column.rows == 0) {
      inputs.push_back(column.array);
      continue;
    }
    Sizes shape = column.array.shape();
    shape[0] = column.rows * static_cast<int64_t>(samples.size());
    if (!column.buffer.defined() || column.buffer.size(0) < shape[0])
      column.buffer = Tensor::zeros(column.array.dtype(), shape);
    const auto bytes = static_cast<size_t>(column.array.numel() / samples_ * size_of(column.array.dtype()));
    std::byte* place = column.buffer.data();
    for (const int64_t sample : samples) {
      std::memcpy(place, column.array.data() + static_cast<size_t>(sample) * bytes, bytes);
      place += bytes;
    }
    const Sizes strides = contiguous_strides(shape);
    inputs.push_back(Tensor::borrow(column.array.dtype(), shape, strides, column.buffer.data(), column.buffer.owner()));
  }
  return inputs;
}

EpochSize epoch_size(int64_t samples, int64_t batch, const BatchSize& size) {
  const int64_t rest = samples % batch;
  const bool uses_rest = rest >= size.low && !size.fixed && rest > 0;
  return {samples, batch, samples / batch + (uses_rest ? 1 : 0), uses_rest ? samples : samples - rest};
}

std::vector<int64_t> shuffled(int64_t count, int64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(mixed(mixed(static_cast<uint64_t>(seed)) ^ static_cast<uint64_t>(epoch)));
  for (size_t i = order.size(); i > 1; --i) {
    // The high half of a product, as std::uniform_int_distribution differs between libraries.
    const auto product = static_cast<__uint128_t>(random()) * i;
    std::swap(order[i - 1], order[static_cast<size_t>(product >> 64)]);
  }
  return order;
}

}  // namespace tenon::cli
