// How long kernels take to become machine code: chains of elementwise ops, softmax, layer norm, and matrix products in
// register tiles. The bars: 15 ms for the median kernel, 500 ms for 60 kernels on 2 cores, 20 ms from the cache.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "backends/cpu/cpu.h"
#include "bench/bench.h"
#include "codegen/codegen.h"
#include "codegen/objects.h"
#include "driver/pipeline.h"
#include "graph/builder.h"
#include "loops/lower.h"
#include "passes/passes.h"
#include "runtime/loader.h"
#include "runtime/thread_pool.h"
#include "tests/loops/support_kernels.h"

namespace tenon {
namespace {

using namespace loops;
using codegen::ObjectCache;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;

struct Kernel {
  std::string kind;
  LoopTree tree;
};

// Innermost loops become lanes.
LoopTree in_lanes(LoopTree tree) {
  for (uint32_t i = 0; i < tree.size(); ++i) {
    if (tree.kind({i}) != LoopTree::LOOP) continue;
    const auto is_loop = [&](TreeRef child) { return tree.kind(child) == LoopTree::LOOP; };
    if (std::ranges::any_of(tree.children({i}), is_loop)) continue;
    if (auto marked = annotate(tree, {i}, {Mark::kVectorize}); marked.ok()) tree = std::move(marked).value();
  }
  return tree;
}

LoopTree kernel_of(const Graph& graph) {
  const std::vector<std::string> passes = {"decompose", "canonicalize", "cse", "dce"};
  return in_lanes(LoopTree(lower(run_passes(graph, passes).value()).value()));
}

LoopTree chain(int64_t ops, int64_t rows) {
  Graph graph("chain");
  Builder b(graph);
  Value x = b.value(graph.add_input("x", {DType::kF32, {rows, 256}}));
  const Value scale = b.value(graph.add_input("scale", {DType::kF32, {256}}));
  const char* const functions[] = {"tanh", "exp", "abs", "sigmoid", "sqrt", "relu"};
  for (int64_t i = 0; i < ops; ++i) {
    if (i % 3 == 0) x = x * scale;
    if (i % 3 == 1) x = x + scale;
    if (i % 3 == 2) x = b.op(functions[(i / 3) % 6], {x});
  }
  graph.set_outputs({x.ref()});
  return kernel_of(graph);
}

LoopTree layer_norm(int64_t rows, int64_t columns) {
  Graph graph("layer_norm");
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {rows, columns}}));
  const Value scale = b.value(graph.add_input("scale", {DType::kF32, {columns}}));
  const auto mean = [&](const Value& of) {
    return b.op("mean", {of}, {{"dims", std::vector<int64_t>{-1}}, {"keepdim", true}});
  };
  const Value centered = x - mean(x);
  const Value spread = b.op("rsqrt", {mean(centered * centered) + 1e-5});
  graph.set_outputs({(centered * spread * scale).ref()});
  return kernel_of(graph);
}

LoopTree matmul(int64_t m_size, int64_t n_size, int64_t k_size, int64_t rows, int64_t columns) {
  LoopTree tree(loops::testing::matmul(m_size, k_size, n_size));
  const VarRef m = *tree.ir.var_named("m"), n = *tree.ir.var_named("n"), k = *tree.ir.var_named("k");
  for (const char* name : {"p", "c", "out"}) {
    std::vector<LoopSpec> order = {{m, rows}, {n, columns}};
    if (name != std::string_view("out")) order.push_back({k});
    order.push_back({m, 1, {Mark::kUnroll}});
    order.push_back({n, 16, {Mark::kUnroll}});
    order.push_back({n, 1, {Mark::kVectorize}});
    tree = reorder(tree, loops::testing::node(tree, name), order).value();
  }
  return tree;
}

