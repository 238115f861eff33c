#include "support/cpp_source.h"

#include <algorithm>
#include <cctype>
#include <ranges>

namespace tenon {
namespace {

// The keywords of C++20, and macros of C's headers in small letters.
constexpr std::string_view kWords =
    " alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char char8_t char16_t char32_t "
    "class "
    "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype "
    "default "
    "delete do double dynamic_cast else enum errno explicit export extern false float for friend goto if inline int "
    "isfinite isinf isnan isnormal linux long main mutable namespace new noexcept not not_eq nullptr operator or or_eq "
    "private protected public register reinterpret_cast requires return short signbit signed sizeof static "
    "static_assert static_cast std struct switch template this thread_local throw true try typedef typeid typename "
    "union unix unsigned using virtual void volatile wchar_t while xor xor_eq ";

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_word_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_small(char c) { return std::islower(static_cast<unsigned char>(c)) != 0; }

// The name of the function that a paragraph defines: the word before the first parenthesis after the comment.
std::string_view defined_by(std::string_view paragraph) {
  while (paragraph.starts_with("//")) paragraph.remove_prefix(std::min(paragraph.find('\n'), paragraph.size() - 1) + 1);
  const size_t end = paragraph.find('(');
  if (end == paragraph.npos) return "";
  size_t begin = end;
  while (begin > 0 && is_word_letter(paragraph[begin - 1])) --begin;
  return paragraph.substr(begin, end - begin);
}

}  // namespace

bool is_cpp_name(std::string_view word) {
  if (word.empty() || !is_letter(word[0]) || !std::ranges::all_of(word, is_word_letter)) return false;
  const bool may_be_macro = word.size() > 1 && std::ranges::none_of(word, is_small);
  return !may_be_macro && kWords.find(' ' + std::string(word) + ' ') == kWords.npos;
}

const std::string& CppNames::get(const std::string& key, std::string_view wanted) {
  std::string& name = by_key_[key];
  if (!name.empty()) return name;
  name = wanted;
  std::ranges::replace_if(name, [](char c) { return !is_word_letter(c); }, '_');
  if (name.empty() || !is_letter(name[0])) name = "v" + name;
  if (!is_cpp_name(name)) name += "_v";
  while (!taken_.insert(name).second) name += "_";
  return name;
}

CppFunctions::CppFunctions(std::initializer_list<std::string_view> texts) {
  for (std::string_view text : texts) {
    while (!text.empty()) {
      const std::string_view paragraph = text.substr(0, text.find("\n\n"));
      if (const std::string_view name = defined_by(paragraph); !name.empty()) functions_.push_back({name, paragraph});
      text.remove_prefix(std::min(text.size(), paragraph.size() + 2));
    }
  }
}

std::string CppFunctions::used_by(std::string_view text) const {
  std::string used;
  for (const Function& function : functions_ | std::views::reverse) {
    const bool is_used = text.find(function.name) != text.npos || used.find(function.name) != used.npos;
    if (is_used) used.insert(0, "\n\n").insert(0, function.text);
  }
  return used;
}

std::set<std::string, std::less<>> CppFunctions::names() const {
  std::set<std::string, std::less<>> names;
  for (const Function& function : functions_) names.emplace(function.name);
  return names;
}

}  // namespace tenon
