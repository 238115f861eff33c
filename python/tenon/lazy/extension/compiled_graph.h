// A recorded graph as Tenon's program.
#pragma once

#include <ATen/ops/as_strided.h>

#include "record.h"
#include "translate.h"

namespace tenon::lazy_device {

// Safe to run from several threads.
class CompiledGraph {
 public:
  // `dying` are the inputs that nobody needs after a run. Throws Refused, or CompilerMistake.
  CompiledGraph(TranslatedGraph graph, const std::vector<bool>& dying, const char* device)
      : results_(std::move(graph.results)) {
    std::vector<tenon_aten_arg> outputs;
    for (const ImportedValue& output : graph.outputs) {
      outputs.push_back({TENON_ARG_TENSOR, output.number, 0, nullptr, nullptr});
    }
    const std::vector<uint64_t> donated = donated_among(dying);
    const auto release = [](void* calls) { delete static_cast<FallbackCalls*>(calls); };
    const tenon_compile_request request = {sizeof(tenon_compile_request),
                                           outputs.data(),
                                           outputs.size(),
                                           device,
                                           donated.data(),
                                           donated.size(),
                                           run_fallback,
                                           new FallbackCalls(std::move(graph.calls)),
                                           release};
    tenon_aten_program* program = nullptr;
    checked(
        [&](tenon_text* error) { return compiler().import_compile(graph.import.get(), &request, &program, error); });
    program_.reset(program);
    compiler().program_facts(program, &facts_);
  }

  // Of a result of the graph: the input that it is computed in, if there is one.
  std::optional<size_t> place_of(size_t result) const {
    if (results_[result].is_input) return std::nullopt;
    const int64_t place = facts_.places[results_[result].number];
    return place < 0 ? std::nullopt : std::optional(static_cast<size_t>(place));
  }
  size_t result_count() const { return results_.size(); }

  // Throws RunFailed with the program's own text. A result with a place is that input, or a view of it.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const {
    std::vector<tenon_tensor> given;
    given.reserve(inputs.size() + 1);
    for (const at::Tensor& input : inputs) given.push_back(described(input));
    at::Tensor key;
    if (facts_.takes_key != 0) given.push_back(described(key = draw_key(std::nullopt)));
    std::vector<tenon_owned_tensor> outputs(facts_.output_count);
    checked([&](tenon_text* error) {
      return compiler().program_run(program_.get(), given.data(), given.size(), outputs.data(), outputs.size(), error);
    });
    return results_of(inputs, outputs);
  }

  std::string text() const { return compiler().program_text(program_.get()); }
  void free_memory() const { compiler().program_free_memory(program_.get()); }

 private:
  struct Free {
    void operator()(tenon_aten_program* program) const { compiler().program_free(program); }
  };

  // Not those that are results themselves.
  std::vector<uint64_t> donated_among(const std::vector<bool>& dying) const {
    std::vector<uint64_t> donated;
    for (size_t i = 0; i < dying.size(); ++i) {
      const bool is_result = std::ranges::any_of(
          results_, [&](const ResultSource& result) { return result.is_input && result.number == i; });
      if (dying[i] && !is_result) donated.push_back(i);
    }
    return donated;
  }

  std::vector<at::Tensor> results_of(const std::vector<at::Tensor>& inputs,
                                     const std::vector<tenon_owned_tensor>& outputs) const {
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const int64_t place = facts_.places[i];
      const at::Tensor output = taken(outputs[i]);  // frees its description where it is in an input
      tensors.push_back(place < 0 ? output : view_of(inputs[static_cast<size_t>(place)], output));
    }
    std::vector<at::Tensor> results;
    for (const ResultSource& result : results_) {
      results.push_back(result.is_input ? inputs[result.number].tensor_data() : tensors[result.number]);
    }
    return results;
  }

  static at::Tensor view_of(const at::Tensor& input, const at::Tensor& output) {
    if (input.sizes() == output.sizes() && input.strides() == output.strides()) return input;
    return input.as_strided(output.sizes(), output.strides());
  }

  std::vector<ResultSource> results_;
  std::unique_ptr<tenon_aten_program, Free> program_;
  tenon_program_facts facts_ = {sizeof(tenon_program_facts), 0, 0, nullptr, 0};
};

}  // namespace tenon::lazy_device
