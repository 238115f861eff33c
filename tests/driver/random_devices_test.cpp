// Random graphs with random claims on a device, failures of the device, and every op of the table there.
// TENON_RANDOM_DEVICES=2000 (make random-devices) is so many graphs, a quarter of it with failures, and the ops in
// every dtype, with their gradients.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "autodiff/differentiate.h"
#include "backends/cpu/cpu.h"
#include "backends/device_backend.h"
#include "driver/pipeline.h"
#include "support/text.h"
#include "tests/driver/support_loopback.h"
#include "tests/program/support_random_model.h"

namespace tenon {
namespace {

using test::close;
using test::count_of;
using test::Random;
using test::random_inputs;
using test::same_bits;
using testing::HasSubstr;

bool tests_all() { return !environment("TENON_RANDOM_DEVICES").empty(); }
int graph_count() { return tests_all() ? std::stoi(environment("TENON_RANDOM_DEVICES")) : 48; }

// Claims what a device claims, and runs it with the same kernels as the device, in the host's memory.
class OnTheHost : public DeviceBackend {
 public:
  explicit OnTheHost(const std::string& device) : DeviceBackend("host"), device_(find_backend(device).value()) {}

  Claim claim(const Graph& graph, NodeRef node) const override { return claim_of(*device_, graph, node); }
  loops::LoopTree schedule(const loops::IR& kernel) const override { return device_->schedule(kernel); }
  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override {
    const loops::LoopTree* const trees[] = {&tree};
    return std::move(compile_cpu(trees)[0]);
  }
  int hardware_requirement() const override { return kCpu; }

 private:
  std::shared_ptr<const Backend> device_;
};

Program compiled(const Graph& graph, const std::string& device) {
  Result<Program> program = compile_program(graph, {.devices = {device}});
  EXPECT_TRUE(program.ok()) << device << ": " << program.diagnostic().text();
  return std::move(program).value();
}

Program compiled_on_host(const Graph& graph, const std::string& device) {
  register_backend(std::make_shared<OnTheHost>(device));
  Result<Program> program = compile_program(graph, {.devices = {"host"}});
  unregister_backend("host");
  return std::move(program).value();
}

void expect_all(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected, auto are_equal) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(are_equal(actual[i], expected[i])) << "result " << i;
}

class RandomDevices : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::load_loopback(); }
};

TEST_F(RandomDevices, RandomClaimsGiveWhatTheCpuGives) {
  size_t launches = 0, transfers = 0, whole_graphs = 0;
  const long live = test::loopback_live();
  for (int number = 0; number < graph_count() && !HasFailure(); ++number) {
    Random random(static_cast<uint64_t>(number) + 500);
    const bool symbolic = number % 2 == 1;
    const Graph graph = test::random_model(random, 4 + number % 18, symbolic);
    SCOPED_TRACE(fmt::format("graph {}\n{}", number, to_string(graph)));
    const std::string device = fmt::format("loopback:claim=0.5,delay={},seed={}", number % 4 == 0 ? 20 : 0, number);
    const Program cpu = compile_program(graph).value(), mixed = compiled(graph, device),
                  same = compiled_on_host(graph, device);
    const Program all = compiled(graph, "loopback"), same_all = compiled_on_host(graph, "loopback");
    launches += count_of(mixed, TaskKind::kDevice);
    transfers += count_of(mixed, TaskKind::kTransfer);
    whole_graphs += count_of(all, TaskKind::kKernel) == 0 ? 1 : 0;
    for (int64_t n : {7, 1, 16}) {
      const std::vector<Tensor> inputs = random_inputs(graph, n, random);
      const std::vector<Tensor> expected = cpu.run(inputs), actual = mixed.run(inputs), whole = all.run(inputs);
      expect_all(actual, expected, close);
      expect_all(actual, same.run(inputs), same_bits);
      expect_all(whole, expected, close);  // which weights share a layout depends on the partition
      expect_all(whole, same_all.run(inputs), same_bits);
      if (!symbolic) break;
    }
  }
  EXPECT_EQ(test::loopback_live(), live);
  fmt::print("{} graphs: {} launches and {} transfers; {} ran on the device as a whole\n", graph_count(), launches,
             transfers, whole_graphs);
}

