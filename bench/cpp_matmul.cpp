// The cpp backend on a product of 512 x 512 matrices of f32, on one thread: the default schedule, and one made of the
// public edits that keeps 6 x 64 sums in registers. The bar: 40 GFLOP/s, and 4 times the default.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "backends/backend.h"
#include "bench/bench.h"
#include "tests/loops/support_kernels.h"

namespace tenon {
namespace {

using namespace loops;

constexpr int64_t kSize = 512;
constexpr int kRounds = 20;

std::vector<LoopSpec> tile_loops(const IR& ir, bool folds) {
  const VarRef m = *ir.var_named("m"), n = *ir.var_named("n"), k = *ir.var_named("k");
  std::vector<LoopSpec> loops = {{m, 6}, {n, 64}};
  if (folds) loops.push_back({k});
  for (const LoopSpec& inner :
       {LoopSpec{m, 1, {Mark::kUnroll}}, LoopSpec{n, 16, {Mark::kUnroll}}, LoopSpec{n, 1, {Mark::kVectorize}}}) {
    loops.push_back(inner);
  }
  return loops;
}

LoopTree tuned(LoopTree tree) {
  for (const char* name : {"p", "c", "out"}) {
    tree =
        reorder(tree, loops::testing::node(tree, name), tile_loops(tree.ir, name != std::string_view("out"))).value();
  }
  return tree;
}

double gflops(const LoopTree& tree) {
  const auto kernel = find_backend("cpp").value()->compile(tree).value();
  const Tensor a = loops::testing::filled(DType::kF32, {kSize, kSize}, [](int64_t i) { return i % 7 - 3; });
  const Tensor out = Tensor::zeros(DType::kF32, {kSize, kSize});
  void* const memory[] = {a.data(), a.data(), out.data()};
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    kernel->run(memory);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return 2.0 * kSize * kSize * kSize / best / 1e9;
}

void print_table() {
  const LoopTree plain(loops::testing::matmul(kSize, kSize, kSize));
  const double slow = gflops(plain), fast = gflops(tuned(plain));
  std::printf("matmul 512^3, f32, one thread, GFLOP/s\n  default  %7.1f\n  tuned    %7.1f  (%.1f times)\n", slow, fast,
              fast / slow);
}

}  // namespace
}  // namespace tenon

int main() { return tenon::bench::run(tenon::print_table); }
