#include "backends/cuda/cuda.h"

#include <fmt/format.h>

#include <exception>
#include <map>
#include <mutex>

#include "backends/cuda/absent.h"
#include "backends/cuda/schedule.h"
#include "backends/device_backend.h"
#include "backends/device_kernel.h"
#include "backends/other_machines.h"
#include "codegen/version.h"
#include "graph/node_symbols.h"
#include "loops/lower.h"
#include "runtime/thread_pool.h"
#include "support/interrupt.h"
#include "support/is_in.h"
#include "support/runtime_call.h"

namespace tenon {
namespace {

using runtime::Device;
using runtime::DeviceProgram;

constexpr const char* kName = "cuda";

// Functions that are called by name on the CPU.
constexpr std::string_view kNoCode[] = {"lgamma", "digamma", "trigamma"};

// A graph of one node, whose operands are inputs.
Graph alone(const Graph& graph, const Node& node) {
  Graph body(std::string(node.op->name.get()));
  declare_symbols(body, graph, symbols_of(graph, node));
  std::map<ValueRef, ValueRef> inside;
  for (ValueRef operand : node.operands) {
    if (!operand || inside.contains(operand)) continue;
    std::set<Symbol> symbols;
    add_symbols(graph.type(operand), symbols);
    declare_symbols(body, graph, symbols);
    inside[operand] = body.add_input(fmt::format("in{}", inside.size()), graph.type(operand));
  }
  std::vector<ValueRef> operands;
  for (ValueRef operand : node.operands) operands.push_back(operand ? inside.at(operand) : ValueRef());
  const NodeRef copy = body.add_node(*node.op, std::move(operands), node.attrs, node.location);
  body.set_outputs(body.node(copy).results);
  return body;
}

class CudaBackend : public DeviceBackend {
 public:
  explicit CudaBackend(std::string spec) : DeviceBackend(std::move(spec)) {}

  std::shared_ptr<const Backend> with_options(std::string_view spec) const override {
    return std::make_shared<CudaBackend>(std::string(spec));
  }

  std::string doc() const override { return "NVIDIA GPUs: PTX that the driver compiles, and cuBLASLt"; }
  int hardware_requirement() const override { return kCuda; }
  std::string missing_hardware() const override { return ForOtherMachines::is_on() ? "" : opened().missing; }
  std::shared_ptr<Device> device() const override { return opened().device; }
  std::string identity() const override { return std::string(kName) + "\n" + codegen::compiler_version(); }

  loops::LoopTree schedule(const loops::IR& kernel) const override { return schedule_cuda(kernel); }

  Claim claim(const Graph& graph, NodeRef ref) const override {
    Claim claim = claim_of_loops(graph, ref);
    if (!claim.accepted) return claim;
    const Node& node = graph.node(ref);
    const Result<loops::IR> kernel = attempt([&] { return lower(alone(graph, node)).value(); });
    if (!kernel.ok())
      return {.reason = fmt::format("{} has no loops: {}", node.op->name.get(), kernel.diagnostic().message)};
    for (const loops::Node& each : kernel->nodes()) {
      const auto* compute = each.as<loops::Compute>();
      if (compute && is_in(kNoCode, compute->op->name.get()))
        return {.reason = fmt::format("{} has no code for a GPU", compute->op->name.get())};
    }
    return claim;
  }

  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override {
    const loops::LoopTree* const trees[] = {&tree};
    return std::move(compile_all_impl(trees)[0]);
  }

  // Compiles on all threads, and loads one after the other.
  std::vector<std::unique_ptr<Compiled>> compile_all_impl(
      std::span<const loops::LoopTree* const> trees) const override {
    std::vector<Job> jobs(trees.size());
    for (size_t i = 0; i < trees.size(); ++i) jobs[i].tree = trees[i];
    parallel_for(
        0, static_cast<int64_t>(jobs.size()),
        [](void* all, int64_t begin, int64_t end) -> int64_t {
          for (int64_t i = begin; i < end; ++i) (*static_cast<std::vector<Job>*>(all))[static_cast<size_t>(i)].run();
          return 0;
        },
        &jobs);
    std::vector<std::unique_ptr<Compiled>> kernels;
    for (Job& job : jobs) {
      if (job.failure) std::rethrow_exception(job.failure);
      kernels.push_back(kernel_of(*job.tree, std::move(job.code), std::move(job.text)));
    }
    return kernels;
  }

  std::unique_ptr<Compiled> load(const loops::LoopTree& tree, std::string_view code) const override {
    return kernel_of(tree, code_from(code), "");
  }

 private:
  struct Job {
    const loops::LoopTree* tree = nullptr;
    Device::Code code = {};
    std::string text = {};
    std::exception_ptr failure = {};

    void run() noexcept {
      try {
        check_interrupt();
        const CudaCode compiled = compile_cuda(*tree);
        const std::string bytes = write_cuda_code(compiled);
        const std::span<const std::byte> view = std::as_bytes(std::span(bytes));
        code.bytes.assign(view.begin(), view.end());
        code.scratch_bytes = static_cast<uint64_t>(compiled.given_scratch);
        text = to_text(compiled);
      } catch (...) {
        failure = std::current_exception();
      }
    }
  };
  struct Opened {
    std::shared_ptr<Device> device;  // of this machine, else an absent one
    std::string missing;             // why there is none
  };

  // The first question opens the device, and the answer stays.
  const Opened& opened() const {
    std::call_once(once_, [&] {
      try {
        opened_.device = runtime::open_device(name());
      } catch (const runtime::StatusError& error) {
        opened_.missing = fmt::format("a CUDA device ({})", error.message());
        opened_.device = absent_cuda_device(options());
      }
    });
    return opened_;
  }

  std::string options() const {
    const size_t colon = name().find(':');
    return colon == std::string::npos ? "" : name().substr(colon + 1);
  }

  std::unique_ptr<Compiled> kernel_of(const loops::LoopTree& tree, Device::Code code, std::string text) const {
    return call_runtime([&] {
      std::vector<Expr> sizes;
      for (Symbol symbol : tree.ir.size_symbols()) sizes.emplace_back(symbol);
      auto program = std::make_shared<const DeviceProgram>(device(), std::move(code));
      return device_kernel(std::move(program), std::move(sizes), std::move(text), tree.ir);
    });
  }

  mutable std::once_flag once_;
  mutable Opened opened_;
};

RegisterBackend registration(std::make_shared<CudaBackend>(kName));

}  // namespace
}  // namespace tenon
