// Texts in blocks: a statement is a line, and its body is the lines under it that are indented by two blanks. Blank
// lines and # comments between statements are skipped.
//
//     kernel 0 object 2
//       loops {
//       }
//     slot f32[2] input 0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/diagnostic.h"

namespace tenon {

struct TextBlock {
  std::string_view line;  // points into the text
  std::string body;       // without its indentation
  Location where;         // of the line
  Location body_where;
};

std::vector<TextBlock> parse_blocks(std::string_view text, const Location& start = {"", 1, 1});

std::string indented(std::string_view text);  // Indents every line by two blanks, and ends with a newline.

}  // namespace tenon
