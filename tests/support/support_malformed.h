// Malformed texts, for the tests of parsers. Each case of a corpus' files begins with a line
//
//     ==== part of the message @ line:column
//
// and goes on to the next such line. The parser must say that, there, and nothing may go wrong on the way: the
// sanitizers watch these tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "support/diagnostic.h"

namespace tenon::test {

struct MalformedCase {
  std::string file;  // of the corpus
  std::string message;
  int line = 0;
  int column = 0;
  std::string text;
};

std::vector<MalformedCase> malformed_cases(const std::string& folder);

// `result` is what the parser says to the case's text in the case's file.
template <class T>
void expect_rejected(const MalformedCase& c, const Result<T>& result) {
  SCOPED_TRACE(c.file + ": " + c.message + "\n" + c.text);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.diagnostic().message, testing::HasSubstr(c.message));
  EXPECT_EQ(result.diagnostic().where, (Location{c.file, c.line, c.column}));
}

// A diagnostic has a message, and a place in the text.
void expect_place_inside(const Diagnostic& diagnostic, std::string_view text);

// ---- a valid text, damaged in every place ----
std::vector<std::string> with_changed_bytes(std::string_view text);
std::vector<std::string> with_changed_stretches(std::string_view text);  // deleted or repeated

std::string repeat(std::string_view part, size_t count);

}  // namespace tenon::test
