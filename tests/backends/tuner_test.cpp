#include "backends/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/edit.h"
#include "tests/loops/support_kernels.h"

namespace tenon {
namespace {

using namespace loops::testing;
using loops::LoopTree;
using ::testing::HasSubstr;

TEST(Tuner, FindsScheduleThatItsEditsMake) {
  const LoopTree start(matmul(8, 6, 20));
  Workload workload(start.ir);
  int reports = 0;
  const SearchOptions options{
      .seconds = 1e6, .stop = [&] { return reports > 20; }, .progress = [&](const SearchProgress&) { ++reports; }};
  const Schedule found = search(start, *find_backend("interpreter").value(), workload, options).value();
  LoopTree tree = start;
  for (const std::string& edit : found.edits) tree = loops::apply_edit(tree, edit).value();
  EXPECT_EQ(tree.ir, found.tree.ir);
}

TEST(Tuner, RefusesAKernelThatWritesNothing) {
  loops::IR ir("nothing");
  ir.add_read(DType::kF32, {ir.add_var("i", 3)});
  const LoopTree tree(ir);
  Workload workload(ir);
  const auto found = search(tree, *find_backend("interpreter").value(), workload, {.seconds = 0.1});
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.diagnostic().message, HasSubstr("kernel nothing writes nothing"));
}

TEST(Tuner, DividesIntegers) {
  loops::IR ir("quotients");
  const loops::VarRef i = ir.add_var("i", 100);
  const loops::NodeRef x = ir.add_read(DType::kI64, {i}), y = ir.add_read(DType::kU8, {i});
  const loops::NodeRef wide = ir.add_compute(op_named("cast"), {y}, {i}, DType::kI64);
  ir.add_write(ir.add_compute(op_named("floor_div"), {wide, x}, {i}), {i});
  ir.add_write(ir.add_compute(op_named("remainder"), {x, wide}, {i}), {i});
  const auto seconds = Workload(ir).measure(LoopTree(ir), *find_backend("interpreter").value());
  EXPECT_TRUE(seconds.ok()) << seconds.diagnostic().text();
}

TEST(Tuner, StopsWhenItIsToldTo) {
  const LoopTree start(matmul(8, 6, 20));
  Workload workload(start.ir);
  int asked = 0;
  const SearchOptions options{.seconds = 1e6, .stop = [&] { return ++asked > 20; }};
  const Schedule found = search(start, *find_backend("interpreter").value(), workload, options).value();
  EXPECT_GT(found.seconds, 0);
}

TEST(Tuner, WantsTheSizes) {
  const LoopTree tree(matmul(Symbol("N"), 6, 20));
  const auto built = attempt([&] { return Workload(tree.ir); });
  ASSERT_FALSE(built.ok());
  EXPECT_THAT(built.diagnostic().message, HasSubstr("the size N has no value"));
  Workload workload(tree.ir, {{Symbol("N"), 4}});
  EXPECT_EQ(workload.flops(), 2 * 4 * 6 * 20);
  EXPECT_GT(workload.measure(tree, *find_backend("interpreter").value()).value(), 0);
}

// A backend that is wrong under every schedule but the first.
struct Unreliable : Backend {
  Unreliable() : Backend("unreliable") {}
  int hardware_requirement() const override { return kCpu; }
  std::unique_ptr<Compiled> compile_impl(const LoopTree& tree) const override {
    struct Kernel : Compiled {
      Kernel(std::unique_ptr<Compiled> right, bool wrong) : right(std::move(right)), wrong(wrong) {}
      void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool sync) const override {
        right->run(memory, sizes, sync);
        if (wrong) *static_cast<float*>(memory.back()) += 1;
      }
      std::unique_ptr<Compiled> right;
      bool wrong;
    };
    return std::make_unique<Kernel>(find_backend("interpreter").value()->compile(tree).value(), compiled++ > 0);
  }
  mutable int compiled = 0;
};

TEST(Tuner, RefusesAScheduleWithOtherResults) {
  const LoopTree tree(matmul(4, 5, 6));
  Workload workload(tree.ir);
  const Unreliable backend;
  EXPECT_TRUE(workload.measure(tree, backend, 0).ok());
  const Result<double> second = workload.measure(tree, backend, 0);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.diagnostic().message, HasSubstr("element 0 of output 0"));
}

}  // namespace
}  // namespace tenon
