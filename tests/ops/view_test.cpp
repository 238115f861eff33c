// What the samples of views, pads and joins do not reach: symbolic sizes, the words of diagnostics, gradients of
// symbolic graphs.
#include <gtest/gtest.h>

#include <map>

#include "autodiff/differentiate.h"
#include "graph/evaluate.h"
#include "graph/graph.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

// The type of `%y = node` in a graph of these inputs and symbols, or why there is none.
std::string type_of_node(const std::string& inputs, const std::string& node, const std::string& symbols = "") {
  const auto graph = parse_graph("graph g(" + inputs + ") { " + symbols + " %y = " + node + " return %y }");
  return graph.ok() ? to_string(graph->type(graph->outputs()[0])) : graph.diagnostic().message;
}

TEST(Reshape, InfersOneSizeExactly) {
  EXPECT_EQ(type_of_node("%x: f32[N, 4]", "reshape(%x) {shape=[-1]}"), "f32[4*N]");
  EXPECT_EQ(type_of_node("%x: f32[N, 4]", "reshape(%x) {shape=[2, -1, N]}"), "f32[2, 2, N]");
  EXPECT_EQ(type_of_node("%x: f32[N, M, 6]", "reshape(%x) {shape=[M, 3, -1]}"), "f32[M, 3, 2*N]");
  EXPECT_EQ(type_of_node("%x: f32[N + 1, 4]", "reshape(%x) {shape=[4*N + 4]}"), "f32[4*N + 4]");
  EXPECT_EQ(type_of_node("%x: f32[N, 3]", "reshape(%x) {shape=[-1, 2]}"),
            "reshape: cannot infer -1 in [-1, 2]: 2 does not divide the 3*N elements of [N, 3]");
  EXPECT_EQ(type_of_node("%x: f32[0, 3]", "reshape(%x) {shape=[-1, 0]}"),
            "reshape: cannot infer -1 in [-1, 0]: the other sizes are zero");
  EXPECT_EQ(type_of_node("%x: f32[4]", "reshape(%x) {shape=[-1, -1]}"), "reshape: [-1, -1] has more than one -1");
  EXPECT_EQ(type_of_node("%x: f32[4]", "reshape(%x) {shape=[-2, 2]}"), "reshape: [-2, 2] has a negative size");
}

TEST(Reshape, CountsMustBeEqualWhateverTheSymbolsAre) {
  EXPECT_EQ(type_of_node("%x: f32[2, 3]", "reshape(%x) {shape=[7]}"),
            "reshape: [2, 3] has 6 elements, [7] has 7: they must be equal");
  EXPECT_EQ(type_of_node("%x: f32[N]", "reshape(%x) {shape=[M]}"),
            "reshape: [N] has N elements, [M] has M: they must be equal whatever the symbols are");
}

TEST(Permute, TakesEachDimensionOnce) {
  EXPECT_EQ(type_of_node("%x: f32[N, 4]", "permute(%x) {dims=[-1, 0]}"), "f32[4, N]");
  EXPECT_EQ(type_of_node("%x: f32[3, 4]", "permute(%x) {dims=[0, 0]}"), "permute: dimension 0 appears twice");
  EXPECT_EQ(type_of_node("%x: f32[3, 4]", "permute(%x) {dims=[0]}"), "permute: 1 dimensions are given for f32[3, 4]");
}

TEST(Expand, StretchesOnlyOnes) {
  EXPECT_EQ(type_of_node("%x: f32[N, 1]", "expand(%x) {shape=[M, -1, 5]}"), "f32[M, N, 5]");
  EXPECT_EQ(type_of_node("%x: f32[N]", "expand(%x) {shape=[5]}"),
            "expand: cannot expand [N] to [5]: size N of dimension 0 is not 1");
  EXPECT_EQ(type_of_node("%x: f32[1]", "expand(%x) {shape=[-1, 1]}"),
            "expand: cannot expand to [-1, 1]: size -1 of dimension 0 is negative");
  EXPECT_EQ(type_of_node("%x: f32[1, 2]", "expand(%x) {shape=[2]}"),
            "expand: cannot expand [1, 2] to the lower rank of [2]");
}

