// What the two parsers share. Nobody else includes it.
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

// Runs what builds an expression; an Error that it throws (an overflow, a division by zero) gets a place.
template <class Build>
Expr located(const Location& where, const Build& build) {
  try {
    return build();
  } catch (const Error& error) {
    if (error.diagnostic().where.known()) throw;
    fail_at(where, "{}", error.diagnostic().message);
  }
}

inline void expect_end(Cursor& cursor) {
  if (cursor.at_end()) return;
  const char next = cursor.peek();
  cursor.fail("expected the end of the expression, got '{}'", next > ' ' && next <= '~' ? next : '?');
}

}  // namespace tenon::symbolic
