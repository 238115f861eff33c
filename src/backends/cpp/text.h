// The pieces of C++ text that kernels are made of.
#pragma once

#include <map>
#include <set>

#include "loops/loop_tree.h"

namespace tenon::cpp {

// A number, or a vector of them.
struct Type {
  DType dtype;
  int64_t lanes = 1;
};
std::string to_string(const Type& type);  // "f32", "f32x16"

// An elementwise op of the table, of operands that are names, literals or calls. Throws an Error for one it lacks.
std::string apply(const OpDef& op, DType operands, Type result, const std::vector<std::string>& x);
std::string cast(DType from, Type to, const std::string& x);
bool divides_integers(const OpDef& op, DType dtype);  // its second operand must not be 0

std::string literal(Type type, const loops::Scalar& value);

// Names that mean nothing else, neither to C++ nor to each other.
class Names {
 public:
  const std::string& get(const std::string& key, std::string_view wanted);
  static bool is_free(std::string_view word);

 private:
  std::map<std::string, std::string> by_key_;
  std::set<std::string> taken_;
};

// The text of one kernel, without what comes before it; and a file of such.
std::string emit_function(const loops::LoopTree& tree, std::string_view name);
std::string with_prelude(std::string_view functions);

}  // namespace tenon::cpp