TEST(Slice, BoundsOfSymbolicSizes) {
  const auto sliced = [](const std::string& attrs, const std::string& symbols = "") {
    return type_of_node("%x: f32[N], %m: f32[M]", "slice(%x) {" + attrs + "}", symbols);
  };
  EXPECT_EQ(sliced(""), "f32[N]");
  EXPECT_EQ(sliced("start=0, end=N"), "f32[N]");
  EXPECT_EQ(sliced("end=-1", "symbol N in [1, inf]"), "f32[N - 1]");
  EXPECT_EQ(sliced("start=-2", "symbol N in [2, inf]"), "f32[2]");
  EXPECT_EQ(sliced("start=1, end=3", "symbol N in [3, inf]"), "f32[2]");
  EXPECT_EQ(sliced("step=2"), "f32[(N + 1) // 2]");
  EXPECT_EQ(sliced("end=-1"), "f32[max(N, 1) - 1]");
  EXPECT_EQ(sliced("end=M"), "f32[min(M, N)]");
  EXPECT_EQ(type_of_node("%x: f32[N + M]", "slice(%x) {start=N, end=N + M}"), "f32[M]");
  EXPECT_EQ(type_of_node("%x: f32[3]", "slice(%x) {step=0}"), "slice: step 0 is not positive");
  EXPECT_EQ(type_of_node("%x: f32[]", "slice(%x)"), "slice: a scalar has no dimension to slice");
}

// A bound whose sign is unknown means what it will mean when it is a number.
TEST(Slice, ABoundOfUnknownSignCountsFromTheEndWhenItIsNegative) {
  const Graph graph =
      parse_graph("graph g(%x: f32[5], %n: f32[N], %m: f32[M]) { %y = slice(%x) {end=N - M} return %y }").value();
  const auto length = [&](int64_t n, int64_t m) {
    const std::vector<Tensor> inputs = {Tensor::zeros(DType::kF32, {5}), Tensor::zeros(DType::kF32, {n}),
                                        Tensor::zeros(DType::kF32, {m})};
    return evaluate(graph, inputs).value()[0].numel();
  };
  EXPECT_EQ(length(3, 1), 2);
  EXPECT_EQ(length(1, 3), 3);  // x[:-2]
  EXPECT_EQ(length(0, 9), 0);
  EXPECT_EQ(length(9, 0), 5);
}

TEST(Select, RefusesWhatIsOutOfRange) {
  EXPECT_EQ(type_of_node("%x: f32[N, 3]", "select(%x) {dim=1, index=-3}"), "f32[N]");
  EXPECT_EQ(type_of_node("%x: f32[3]", "select(%x) {index=3}"),
            "select: index 3 is out of range for a dimension of size 3");
  EXPECT_EQ(type_of_node("%x: f32[3]", "select(%x) {index=-4}"),
            "select: index -4 is out of range for a dimension of size 3");
  EXPECT_EQ(type_of_node("%x: f32[N]", "select(%x) {index=N}"),
            "select: index N is out of range for a dimension of size N");
}

TEST(Select, ASymbolicIndexIsCheckedAtRunTime) {
  const Graph graph = parse_graph("graph g(%x: f32[3], %n: f32[N]) { %y = select(%x) {index=N} return %y }").value();
  Tensor x = Tensor::zeros(DType::kF32, {3});
  x.set_real(2, 7);
  EXPECT_EQ(evaluate(graph, std::vector{x, Tensor::zeros(DType::kF32, {2})}).value()[0].real(0), 7);
  const auto outside = evaluate(graph, std::vector{x, Tensor::zeros(DType::kF32, {3})});
  ASSERT_FALSE(outside.ok());
}

TEST(Views, OtherDiagnostics) {
  EXPECT_EQ(type_of_node("%x: f32[3]", "diagonal(%x)"), "diagonal: f32[3] has fewer than two dimensions");
  EXPECT_EQ(type_of_node("%x: f32[3, 3]", "diagonal(%x) {dim1=0, dim2=-2}"),
            "diagonal: dim1 and dim2 are the same dimension 0");
  EXPECT_EQ(type_of_node("%x: f32[N, M]", "diagonal(%x)"), "f32[min(M, N)]");
  EXPECT_EQ(type_of_node("%x: f32[N, N]", "diagonal(%x) {offset=-1}", "symbol N in [1, 9]"), "f32[N - 1]");
  EXPECT_EQ(type_of_node("%x: f32[6]", "as_strided(%x) {size=[2, 3], stride=[4, 1]}"),
            "as_strided: size [2, 3] with stride [4, 1] and offset 0 reaches elements 0 to 6 of 6");
  EXPECT_EQ(type_of_node("%x: f32[6]", "as_strided(%x) {size=[2], stride=[-1], offset=3}"),
            "as_strided: stride [-1] has a negative number");
  EXPECT_EQ(type_of_node("%x: f32[6]", "roll(%x) {shifts=[1, 2], dims=[0]}"),
            "roll: 2 shifts are given for 1 dimensions");
  EXPECT_EQ(type_of_node("%x: f32[6]", "tril(%x)"), "tril: f32[6] is not a matrix");
  EXPECT_EQ(type_of_node("%x: f32[2, 3]", "repeat(%x) {repeats=[2]}"), "repeat: 1 repeats are given for f32[2, 3]");
  EXPECT_EQ(type_of_node("%x: f32[2, 3]", "repeat(%x) {repeats=[2, -1]}"),
            "repeat: repeats [2, -1] has a negative number");
  EXPECT_EQ(type_of_node("%x: f32[N, 3]", "repeat(%x) {repeats=[M, 2]}"), "f32[M*N, 6]");
  EXPECT_EQ(type_of_node("%x: f32[N, 1]", "squeeze(%x)"), "f32[N]");
  EXPECT_EQ(type_of_node("%x: f32[2, 6]", "unflatten(%x) {dim=1, sizes=[4, -1]}"),
            "unflatten: cannot infer -1 in [4, -1]: 4 does not divide the 6 elements of [6]");
}

