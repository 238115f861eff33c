#include "schedule/edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/loops/support_kernels.h"

namespace tenon::loops {
namespace {

using namespace testing;
using ::testing::HasSubstr;

LoopTree after(LoopTree tree, const std::vector<std::string>& edits) {
  for (const std::string& edit : edits) tree = apply_edit(tree, edit).value();
  return tree;
}

TEST(EditText, DoesWhatTheFunctionsDo) {
  const LoopTree tree(matmul(16, 16, 16));
  EXPECT_EQ(after(tree, {"split 2 10"}).ir, split(tree, {2}, 10)->ir);
  EXPECT_EQ(after(tree, {"split 2 10", "merge 2"}).ir, tree.ir);
  EXPECT_EQ(after(tree, {"swap 0 2"}).ir, swap_loops(tree, {0}, {2})->ir);
  EXPECT_EQ(after(tree, {"annotate 0 parallel"}).ir, annotate(tree, {0}, {Mark::kParallel})->ir);
  EXPECT_EQ(after(tree, {"annotate 2 tile \"amx\""}).ir, annotate(tree, {2}, {Mark::kTile, "amx"})->ir);
  EXPECT_EQ(after(tree, {"annotate 0 parallel", "annotate 0 none"}).ir, tree.ir);
  EXPECT_EQ(after(tree, {"copy %p %b 1"}).ir, copy_input(tree, node(tree, "p"), node(tree, "b"), {1})->ir);
  EXPECT_EQ(after(tree, {"unfuse 2 4"}).ir, unfuse(tree, {2}, {4})->ir);
  EXPECT_EQ(variables_around(after(tree, {"order %c k, m by 4, n, m"}), "c"), "k m n m");
  const LoopTree by_4 = after(tree, {"split 2 4"});
  EXPECT_EQ(after(by_4, {"split_node %c 2"}).ir, split_node(by_4, node(by_4, "c"), {2})->ir);
  const LoopTree copied = after(tree, {"copy %p %b"});
  EXPECT_EQ(variables_around(after(copied, {"delete %b_copy"}), "p"), "m n k");
}

TEST(EditText, SaysWhatIsWrongWithIt) {
  const LoopTree tree(matmul(16, 16, 16));
  const auto message = [&](std::string_view edit) {
    const Result<LoopTree> result = apply_edit(tree, edit);
    return result.ok() ? "it was accepted" : result.diagnostic().message;
  };
  EXPECT_THAT(message("splt 2 10"), HasSubstr("there is no edit 'splt'; did you mean 'split'?"));
  EXPECT_THAT(message("split 99 10"), HasSubstr("there is no line 99: the tree has 6, from 0 on"));
  EXPECT_THAT(message("split 2"), HasSubstr("expected the size"));
  EXPECT_THAT(message("split 2 10 7"), HasSubstr("expected the end of the edit"));
  EXPECT_THAT(message("copy %p %bb"), HasSubstr("there is no node %bb"));
  EXPECT_THAT(message("annotate 2"), HasSubstr("expected parallel, block, thread, vectorize, unroll, tile or none"));
  EXPECT_THAT(message("annotate 2 fast"),
              HasSubstr("expected parallel, block, thread, vectorize, unroll, tile or none, got 'fast'"));
  EXPECT_THAT(message("order %p q"), HasSubstr("q is not a variable"));
  EXPECT_THAT(message(""), HasSubstr("expected an edit"));
}

}  // namespace
}  // namespace tenon::loops