std::vector<Kernel> program() {
  std::vector<Kernel> kernels;
  for (int64_t i = 0; i < 8; ++i) {
    kernels.push_back({"chain of 3", chain(3, 16 + i)});
    kernels.push_back({"chain of 12", chain(12, 16 + i)});
    kernels.push_back({"softmax", in_lanes(LoopTree(loops::testing::row_softmax(128 + i, 100 + 28 * i)))});
    kernels.push_back({"layer norm", layer_norm(128, 256 + 64 * i)});
  }
  for (const auto& [rows, columns] : {std::pair{6, 64}, {8, 48}, {4, 64}, {8, 32}}) {
    for (const auto& [m, n, k] : {std::tuple{128, 768, 768},
                                  {128, 3072, 768},
                                  {128, 768, 3072},
                                  {512, 512, 512},
                                  {64, 64, 64},
                                  {100, 100, 100},
                                  {1024, 1024, 1024}}) {
      kernels.push_back({"matmul", matmul(m, n, k, rows, columns)});
    }
  }
  return kernels;
}

template <class Body>
double milliseconds(const Body& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

template <class Body>
double median_milliseconds(const Body& body) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) rounds.push_back(milliseconds(body));
  return bench::median(rounds);
}

// Of this thread alone: what it would take on a machine that does nothing else.
template <class Body>
double cpu_milliseconds(const Body& body) {
  const auto now = [] {
    timespec time = {};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
  };
  const double start = now();
  body();
  return now() - start;
}

void print_by_kind(const std::vector<Kernel>& kernels, const codegen::Target& target) {
  std::map<std::string, std::vector<double>> by_kind;
  std::vector<double> all;
  for (const auto& [kind, tree] : kernels) {
    const codegen::KernelSource source{&tree, "kernel"};
    const double time = cpu_milliseconds([&] { (void)codegen::emit_object({&source, 1}, target); });
    by_kind[kind].push_back(time);
    all.push_back(time);
  }
  for (const auto& [kind, times] : by_kind) {
    std::printf("  %-12s %3zu kernels, median %6.2f ms of CPU time, most %6.2f\n", kind.c_str(), times.size(),
                bench::median(times), *std::ranges::max_element(times));
  }
  std::printf("  %-12s %3zu kernels, median %6.2f ms of CPU time (the bar: 15)\n", "all", all.size(),
              bench::median(all));
}

void print_table() {
  const codegen::Target target = codegen::find_target("native");
  std::printf("compiling for %s (%s)\n", target.name.c_str(), target.cpu.c_str());
  std::vector<Kernel> kernels;
  const double lowering = milliseconds([&] { kernels = program(); });
  std::vector<const LoopTree*> trees;
  for (const Kernel& kernel : kernels) trees.push_back(&kernel.tree);
  const double first = milliseconds([&] { compile_cpu({trees.data(), 1}, {.use_cache = false}); });
  print_by_kind(kernels, target);
  std::printf("to loops %.0f ms; the first kernel of a process %.1f ms\n", lowering, first);

  std::string folder = (std::filesystem::temp_directory_path() / "tenon_bench_XXXXXX").string();
  if (!::mkdtemp(folder.data())) fail("there is no folder for a cache");
  ::setenv("TENON_CACHE", folder.c_str(), 1);
  const auto alone = median_milliseconds([&] {
    const ThreadCount one(1);
    compile_cpu(trees, {.use_cache = false});
  });
  const auto together = median_milliseconds([&] { compile_cpu(trees, {.use_cache = false}); });
  compile_cpu(trees);
  const auto cached = median_milliseconds([&] { compile_cpu(trees); });
  std::filesystem::remove_all(folder);
  std::printf("%zu kernels: %.0f ms on 1 thread, %.0f ms on %lld (the bar: 500), %.1f ms from the cache (20)\n",
              trees.size(), alone, together, static_cast<long long>(thread_count()), cached);
}

}  // namespace
}  // namespace tenon

int main() { return tenon::bench::run(tenon::print_table); }