TEST(Pad, SizesAndDiagnostics) {
  EXPECT_EQ(type_of_node("%x: f32[N, 3]", "pad(%x) {low=[1, M], high=[-1, 0]}"), "f32[N, M + 3]");
  EXPECT_EQ(type_of_node("%x: f32[3]", "pad(%x) {low=[-2], high=[-2]}"),
            "pad: f32[3] padded by -2 and -2 in dimension 0 has the negative size -1");
  EXPECT_EQ(type_of_node("%x: f32[3]", "pad(%x) {low=[], high=[1]}"), "pad: 0 and 1 amounts are given for f32[3]");
  EXPECT_EQ(type_of_node("%x: f32[3]", "pad_reflect(%x) {low=[3], high=[0]}"),
            "pad_reflect: f32[3] cannot be padded by 3 in dimension 0: at most by 2");
  EXPECT_EQ(type_of_node("%x: f32[0]", "pad_replicate(%x) {low=[1], high=[0]}"),
            "pad_replicate: f32[0] cannot be padded by 1 in dimension 0: at most by 0");
  EXPECT_EQ(type_of_node("%x: f32[3]", "pad_circular(%x) {low=[0], high=[4]}"),
            "pad_circular: f32[3] cannot be padded by 4 in dimension 0: at most by 3");
}

// An integer beyond the doubles stays exact.
TEST(Pad, IntegersAreExact) {
  const Graph graph =
      parse_graph("graph g(%x: i64[0]) { %y = pad(%x) {low=[1], high=[0], value=9007199254740993} return %y }").value();
  EXPECT_EQ(evaluate(graph, std::vector{Tensor::zeros(DType::kI64, {0})}).value()[0].integer(0), 9007199254740993);
}

TEST(Join, SizesAndDiagnostics) {
  EXPECT_EQ(type_of_node("%x: f32[N, 3], %y0: f16[M, 3]", "concat(%x, %y0)"), "f32[M + N, 3]");
  EXPECT_EQ(type_of_node("%x: f32[2, 3], %y0: f32[2, 4]", "concat(%x, %y0)"),
            "concat: operand 1 is f32[2, 4] and operand 0 is f32[2, 3]: only dimension 0 may differ");
  EXPECT_EQ(type_of_node("", "concat()"), "concat: there is nothing to join");
  EXPECT_EQ(type_of_node("%x: f32[]", "concat(%x)"),
            "concat: a scalar has no dimension to join along: stack makes one");
  EXPECT_EQ(type_of_node("%x: f32[2], %y0: f32[3]", "stack(%x, %y0)"),
            "stack: operand 1 is f32[3] and operand 0 is f32[2]: the shapes must be the same");
  EXPECT_EQ(type_of_node("%x: f32[5]", "split(%x) {sizes=[2, 2]}"),
            "split: sizes [2, 2] add up to 4, but dimension 0 of f32[5] is 5");
  EXPECT_EQ(type_of_node("%x: f32[N]", "unbind(%x)"), "unbind: the number of results, N, must be a constant");
}

TEST(Fill, SequencesOfSymbolicLength) {
  EXPECT_EQ(type_of_node("%x: f32[N]", "arange() {end=N}"), "i64[N]");
  EXPECT_EQ(type_of_node("%x: f32[N]", "arange() {start=N, end=0, step=-1, dtype=f32}"), "f32[N]");
  EXPECT_EQ(type_of_node("%x: f32[N]", "arange() {start=1, end=2*N, step=2}", "symbol N in [1, inf]"), "i64[N]");
  EXPECT_EQ(type_of_node("", "arange() {end=3, step=0}"), "arange: step is zero");
  EXPECT_EQ(type_of_node("%x: f32[N]", "arange() {end=N, step=0.5, dtype=f32}"),
            "arange: end is symbolic, N: it cannot go together with a real");
  EXPECT_EQ(type_of_node("", "iota() {size=-1}"), "iota: [-1] has the negative size -1");
}