// Runs until a right result follows a failure.
void expect_recovery(const Program& program, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected,
                     int& failures) {
  bool has_failed = false;
  for (int run = 0; run < 60; ++run) {
    const auto results = attempt([&] { return program.run(inputs); });
    if (results.ok()) {
      expect_all(*results, expected, same_bits);
      if (has_failed) return;
      continue;
    }
    has_failed = true;
    ++failures;
    EXPECT_THAT(results.diagnostic().message, HasSubstr("device loopback: injected failure"));
  }
  ADD_FAILURE() << (has_failed ? "no run was right again" : "no run failed");
}

TEST_F(RandomDevices, FailuresAreErrorsAndTheNextRunIsRight) {
  const long live = test::loopback_live();
  int graphs = 0, failures = 0, uploads = 0;
  for (int number = 0; graphs < graph_count() / 4 && !HasFailure(); ++number) {
    Random random(static_cast<uint64_t>(number) + 900);
    const Graph graph = test::random_model(random, 5 + number % 12, false);
    SCOPED_TRACE(fmt::format("graph {}\n{}", number, to_string(graph)));
    const std::string claims = fmt::format("claim=0.6,seed={}", number);
    {
      const std::vector<Tensor> inputs = random_inputs(graph, 1, random);
      const Program right = compiled(graph, "loopback:" + claims);
      if (count_of(right, TaskKind::kDevice) == 0) continue;  // nothing is claimed
      ++graphs;
      const auto failing = compile_program(graph, {.devices = {"loopback:fail=0.06," + claims}});
      if (!failing.ok()) {  // while a constant was uploaded
        EXPECT_THAT(failing.diagnostic().message, HasSubstr("device loopback: injected failure"));
        ++uploads;
      } else {
        expect_recovery(*failing, inputs, right.run(inputs), failures);
      }
    }
    EXPECT_EQ(test::loopback_live(), live) << "leaked";
  }
  fmt::print("{} graphs: {} runs failed, {} uploads failed\n", graphs, failures, uploads);
}

class OpsOnADevice : public testing::TestWithParam<const OpDef*> {
 protected:
  static void SetUpTestSuite() { test::load_loopback(); }
};

void expect_same(const Graph& graph, const std::string& device, const std::vector<Tensor>& inputs, auto are_equal) {
  const Program cpu = compile_program(graph).value(), other = compiled(graph, device);
  const auto expected = attempt([&] { return cpu.run(inputs); }), actual = attempt([&] { return other.run(inputs); });
  ASSERT_EQ(actual.ok(), expected.ok()) << device;
  if (actual.ok()) expect_all(*actual, *expected, are_equal);
}

TEST_P(OpsOnADevice, GiveWhatTheCpuGives) {
  for (const Sample& sample : samples_of(*GetParam())) {
    if (!tests_all() && sample.dtype && *sample.dtype != DType::kF32) continue;
    SCOPED_TRACE(sample.name());
    const std::vector<Tensor> inputs = test::inputs_for(sample);
    expect_same(sample.graph, "loopback", inputs, test::same_bits_or_nan);
    if (tests_all()) expect_same(sample.graph, "loopback:claim=0.5,seed=7", inputs, close);
  }
}

TEST_P(OpsOnADevice, GradientsAreThoseOfTheCpu) {
  const OpDef& op = *GetParam();
  if (!tests_all() || std::holds_alternative<NotDifferentiable>(op.gradient.get())) return;
  for (const Sample& sample : samples_of(op)) {
    SCOPED_TRACE(sample.name());
    std::vector<ValueRef> wrt;
    for (ValueRef input : sample.graph.inputs()) {
      if (is_float(sample.graph.type(input).dtype)) wrt.push_back(input);
    }
    if (wrt.empty()) continue;
    const Graph gradients = differentiate(sample.graph, wrt).value();
    std::vector<Tensor> inputs = test::inputs_for(sample);
    Random random(11);
    for (size_t i = inputs.size(); i < gradients.inputs().size(); ++i) {
      const TensorType& type = gradients.type(gradients.inputs()[i]);
      inputs.push_back(test::random_tensor(type, {}, {-1, 1}, random));
    }
    expect_same(gradients, "loopback", inputs, test::same_bits_or_nan);
    expect_same(gradients, "loopback:claim=0.5,seed=7", inputs, close);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, OpsOnADevice, testing::ValuesIn(op_table().begin(), op_table().end()),
                         [](const auto& info) { return std::string(info.param->name.get()); });

}  // namespace
}  // namespace tenon
