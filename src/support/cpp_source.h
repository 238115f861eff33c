// Parts of C++ source: names, and the functions that a text uses.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Whether a word can name a variable or function: an identifier, no keyword, and no macro of the standard headers (a
// word of capitals may be a macro).
bool is_cpp_name(std::string_view word);

// Gives each key a unique name, as close to the wanted name as possible.
class CppNames {
 public:
  explicit CppNames(std::set<std::string, std::less<>> taken) : taken_(std::move(taken)) {}
  const std::string& get(const std::string& key, std::string_view wanted);

 private:
  std::map<std::string, std::string> by_key_;
  std::set<std::string, std::less<>> taken_;
};

// The functions, classes and macros with parameters that a C++ text defines: one paragraph each, with its comment.
class CppFunctions {
 public:
  CppFunctions(std::initializer_list<std::string_view> texts);  // The texts must outlive it.
  // The functions that `text` needs, directly or through other functions, each with an empty line after it.
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
