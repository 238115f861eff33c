// Malformed graph texts. Each case of tests/graph/malformed/*.tg begins with a line
//
//     ==== part of the message @ line:column
//
// and goes on to the next such line. The parser must say that, there, and nothing may go wrong on the way: the
// sanitizers watch these tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <filesystem>

#include "graph/graph.h"
#include "support/file.h"

namespace tenon {
namespace {

constexpr std::string_view kMark = "==== ";

struct Case {
  std::string message;
  int line = 0;
  int column = 0;
  std::string text;
};

int number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Case parse_case(std::string_view part) {
  const std::string_view head = part.substr(0, part.find('\n'));
  const size_t at = head.rfind(" @ ");
  const size_t colon = head.rfind(':');
  check(at != std::string_view::npos && colon > at, "malformed head of a case: {}", head);
  return {std::string(head.substr(0, at)), number(head.substr(at + 3)), number(head.substr(colon + 1)),
          std::string(part.substr(std::min(head.size() + 1, part.size())))};
}

std::vector<Case> cases_of(const std::string& path) {
  const FileContent file = read_file(path).value();
  const std::string text = "\n" + std::string(file.text());
  const std::string mark = "\n" + std::string(kMark);
  std::vector<Case> cases;
  for (size_t start = text.find(mark); start != std::string::npos;) {
    start += mark.size();
    const size_t next = text.find(mark, start);
    cases.push_back(parse_case(std::string_view(text).substr(start, next - start)));
    start = next;
  }
  return cases;
}

std::vector<std::string> corpus() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/graph/malformed"))
    paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  return paths;
}

TEST(MalformedGraph, EveryCaseIsRejectedWhereItIsWrong) {
  size_t count = 0;
  for (const std::string& path : corpus()) {
    for (const Case& c : cases_of(path)) {
      SCOPED_TRACE(path + ": " + c.message + "\n" + c.text);
      const Result<Graph> graph = parse_graph(c.text, "g.tg");
      ASSERT_FALSE(graph.ok());
      EXPECT_THAT(graph.diagnostic().message, testing::HasSubstr(c.message));
      EXPECT_EQ(graph.diagnostic().where, (Location{"g.tg", c.line, c.column}));
      ++count;
    }
  }
  EXPECT_GT(count, 600u);
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

bool is_inside(const Location& where, std::string_view text) {
  size_t start = 0;
  for (int line = 1; line < where.line; ++line) {
    start = text.find('\n', start);
    if (start == std::string_view::npos) return false;
    ++start;
  }
  const size_t length = std::min(text.find('\n', start), text.size()) - start;
  return where.column >= 1 && static_cast<size_t>(where.column) <= length + 1;
}

// A changed text may happen to be a graph; if it is not, the diagnostic has a place in it.
void expect_sound(const std::string& text) {
  const Result<Graph> graph = parse_graph(text);
  if (graph.ok()) {
    const Status status = verify(*graph);  // a changed symbol may have nothing that binds it
    const bool unbound = !status.ok() && status.diagnostic().message.find("binds the symbol") != std::string::npos;
    EXPECT_TRUE(status.ok() || unbound) << text;
    return;
  }
  EXPECT_TRUE(is_inside(graph.diagnostic().where, text)) << graph.diagnostic().text() << "\n" << text;
  EXPECT_FALSE(graph.diagnostic().message.empty());
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
  for (size_t at = 0; at < kWhole.size(); ++at) {
    for (const char byte : std::string_view("\0\xff\n \"#%()-,.09:=@AN[\\]{}", 23)) {
      std::string text(kWhole);
      text[at] = byte;
      expect_sound(text);
    }
  }
}

TEST(MalformedGraph, EveryDeletedOrRepeatedStretchIsSound) {
  for (size_t at = 0; at < kWhole.size(); ++at) {
    for (size_t size : {1, 2, 5, 17, 60}) {
      std::string text(kWhole);
      expect_sound(text.erase(at, size));
      text = kWhole;
      expect_sound(text.insert(at, kWhole.substr(at, size)));
    }
  }
}

TEST(MalformedGraph, DepthAndLengthAreBounded) {
  const auto with_size = [](const std::string& size) { return "graph g(%x: f32[" + size + "]) {\n  return\n}"; };
  const auto repeat = [](std::string_view part, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += part;
    return text;
  };
  for (std::string_view opening : {"(", "min(", "-(", "2*(", "1 + max(3, "}) {
    const Result<Graph> graph = parse_graph(with_size(repeat(opening, 100000)));
    ASSERT_FALSE(graph.ok());
    EXPECT_THAT(graph.diagnostic().message, testing::HasSubstr("nests deeper")) << opening;
  }
  expect_sound(with_size(repeat("-", 100000) + "N"));
  expect_sound(with_size(repeat("N + ", 100000) + "N"));
  expect_sound(with_size(repeat("N // ", 300) + "N"));
  expect_sound(with_size(repeat("1, ", 10000) + "1"));
  expect_sound(repeat("graph ", 10000));
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
