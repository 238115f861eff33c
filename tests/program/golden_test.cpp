// Artifacts of every format version can be compiled anew from their graph (tests/robustness runs them as they are).
#include <gtest/gtest.h>

#include "driver/pipeline.h"
#include "format/program_generated.h"
#include "program/artifact.h"
#include "runtime/container.h"
#include "runtime/task_graph.h"
#include "tests/robustness/support_golden.h"

namespace tenon {
namespace {

Tensor borrowed(golden::Array& array) {
  return Tensor::borrow(static_cast<DType>(array.dtype), array.shape, contiguous_strides(array.shape),
                        array.data.data(), nullptr);
}

golden::Array copied(const Tensor& tensor) {
  const Tensor copy = tensor.copy();
  golden::Array array{static_cast<tenon_dtype>(tensor.dtype()), {tensor.shape().begin(), tensor.shape().end()}, {}};
  array.data.assign(copy.data(), copy.data() + static_cast<int64_t>(array.elements()) * size_of(tensor.dtype()));
  return array;
}

Graph graph_of(const std::string& path) {
  return read_artifact_graph(std::make_shared<const runtime::Container>(runtime::Container::open(path))).value();
}

class GoldenGraph : public testing::TestWithParam<std::string> {};

TEST_P(GoldenGraph, CompilesAnew) {
  golden::Artifact artifact = golden::read(GetParam());
  const Program program = compile_program(graph_of(artifact.path)).value();
  for (golden::Case& run : artifact.runs) {
    std::vector<Tensor> inputs;
    for (golden::Array& input : run.inputs) inputs.push_back(borrowed(input));
    std::vector<golden::Array> outputs;
    for (const Tensor& output : program.run(inputs)) outputs.push_back(copied(output));
    outputs.resize(run.outputs.size());  // what comes after them is for assertions
    EXPECT_TRUE(golden::close(outputs, run.outputs));
  }
}

// What the newest version added is in its files.
TEST(Golden, CoverWhatTheirVersionHas) {
  size_t over = 0, states = 0, named = 0, checks = 0, entries = 0, devices = 0;
  for (const std::string& name : golden::names()) {
    if (name.starts_with("1.0/")) continue;
    const auto container = runtime::Container::open(golden::read(name).path);
    devices += container.find(format::SectionKind::kDeviceProgram, "0") != nullptr;
    entries += container.find(format::SectionKind::kEntries) != nullptr;
    for (const auto& section : container.sections()) {
      if (section.kind != format::SectionKind::kProgram) continue;
      const std::unique_ptr<format::ProgramT> program(format::UnPackProgram(section.bytes.data()));
      over += static_cast<size_t>(
          std::ranges::count_if(program->slots, [](const auto& slot) { return slot->over != runtime::kNone; }));
      states += program->states.size();
      named += program->state_names.size();
      checks += program->checks.size();
    }
  }
  EXPECT_GE(over, 3u);
  EXPECT_GE(states, 5u);
  EXPECT_EQ(named, states);
  EXPECT_EQ(checks, 2u);
  EXPECT_EQ(entries, 1u);
  EXPECT_EQ(devices, 1u);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenGraph, testing::ValuesIn(golden::names()),
                         [](const auto& name) { return golden::label(name.param); });

}  // namespace
}  // namespace tenon
