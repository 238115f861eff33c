#include "autodiff/loss.h"

#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

Loss loss_of(std::string_view text) { return parse_loss(text).value(); }

std::string error_of(std::string_view text) { return parse_loss(text).diagnostic().text(); }

TEST(Loss, TextIsReadBack) {
  for (std::string_view text :
       {"output", "mse", "l1(reduction=sum)", "cross_entropy", "cross_entropy(ignore_index=3, label_smoothing=0.1)",
        "cross_entropy(reduction=none, probabilities=true, weight=[1, 0.5])", "nll(ignore_index=-1, weight=[2])",
        "bce_with_logits(weight=[1], pos_weight=[2, 3])"}) {
    EXPECT_EQ(to_string(loss_of(text)), text);
  }
  EXPECT_EQ(loss_of("cross_entropy( reduction = sum ,label_smoothing=1e-1 )"),
            loss_of("cross_entropy(reduction=sum, label_smoothing=0.1)"));
}

TEST(Loss, SettingsHaveTheDefaultsOfTheStruct) {
  const Loss loss = loss_of("cross_entropy()");
  EXPECT_EQ(loss.kind, LossKind::kCrossEntropy);
  EXPECT_EQ(loss.reduction, Reduction::kMean);
  EXPECT_EQ(loss.ignore_index, -100);
}

TEST(Loss, MistakesInATextAreErrorsWithTheirPlace) {
  EXPECT_EQ(error_of("crossentropy"),
            "<text>:1:1: error: there is no loss 'crossentropy': use one of output, mse, l1, cross_entropy, nll, "
            "bce_with_logits; did you mean 'cross_entropy'?");
  EXPECT_EQ(error_of("nll(label_smoothing=0.1)"), "<text>:1:5: error: nll has no setting 'label_smoothing'");
  EXPECT_EQ(error_of("mse(reduction=all)"), "<text>:1:5: error: expected one of none, mean, sum, got 'all'");
  EXPECT_EQ(error_of("mse(reduction=3)"), "<text>:1:5: error: expected one of none, mean, sum");
  EXPECT_EQ(error_of("cross_entropy(label_smoothing=1.5)"),
            "<text>:1:15: error: label_smoothing must be in [0, 1], got 1.5");
  EXPECT_EQ(error_of("cross_entropy(ignore_index=0.5)"), "<text>:1:15: error: '0.5' is not a number");
  EXPECT_EQ(error_of("cross_entropy(probabilities=1)"), "<text>:1:15: error: expected true or false");
  EXPECT_EQ(error_of("mse(sum, reduction=sum)"), "<text>:1:10: error: 'reduction' is given twice");
  EXPECT_EQ(error_of("mse(sum, 1)"), "<text>:1:10: error: mse has 1 settings, this is one more");
  EXPECT_EQ(error_of("mse(sum"), "<text>:1:8: error: expected ')', got the end of the text");
  EXPECT_EQ(error_of(""), "<text>:1:1: error: expected a loss, got the end of the text");
  EXPECT_EQ(error_of("cross_entropy(weight=[1, x])"), "<text>:1:15: error: 'x' is not a number");
  EXPECT_EQ(error_of("cross_entropy(probabilities=true, ignore_index=1)"),
            "<text>:1:1: error: ignore_index is of targets that are classes, not probabilities");
}

TEST(Loss, NestingIsBounded) {
  std::string text = "mse(";
  for (int i = 0; i < 100000; ++i) text += "a(";
  EXPECT_EQ(error_of(text).substr(0, 56), "<text>:1:21: error: more than 8 names within each other");
}

TEST(Loss, IsOneNumberUnlessNotReduced) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", parse_type("bf16[N, 10, 4]").value()));
  const Loss loss = loss_of("cross_entropy(label_smoothing=0.1)");
  const Value y = b.value(graph.add_input("y", target_type(loss, x.type())));
  EXPECT_EQ(to_string(add_loss(b, loss, x, y).type()), "bf16[]");
  EXPECT_EQ(to_string(add_loss(b, loss_of("cross_entropy(reduction=none)"), x, y).type()), "bf16[N, 4]");
  EXPECT_TRUE(verify(graph).ok());
}

TEST(Loss, CrossEntropyIgnoresWhatItIsTold) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", parse_type("f64[3, 2]").value()));
  const Value y = b.value(graph.add_input("y", parse_type("i64[3]").value()));
  graph.set_outputs({add_loss(b, loss_of("cross_entropy(ignore_index=7)"), x, y).ref()});
  Tensor scores = Tensor::zeros(DType::kF64, {3, 2});
  scores.set_real(2, 1000);  // of the ignored sample
  Tensor target = Tensor::zeros(DType::kI64, {3});
  target.set_integer(1, 7);
  const auto result = evaluate(graph, std::vector{scores, target}).value();
  EXPECT_DOUBLE_EQ(test::values_of(result[0])[0], std::log(2));
}

TEST(Loss, SettingsOfAStructAreCheckedToo) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", parse_type("f32[3, 2]").value()));
  const Value y = b.value(graph.add_input("y", parse_type("i64[3]").value()));
  Loss loss = loss_of("cross_entropy");
  loss.label_smoothing = -1;
  EXPECT_THROW(add_loss(b, loss, x, y), Error);
}

}  // namespace
}  // namespace tenon