// ---- gradients of symbolic graphs -----------------------------------------------------------------------------------

std::string with_numbers(std::string text, const std::map<char, int>& sizes) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool alone = (i == 0 || !isalnum(text[i - 1])) && (i + 1 == text.size() || !isalnum(text[i + 1]));
    result += alone && sizes.contains(text[i]) ? std::to_string(sizes.at(text[i])) : std::string(1, text[i]);
  }
  return result;
}

std::vector<Tensor> gradients_of(const std::string& text, const std::map<char, int>& sizes) {
  const Graph graph = parse_graph(text).value();
  std::vector<ValueRef> wrt;
  test::Random random(3);
  std::vector<Tensor> inputs;
  const auto concrete = [&](const TensorType& type) {
    return parse_type(with_numbers(to_string(type), sizes)).value();
  };
  for (ValueRef input : graph.inputs()) {
    const TensorType type = concrete(graph.type(input));
    if (is_float(type.dtype)) wrt.push_back(input);
    inputs.push_back(
        test::random_tensor(type, is_float(type.dtype) ? std::optional<Domain>() : Domain{0, 1}, {}, random));
  }
  const Graph gradients = differentiate(graph, wrt).value();
  for (ValueRef output : graph.outputs())
    inputs.push_back(test::random_tensor(concrete(graph.type(output)), {}, {}, random));
  return evaluate(gradients, inputs).value();
}

// Each node in a graph with symbols and in the same graph with numbers: the gradients are the same.
TEST(Views, GradientsOfSymbolicGraphs) {
  const std::map<char, int> sizes = {{'N', 4}, {'M', 3}};
  const std::string inputs = "%x: f64[N, M], %y: f64[M], %i: i64[2]";
  for (const std::string node : {"reshape(%x) {shape=[M, -1]}",
                                 "expand(%y) {shape=[N, M]}",
                                 "slice(%x) {start=1, step=2}",
                                 "slice(%x) {dim=1, start=-2, end=-1}",
                                 "slice(%x) {end=M}",
                                 "flip(%x) {dims=[0]}",
                                 "select(%x) {dim=1, index=-1}",
                                 "repeat(%x) {repeats=[2, M]}",
                                 "roll(%x) {shifts=[1, -1], dims=[0, 1]}",
                                 "roll(%x) {shifts=[M]}",
                                 "roll(%x) {shifts=[2*M], dims=[0]}",
                                 "diagonal(%x) {offset=-1}",
                                 "diag_embed(%x) {offset=1}",
                                 "tril(%x) {diagonal=M - 3}",
                                 "as_strided(%x) {size=[M, 2], stride=[1, M]}",
                                 "pad(%x) {low=[1, M], high=[-1, 2], value=3}",
                                 "pad_reflect(%x) {low=[1, 2], high=[0, M - 1]}",
                                 "pad_replicate(%x) {low=[M, 0], high=[1, -1]}",
                                 "pad_circular(%x) {low=[1, -1], high=[N, 2]}",
                                 "concat(%x, %x) {dim=1}",
                                 "stack(%y, %y) {dim=1}",
                                 "index(%x, %i)",
                                 "index(%x, none, %i)",
                                 "index_select(%x, %i) {dim=1}",
                                 "embedding(%x, %i) {padding_idx=1}",
                                 "slice_scatter(%x, %y0) {start=-3, end=-1}",
                                 "select_scatter(%x, %y) {index=M - 3}",
                                 "select_scatter(%x, %y) {index=1}"}) {
    const std::string symbols = "symbol M in [3, 9] symbol N in [4, 9]";
    const std::string row = node.find("%y0") == std::string::npos ? "" : ", %y0: f64[2, M]";
    const std::string text = "graph g(" + inputs + row + ") { " + symbols + " %z = " + node + " return %z }";
    SCOPED_TRACE(node);
    std::string concrete = with_numbers(text, sizes);
    concrete.erase(concrete.find("symbol"), symbols.size());
    const std::vector<Tensor> expected = gradients_of(concrete, sizes);
    const std::vector<Tensor> actual = gradients_of(text, sizes);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(test::close(actual[i], expected[i])) << "input " << i;
  }
}

}  // namespace
}  // namespace tenon
