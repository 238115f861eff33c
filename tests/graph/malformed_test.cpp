// Malformed graph texts: tests/graph/malformed/*.tg.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "tests/support/support_malformed.h"

namespace tenon {
namespace {

TEST(MalformedGraph, EveryCaseIsRejectedWhereItIsWrong) {
  const std::vector<test::MalformedCase> cases = test::malformed_cases("tests/graph/malformed");
  for (const test::MalformedCase& c : cases) test::expect_rejected(c, parse_graph(c.text, c.file));
  EXPECT_GT(cases.size(), 600u);
}

// ---- what no list can hold ------------------------------------------------------------------------------------------

constexpr std::string_view kWhole = R"(graph whole(%x: f32[N, 4], %k: i64[2]) {
  symbol N in [1, 64]  # a comment
  %w: f32[4] = parameter "fc.\"weight\"\x41"
  %b: f32[4] = buffer "state"
  %c: f32[2] = constant [0.5, -inf]
  %n: f32[3] = constant nan(0x7fc00001)
  %y: f32[N, 4] = mul(%x, %w) @ "model.py":12:3
  %s: f32[4] = sum(%y) {dims=[0], keepdim=false}
  %f: f32[2*N, 3] = full() {value=N // 2 + min(N, 3), shape=[2*N, 3], dtype=f32}
  %h: f32[] = full() {value=0.5, shape=[], dtype=f32}
  update %b = %s
  return %y, %f, %h
})";

// A changed text may happen to be a graph; if it is not, the diagnostic has a place in it.
void expect_sound(const std::string& text) {
  const Result<Graph> graph = parse_graph(text);
  if (graph.ok()) {
    const Status status = verify(*graph);  // a changed symbol may have nothing that binds it
    const bool unbound = !status.ok() && status.diagnostic().message.find("binds the symbol") != std::string::npos;
    EXPECT_TRUE(status.ok() || unbound) << text;
    return;
  }
  test::expect_place_inside(graph.diagnostic(), text);
}

TEST(MalformedGraph, EveryPrefixIsRejected) {
  ASSERT_TRUE(parse_graph(kWhole).ok()) << parse_graph(kWhole).diagnostic().text();
  for (size_t size = 0; size < kWhole.size(); ++size) {
    const std::string prefix(kWhole.substr(0, size));
    EXPECT_FALSE(parse_graph(prefix).ok()) << prefix;
    expect_sound(prefix);
  }
}

TEST(MalformedGraph, EveryChangedByteIsSound) {
  for (const std::string& text : test::with_changed_bytes(kWhole)) expect_sound(text);
}

TEST(MalformedGraph, EveryDeletedOrRepeatedStretchIsSound) {
  for (const std::string& text : test::with_changed_stretches(kWhole)) expect_sound(text);
}

TEST(MalformedGraph, DepthAndLengthAreBounded) {
  const auto with_size = [](const std::string& size) { return "graph g(%x: f32[" + size + "]) {\n  return\n}"; };
  for (std::string_view opening : {"(", "min(", "-(", "2*(", "1 + max(3, "}) {
    const Result<Graph> graph = parse_graph(with_size(test::repeat(opening, 100000)));
    ASSERT_FALSE(graph.ok());
    EXPECT_THAT(graph.diagnostic().message, testing::HasSubstr("nests deeper")) << opening;
  }
  expect_sound(with_size(test::repeat("-", 100000) + "N"));
  expect_sound(with_size(test::repeat("N + ", 100000) + "N"));
  expect_sound(with_size(test::repeat("N // ", 300) + "N"));
  expect_sound(with_size(test::repeat("1, ", 10000) + "1"));
  expect_sound(test::repeat("graph ", 10000));
  expect_sound("graph " + std::string(1000000, 'g') + "() {\n  return\n}");
}

TEST(MalformedGraph, AProductOfManySumsTakesNoAge) {
  std::string product = "(a0 + b0)";
  for (int i = 1; i < 40; ++i) product += fmt::format("*(a{} + b{})", i, i);
  expect_sound("graph g(%x: f32[" + product + "]) {\n  return\n}");
}

TEST(MalformedGraph, OneValueForManyElementsTakesNoMemory) {
  const Result<Graph> graph = parse_graph("graph g() {\n  %c: f64[268435456] = constant 0.5\n  return %c\n}");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().text();
  EXPECT_EQ(graph->leaves()[0].data.strides(), Sizes{0});
  EXPECT_EQ(graph->leaves()[0].data.real(0), 0.5);
  EXPECT_EQ(to_string(*graph), "graph g() {\n  %c: f64[268435456] = constant 0.5\n  return %c\n}\n");
}

}  // namespace
}  // namespace tenon
