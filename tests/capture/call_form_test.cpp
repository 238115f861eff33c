#include "capture/call_form.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr std::string_view kForm =
    R"((x=%0, _=(%1, [None, 2]), "a b"={"k\n\"": True, -3: 0.5}, *, n=int(%2), m=int(2*N + 1), f=float(%3)) )"
    R"(-> named Point{"x": %0, "y": (argument 0,), "z": ordered{"a": bool(%1), "b": "text"}, "w": ()})";

std::string error_of(std::string_view text) {
  const Result<CallForm> form = parse_call_form(text);
  return form.ok() ? "" : form.diagnostic().message;
}

TEST(CallForm, ItsTextParsesBack) {
  const CallForm form = parse_call_form(kForm).value();
  EXPECT_EQ(to_string(form), kForm);
  ASSERT_EQ(form.parameters.size(), 6);
  EXPECT_EQ(form.parameters[1].name, "");
  EXPECT_EQ(form.parameters[2].name, "a b");
  EXPECT_FALSE(form.parameters[2].is_keyword);
  EXPECT_TRUE(form.parameters[3].is_keyword);
  EXPECT_EQ(form.results.name, "Point");
  EXPECT_EQ(std::get<int64_t>(form.parameters[2].value.keys[1]), -3);
}

TEST(CallForm, NumbersThatArePythonsOwnParseBack) {
  for (const std::string_view text : {"nan", "inf", "-inf", "1e+300", "-0.0", "9223372036854775807"}) {
    const std::string form = fmt::format("() -> {}", text);
    EXPECT_EQ(to_string(parse_call_form(form).value()), form);
  }
}

TEST(CallForm, ASingleTextOfAnyBytesParsesBack) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  const CallForm form{{}, {.kind = CallTree::Kind::kConstant, .constant = bytes}};
  EXPECT_EQ(std::get<std::string>(parse_call_form(to_string(form)).value().results.constant), bytes);
}

TEST(CallForm, DeepTreesAreRefused) {
  EXPECT_THAT(error_of("() -> " + std::string(1'000'000, '(')), HasSubstr("nests deeper than 128 levels"));
  EXPECT_THAT(error_of("() -> int(" + std::string(1'000'000, '(') + ")"), HasSubstr(""));
}

TEST(CallForm, ItMustFitItsProgram) {
  const auto fits = [](std::string_view text, size_t inputs, size_t outputs, std::optional<size_t> key) {
    const CallForm form = parse_call_form(text).value();
    const Status status = attempt([&] { check_call_form(form, inputs, outputs, key); });
    return status.ok() ? "" : status.diagnostic().message;
  };
  EXPECT_EQ(fits("(x=%1, y=int(%0)) -> (%0, argument 1, argument 0)", 3, 1, 2), "");
  EXPECT_EQ(fits("(x=%1) -> %0", 2, 1, {}), "input 0 is not given");
  EXPECT_EQ(fits("(x=%0, y=%1) -> %0", 2, 1, 1), "input 1 is drawn at random, not given");
  EXPECT_EQ(fits("(x=%0) -> (%0, %1)", 1, 1, {}), "a result is output 1, but there are 1");
  EXPECT_EQ(fits("(x=%0) -> bool(%0)", 1, 1, {}), "");
  EXPECT_EQ(fits("(x=bool(%0)) -> %0", 1, 1, {}), "'bool(%0)' cannot be an argument");
}

TEST(CallForm, NotesOfEarlierFilesHavePyTorchsTreeSpecs) {
  const std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
  const std::string arguments = R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [
      {"type": "builtins.tuple", "context": "null", "children_spec": [)" +
                                leaf + R"(]},
      {"type": "builtins.dict", "context": "[\"scale\"]", "children_spec": [)" +
                                leaf + "]}]}]";
  const std::string results = R"([1, {"type": "os.Evil", "context": "[\"a\", 1]", "children_spec": [)" + leaf + "," +
                              R"({"type": "os.Other", "context": "null", "children_spec": [)" + leaf + "]}]}]";
  const auto form = read_call_form({{"in_spec", arguments}, {"out_spec", results}}, 2, 2, {}).value();
  ASSERT_TRUE(form);
  EXPECT_EQ(to_string(*form), R"((_=%0, *, scale=%1) -> {"a": %0, 1: (%1,)})");
  EXPECT_FALSE(read_call_form({{"in_spec", arguments}}, 2, 2, {}).value());
  const auto malformed = read_call_form({{"in_spec", "[1, 2]"}, {"out_spec", results}}, 2, 2, {});
  ASSERT_FALSE(malformed.ok());
  EXPECT_THAT(malformed.diagnostic().message, HasSubstr("the note in_spec and out_spec, how the model is called"));
}

// What a fuzzer would do, from a good text.
TEST(CallForm, MutantsAreFormsOrErrors) {
  std::mt19937 random(1);
  const std::string pieces = "()[]{}%=,:*->\"\\xnamedordered intfloatNonetrue0123456789.e+-argument_N#\n\0";
  size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text(kForm);
    const size_t edits = 1 + random() % 3;
    for (size_t i = 0; i < edits; ++i) {
      const size_t place = random() % text.size();
      const char c = pieces[random() % pieces.size()];
      switch (random() % 3) {
        case 0:
          text[place] = c;
          break;
        case 1:
          text.erase(place, 1 + random() % 8);
          break;
        default:
          text.insert(place, 1, c);
      }
    }
    const Result<CallForm> form = parse_call_form(text);
    if (!form.ok()) continue;
    ++accepted;
    const std::string printed = to_string(*form);
    ASSERT_EQ(to_string(parse_call_form(printed).value()), printed) << text;
    std::ignore = attempt([&] { check_call_form(*form, 4, 2, {}); });
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace tenon
