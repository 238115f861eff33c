#include <algorithm>
#include <cctype>

#include "backends/cpp/text.h"
#include "embedded/kPrelude.h"
#include "embedded/kScalarFunctions.h"

namespace tenon::cpp {
namespace {

// Words of C++ that are no functions of the prelude, and macros of its headers in small letters.
constexpr std::string_view kWords =
    "alignas alignof and and_eq asm assert auto begin bitand bitor bool break case catch char char16_t char32_t class "
    "compl const const_cast constexpr continue decltype default delete do double dynamic_cast else end enum errno "
    "error "
    "explicit export extern false float for friend goto i if inline int lane linux long main memory mutable namespace "
    "new noexcept not not_eq nullptr operator or or_eq parallel private protected public register reinterpret_cast "
    "return short signed sizeof sizes static static_assert static_cast std struct switch template this thread_local "
    "throw true try typedef typeid typename union unix unsigned using virtual void volatile wchar_t while wrong xor "
    "xor_eq isfinite isinf isnan isnormal signbit";

bool is_word_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_capital(char c) { return std::islower(static_cast<unsigned char>(c)) == 0; }

bool mentions(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !is_word_letter(text[at - 1]);
    if (begins && (end == text.size() || !is_word_letter(text[end]))) return true;
  }
  return false;
}

struct Function {
  std::string_view name;
  std::string_view text;
};

// The word before the first parenthesis after the comment; nothing for other paragraphs.
std::string_view defined_by(std::string_view text) {
  while (text.starts_with("//")) text.remove_prefix(std::min(text.size(), text.find('\n')) + 1);
  const size_t end = text.find('(');
  if (end == text.npos) return "";
  size_t begin = end;
  while (begin > 0 && is_word_letter(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

struct Prelude {
  std::string_view types = kPrelude.substr(0, kPrelude.find("// ----"));
  std::vector<Function> functions;  // each uses those before it

  Prelude() {
    add(kPrelude.substr(types.size()));
    add(kScalarFunctions);
  }
  void add(std::string_view text) {
    for (size_t end = text.find("\n\n"); !text.empty(); end = text.find("\n\n")) {
      const std::string_view paragraph = text.substr(0, end);
      if (const auto name = defined_by(paragraph); !name.empty()) functions.push_back({name, paragraph});
      text.remove_prefix(std::min(text.size(), paragraph.size() + 2));
    }
  }
};

const Prelude& prelude() {
  static const Prelude prelude;
  return prelude;
}

std::string vector_types(std::string_view text) {
  std::string types;
  for (std::string_view element :
       {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "b8"}) {
    for (int lanes = 2; lanes <= 64; lanes *= 2) {
      const std::string name = fmt::format("{}x{}", element, lanes);
      if (!mentions(text, name)) continue;
      types += fmt::format("typedef {0} {1} __attribute__((vector_size({2} * sizeof({0}))));\n", element, name, lanes);
    }
  }
  return types;
}

}  // namespace

std::string with_prelude(std::string_view functions) {
  std::string text(functions);
  const std::vector<Function>& helpers = prelude().functions;
  for (auto helper = helpers.rbegin(); helper != helpers.rend(); ++helper) {
    if (mentions(text, helper->name)) text = fmt::format("{}\n\n{}", helper->text, text);
  }
  return fmt::format("{}{}\n{}", prelude().types, vector_types(text), text);
}

// Capitals may be a macro.
bool Names::is_free(std::string_view word) {
  return std::isalpha(static_cast<unsigned char>(word[0])) != 0 && std::ranges::all_of(word, is_word_letter) &&
         (word.size() == 1 || !std::ranges::all_of(word, is_capital)) && !mentions(kWords, word) &&
         !mentions(prelude().types, word) &&
         std::ranges::find(prelude().functions, word, &Function::name) == prelude().functions.end();
}

const std::string& Names::get(const std::string& key, std::string_view wanted) {
  std::string& name = by_key_[key];
  if (!name.empty()) return name;
  name = wanted;
  std::ranges::replace(name, '.', '_');
  if (std::isalpha(static_cast<unsigned char>(name[0])) == 0) name = "v" + name;
  while (!is_free(name) || taken_.contains(name)) name += "_x";
  taken_.insert(name);
  return name;
}

}  // namespace tenon::cpp
