// Inside of symbolic: what the two parsers share.
#pragma once

#include "support/cursor.h"
#include "symbolic/canonical.h"

namespace tenon::symbolic {

// Counts the levels of a recursive parser while it is alive.
class Nesting {
 public:
  Nesting(Cursor& cursor, uint32_t& depth) : depth_(depth) {
    if (depth_ == kMaxDepth) cursor.fail("the expression nests deeper than {} levels", kMaxDepth);
    ++depth_;
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  uint32_t& depth_;
};

inline void expect_end(Cursor& cursor) {
  if (!cursor.at_end()) cursor.expected("the end of the expression");
}

}  // namespace tenon::symbolic
