// Programs of imports: compiled, and run over memory of the caller.
#include <fmt/format.h>

#include "driver/pipeline.h"
#include "graph/runtime_dtype.h"
#include "lazy/import.h"
#include "program/report.h"

namespace tenon {
namespace {

std::string dump_of(const Task& task) {
  return task.tree ? fmt::format("\n{}:\n{}", task.name, task.tree->dump()) : std::string();
}

// ---- the fallback ---------------------------------------------------------------------------------------------------

tenon_tensor described_operand(const Tensor& tensor) {
  return {tensor.data(), code_of(tensor.dtype()), static_cast<int32_t>(tensor.rank()), tensor.shape().data(),
          tensor.strides().data()};
}

Tensor taken(const tenon_owned_tensor& result) {
  std::shared_ptr<void> owner;
  if (result.release != nullptr) owner = std::shared_ptr<void>(result.owner, result.release);
  return borrowed(result.tensor, std::move(owner));
}

FallbackFn fallback_of(const tenon_compile_request& request, std::shared_ptr<void> user_data,
                       std::vector<uint64_t> result_counts) {
  if (request.fallback == nullptr) return {};
  return [run = request.fallback, user_data = std::move(user_data), result_counts = std::move(result_counts)](
             int64_t call, std::span<const Tensor> operands) {
    std::vector<tenon_tensor> given;
    for (const Tensor& operand : operands) given.push_back(described_operand(operand));
    std::vector<tenon_owned_tensor> results(result_counts[static_cast<size_t>(call)]);
    char message[4096] = "";
    tenon_text error = {message, sizeof(message)};
    const tenon_status status =
        run(user_data.get(), call, given.data(), given.size(), results.data(), results.size(), &error);
    if (status != TENON_OK) fail("{}", message);
    std::vector<Tensor> tensors;
    for (const tenon_owned_tensor& result : results) tensors.push_back(taken(result));
    return tensors;
  };
}

std::set<uint32_t> donated_of(const tenon_compile_request& request) {
  std::set<uint32_t> donated;
  for (uint64_t i = 0; i < request.donated_count; ++i) donated.insert(static_cast<uint32_t>(request.donated[i]));
  return donated;
}

Graph finished(tenon_import& import, const tenon_compile_request& request) {
  std::vector<AtenArg> outputs;
  for (uint64_t i = 0; i < request.output_count; ++i) {
    const tenon_aten_arg& output = request.outputs[i];
    if (output.kind != TENON_ARG_TENSOR) fail("output {} is no tensor", i);
    outputs.emplace_back(tensor_at(import, output.integer));
  }
  return import.importer.finish(outputs);
}

// ---- a run ----------------------------------------------------------------------------------------------------------

// A tensor with its dimensions in another order: the same memory.
Tensor permuted(const Tensor& tensor, const std::vector<int64_t>& order) {
  if (order.empty()) return tensor;
  Sizes shape, strides;
  for (int64_t dim : order) {
    shape.push_back(tensor.size(dim));
    strides.push_back(tensor.strides()[static_cast<size_t>(dim)]);
  }
  return Tensor::borrow(tensor.dtype(), std::move(shape), std::move(strides), tensor.data(), tensor.owner());
}

tenon_owned_tensor owned(Tensor tensor) {
  auto* kept = new Tensor(std::move(tensor));
  return {described_operand(*kept), kept, [](void* owner) { delete static_cast<Tensor*>(owner); }};
}

}  // namespace

// ---- tensors --------------------------------------------------------------------------------------------------------

TensorType type_of(const tenon_tensor& tensor) {
  if (tensor.dtype < TENON_F64 || tensor.dtype > TENON_BOOL) fail("{} is no dtype", static_cast<int>(tensor.dtype));
  if (tensor.rank < 0) fail("a tensor has a rank of {}", tensor.rank);
  TensorType type{static_cast<DType>(tensor.dtype), {}};
  for (int32_t i = 0; i < tensor.rank; ++i) type.shape.emplace_back(tensor.shape[i]);
  return type;
}

Tensor borrowed(const tenon_tensor& tensor, std::shared_ptr<void> owner) {
  Sizes shape(tensor.shape, tensor.shape + tensor.rank);
  Sizes strides =
      tensor.strides == nullptr ? contiguous_strides(shape) : Sizes(tensor.strides, tensor.strides + tensor.rank);
  return Tensor::borrow(static_cast<DType>(tensor.dtype), std::move(shape), std::move(strides), tensor.data,
                        std::move(owner));
}

// ---- programs -------------------------------------------------------------------------------------------------------

std::unique_ptr<tenon_aten_program> compile_import(tenon_import& import, const tenon_compile_request& request) {
  std::shared_ptr<void> user_data(request.user_data, [release = request.release](void* data) {
    if (release != nullptr) release(data);
  });
  const Graph graph = finished(import, request);
  Donation donation = donate_inputs(graph, donated_of(request), /*shares=*/true);
  ProgramOptions options{.fallback = fallback_of(request, std::move(user_data), import.result_counts)};
  if (request.device != nullptr) options.devices = {request.device};
  Program program = compile_program(donation.graph, options).value();
  std::vector<int64_t> places;
  for (const ResultPlace& place : donation.results) {
    places.push_back(place.input ? int64_t{*place.input} : -1);
  }
  return std::unique_ptr<tenon_aten_program>(
      new tenon_aten_program{std::move(program), std::move(donation.results), std::move(places),
                             !import.importer.key_input().empty(), import.importer.unsupported()});
}

const std::string& text_of(const tenon_aten_program& self) {
  std::call_once(self.is_described, [&] {
    self.text = fmt::format("{}\n{}", to_string(*self.program.source), describe(self.program));
    if (!self.unsupported.empty()) self.text += fmt::format("\nPyTorch runs:\n{}\n", to_string(self.unsupported));
    for (const Task& task : self.program.tasks) self.text += dump_of(task);
  });
  return self.text;
}

void run_program(const tenon_aten_program& self, std::span<const tenon_tensor> inputs,
                 std::span<tenon_owned_tensor> results) {
  if (results.size() != self.results.size()) {
    fail("the program gives {} results, and there is room for {}", self.results.size(), results.size());
  }
  std::vector<Tensor> given;
  given.reserve(inputs.size());
  for (const tenon_tensor& input : inputs) given.push_back(borrowed(input, {}));
  const std::vector<Tensor> outputs = self.program.run(given);
  for (size_t i = 0; i < results.size(); ++i) {
    const ResultPlace& place = self.results[i];
    results[i] = owned(permuted(place.input ? given[*place.input] : outputs[place.output], place.order));
  }
}

}  // namespace tenon
