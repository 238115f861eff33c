// Parts of C++ source: names, and the functions that a text uses.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Whether a word can be the name of something: an identifier, no keyword, and no macro of the standard headers (any
// word of capitals might be one).
bool is_cpp_name(std::string_view word);

// Gives each key a name of its own, as close to the wanted one as possible.
class CppNames {
 public:
  explicit CppNames(std::set<std::string, std::less<>> taken) : taken_(std::move(taken)) {}
  const std::string& get(const std::string& key, std::string_view wanted);

 private:
  std::map<std::string, std::string> by_key_;
  std::set<std::string, std::less<>> taken_;
};

// The functions of a C++ text: its paragraphs that define one (or a class, or a macro with parameters), with the
// comment before it.
class CppFunctions {
 public:
  CppFunctions(std::initializer_list<std::string_view> texts);  // which must outlive it
  // Those that `text` mentions, and those before them that they mention, each with an empty line after it.
  std::string used_by(std::string_view text) const;
  std::set<std::string, std::less<>> names() const;

 private:
  struct Function {
    std::string_view name;
    std::string_view text;
  };
  std::vector<Function> functions_;
};

}  // namespace tenon
