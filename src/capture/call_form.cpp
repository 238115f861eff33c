#include "capture/call_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "capture/pt2/tree_spec.h"
#include "graph/graph.h"
#include "support/cursor.h"

namespace tenon {
namespace {

using Kind = CallTree::Kind;

constexpr size_t kDeepest = 128;
constexpr std::string_view kUnnamed = "_";

bool is_plain_name(std::string_view text) { return is_identifier(text) && text.find('.') == std::string_view::npos; }

// ---- text -----------------------------------------------------------------------------------------------------------

std::string text_of(const CallConstant& constant) {
  if (const auto* flag = std::get_if<bool>(&constant)) return *flag ? "True" : "False";
  if (const auto* number = std::get_if<int64_t>(&constant)) return std::to_string(*number);
  if (const auto* real = std::get_if<double>(&constant)) return real_to_string(*real);
  if (const auto* text = std::get_if<std::string>(&constant)) return quote(*text);
  return "None";
}

std::string text_of(const CallTree::Key& key) {
  const auto* text = std::get_if<std::string>(&key);
  return text != nullptr ? quote(*text) : std::to_string(std::get<int64_t>(key));
}

std::string text_of(const CallTree& tree);

std::string joined(const CallTree& tree) {
  std::string text;
  for (const CallTree& child : tree.children) text += (text.empty() ? "" : ", ") + text_of(child);
  return text;
}

std::string entries(const CallTree& tree) {
  std::string text;
  for (size_t i = 0; i < tree.children.size(); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", text_of(tree.keys[i]), text_of(tree.children[i]));
  }
  return text;
}

std::string text_of(const CallTree& tree) {
  switch (tree.kind) {
    case Kind::kTuple:
      return fmt::format("({}{})", joined(tree), tree.children.size() == 1 ? "," : "");
    case Kind::kList:
      return fmt::format("[{}]", joined(tree));
    case Kind::kDict:
      return fmt::format("{{{}}}", entries(tree));
    case Kind::kOrderedDict:
      return fmt::format("ordered{{{}}}", entries(tree));
    case Kind::kNamedTuple:
      return fmt::format("named {}{{{}}}", tree.name, entries(tree));
    case Kind::kTensor:
      return fmt::format("%{}", tree.position);
    case Kind::kInt:
      return fmt::format("int(%{})", tree.position);
    case Kind::kFloat:
      return fmt::format("float(%{})", tree.position);
    case Kind::kBool:
      return fmt::format("bool(%{})", tree.position);
    case Kind::kSize:
      return fmt::format("int({})", symbolic::to_string(*tree.size));
    case Kind::kArgument:
      return fmt::format("argument {}", tree.position);
    case Kind::kConstant:
      return text_of(tree.constant);
  }
  return {};
}

class FormParser {
 public:
  explicit FormParser(std::string_view text) : cursor_(text) {}

  CallForm run() {
    CallForm form;
    cursor_.expect("(");
    bool is_keyword = false;
    while (!cursor_.accept(")")) {
      if (!form.parameters.empty() || is_keyword) cursor_.expect(",");
      if (!is_keyword && cursor_.accept("*")) {
        is_keyword = true;
        continue;
      }
      form.parameters.push_back(parameter(is_keyword));
    }
    cursor_.expect("->");
    form.results = tree();
    if (!cursor_.at_end()) cursor_.expected("the end of the form");
    return form;
  }

 private:
  CallParameter parameter(bool is_keyword) {
    CallParameter result{
        cursor_.peek() == '"' ? cursor_.string("a parameter") : plain_name("a parameter"), {}, is_keyword};
    if (result.name == kUnnamed) result.name.clear();
    const bool is_new = result.name.empty() ? !is_keyword : names_.insert(result.name).second;
    if (!is_new) cursor_.fail("'{}' cannot be a parameter here, or appears twice", result.name);
    cursor_.expect("=");
    result.value = tree();
    return result;
  }

  std::string plain_name(std::string_view what) {
    std::string name(cursor_.identifier(what));
    if (!is_plain_name(name)) cursor_.fail("'{}' is not a name of {}", name, what);
    return name;
  }

  CallTree tree() {
    if (depth_ == kDeepest) cursor_.fail("it nests deeper than {} levels", kDeepest);
    ++depth_;
    CallTree result = node();
    --depth_;
    return result;
  }

  CallTree node() {
    if (cursor_.accept("(")) return sequence(Kind::kTuple, ")");
    if (cursor_.accept("[")) return sequence(Kind::kList, "]");
    if (cursor_.accept("{")) return dictionary({.kind = Kind::kDict});
    if (cursor_.accept("%")) return {.kind = Kind::kTensor, .position = position()};
    if (cursor_.peek() == '"') return constant(cursor_.string("a constant"));
    if (cursor_.accept_word("ordered")) {
      cursor_.expect("{");
      return dictionary({.kind = Kind::kOrderedDict});
    }
    if (cursor_.accept_word("named")) {
      CallTree result{.kind = Kind::kNamedTuple, .name = plain_name("a class")};
      cursor_.expect("{");
      return dictionary(std::move(result));
    }
    if (cursor_.accept_word("argument")) return {.kind = Kind::kArgument, .position = position()};
    if (cursor_.accept_word("int")) return integer();
    if (cursor_.accept_word("float")) return number(Kind::kFloat);
    if (cursor_.accept_word("bool")) return number(Kind::kBool);
    if (cursor_.accept_word("None")) return constant(None{});
    if (cursor_.accept_word("True")) return constant(true);
    if (cursor_.accept_word("False")) return constant(false);
    return constant(plain_number());
  }

  CallTree sequence(Kind kind, std::string_view end) {
    CallTree result{.kind = kind};
    while (!cursor_.accept(end)) {
      if (!result.children.empty()) cursor_.expect(",");
      if (cursor_.accept(end)) break;  // (%0,)
      result.children.push_back(tree());
    }
    return result;
  }

  CallTree dictionary(CallTree result) {
    while (!cursor_.accept("}")) {
      if (!result.children.empty()) cursor_.expect(",");
      CallTree::Key key = cursor_.peek() == '"' ? CallTree::Key(cursor_.string("a key"))
                                                : CallTree::Key(cursor_.integer("a key, a text or an integer"));
      if (std::ranges::find(result.keys, key) != result.keys.end())
        cursor_.fail("the key {} appears twice", text_of(key));
      const auto* field = std::get_if<std::string>(&key);
      if (result.kind == Kind::kNamedTuple && (field == nullptr || !is_plain_name(*field)))
        cursor_.fail("{} is not a name of a field", text_of(key));
      result.keys.push_back(std::move(key));
      cursor_.expect(":");
      result.children.push_back(tree());
    }
    return result;
  }

  CallTree integer() {
    cursor_.expect("(");
    CallTree result{.kind = Kind::kInt};
    if (cursor_.accept("%")) {
      result.position = position();
    } else {
      const Location start = cursor_.here();
      const auto size = symbolic::parse(cursor_.until(")"));
      if (!size.ok()) fail_at(start, "{}", size.diagnostic().message);
      result.kind = Kind::kSize;
      result.size = *size;
    }
    cursor_.expect(")");
    return result;
  }

  CallTree number(Kind kind) {
    cursor_.expect("(");
    cursor_.expect("%");
    CallTree result{.kind = kind, .position = position()};
    cursor_.expect(")");
    return result;
  }

  static CallTree constant(CallConstant value) { return {.kind = Kind::kConstant, .constant = std::move(value)}; }

  CallConstant plain_number() {
    const std::string_view text = cursor_.number("a value");
    int64_t number = 0;
    const char* const end = text.data() + text.size();
    if (const auto read = std::from_chars(text.data(), end, number); read.ec == std::errc() && read.ptr == end)
      return number;
    double real = 0;
    if (const auto read = std::from_chars(text.data(), end, real); read.ec == std::errc() && read.ptr == end)
      return real;
    cursor_.fail("'{}' before this is neither a number nor a value that a form can have", text);
  }

  size_t position() {
    const int64_t number = cursor_.integer("a number");
    if (number < 0) cursor_.fail("{} before this is not a position", number);
    return static_cast<size_t>(number);
  }

  Cursor cursor_;
  size_t depth_ = 0;
  std::set<std::string, std::less<>> names_;
};

// ---- checks ---------------------------------------------------------------------------------------------------------

template <class Body>
void for_each_leaf(const CallTree& tree, Body&& body) {
  if (tree.is_leaf()) return body(tree);
  for (const CallTree& child : tree.children) for_each_leaf(child, body);
}

void check_argument(const CallTree& leaf, std::vector<bool>& is_given) {
  switch (leaf.kind) {
    case Kind::kTensor:
    case Kind::kInt:
    case Kind::kFloat:
      if (leaf.position >= is_given.size())
        fail("an argument is input {}, but the program has {}", leaf.position, is_given.size());
      if (is_given[leaf.position]) fail("input {} is given twice", leaf.position);
      is_given[leaf.position] = true;
      return;
    case Kind::kSize:
    case Kind::kConstant:
      return;
    default:
      fail("'{}' cannot be an argument", text_of(leaf));
  }
}

void check_result(const CallTree& leaf, size_t outputs, size_t arguments) {
  if (leaf.kind == Kind::kConstant) return;
  if (leaf.kind == Kind::kSize) fail("'{}' cannot be a result", text_of(leaf));
  const bool is_argument = leaf.kind == Kind::kArgument;
  if (leaf.position >= (is_argument ? arguments : outputs))
    fail("a result is {} {}, but there are {}", is_argument ? "argument" : "output", leaf.position,
         is_argument ? arguments : outputs);
}

}  // namespace

std::string to_string(const CallForm& form) {
  std::string text;
  bool has_keywords = false;
  for (const CallParameter& parameter : form.parameters) {
    if (!text.empty()) text += ", ";
    if (parameter.is_keyword && !std::exchange(has_keywords, true)) text += "*, ";
    const std::string& name = parameter.name;
    text += name.empty() ? std::string(kUnnamed) : is_plain_name(name) && name != kUnnamed ? name : quote(name);
    text += "=" + text_of(parameter.value);
  }
  return fmt::format("({}) -> {}", text, text_of(form.results));
}

Result<CallForm> parse_call_form(std::string_view text) {
  return attempt([&] { return FormParser(text).run(); });
}

void check_call_form(const CallForm& form, size_t inputs, size_t outputs, std::optional<size_t> key) {
  std::vector<bool> is_given(inputs, false);
  size_t arguments = 0;
  for (const CallParameter& parameter : form.parameters) {
    for_each_leaf(parameter.value, [&](const CallTree& leaf) {
      check_argument(leaf, is_given);
      ++arguments;
    });
  }
  for (size_t i = 0; i < inputs; ++i) {
    if (is_given[i] == (key == i))
      fail("input {} {}", i, is_given[i] ? "is drawn at random, not given" : "is not given");
  }
  for_each_leaf(form.results, [&](const CallTree& leaf) { check_result(leaf, outputs, arguments); });
}

// ---- PyTorch's tree specs -------------------------------------------------------------------------------------------

namespace {

Kind kind_of(const pt2::TreeSpec& spec) {
  if (spec.type == "builtins.list" || spec.type == "collections.deque") return Kind::kList;
  if (spec.type == "collections.OrderedDict") return Kind::kOrderedDict;
  const bool has_keys = !spec.keys.empty() && spec.keys.size() == spec.children.size();
  if (spec.type == "collections.namedtuple") return has_keys ? Kind::kNamedTuple : Kind::kTuple;
  if (spec.type == "builtins.dict" || spec.type == "collections.defaultdict") return Kind::kDict;
  return has_keys ? Kind::kDict : Kind::kTuple;
}

// "Point" of "models.shapes.Point".
std::string class_name(std::string_view path) {
  const std::string_view last = path.substr(path.rfind('.') + 1);
  return is_plain_name(last) ? std::string(last) : "Fields";
}

}  // namespace

CallTree call_tree(const pt2::TreeSpec& spec, const std::function<CallTree()>& leaf) {
  if (spec.is_leaf()) return leaf();
  CallTree tree{.kind = kind_of(spec)};
  const bool is_keyed = tree.kind == Kind::kDict || tree.kind == Kind::kOrderedDict || tree.kind == Kind::kNamedTuple;
  if (is_keyed && spec.keys.size() != spec.children.size()) {
    fail("a {} has {} keys and {} values", spec.type, spec.keys.size(), spec.children.size());
  }
  if (tree.kind == Kind::kNamedTuple) tree.name = class_name(spec.context);
  for (size_t i = 0; i < spec.children.size(); ++i) {
    if (is_keyed) tree.keys.push_back(spec.keys[i]);
    tree.children.push_back(call_tree(spec.children[i], leaf));
  }
  return tree;
}

std::vector<CallParameter> call_parameters(const pt2::TreeSpec& spec, const std::vector<std::string>& names,
                                           const std::function<CallTree()>& leaf) {
  const bool is_call = spec.children.size() == 2 && spec.children[0].type == "builtins.tuple" &&
                       spec.children[1].type == "builtins.dict";
  if (!is_call) fail("the arguments of a model are a tuple and a dictionary, got '{}'", spec.type);
  const pt2::TreeSpec& positional = spec.children[0];
  const pt2::TreeSpec& keywords = spec.children[1];
  if (keywords.keys.size() != keywords.children.size()) fail("a keyword argument has no name");
  std::vector<CallParameter> parameters;
  for (size_t i = 0; i < positional.children.size(); ++i) {
    parameters.push_back({i < names.size() ? names[i] : "", call_tree(positional.children[i], leaf)});
  }
  for (size_t i = 0; i < keywords.children.size(); ++i) {
    const auto* name = std::get_if<std::string>(&keywords.keys[i]);
    if (name == nullptr) fail("a keyword argument has no name");
    parameters.push_back({*name, call_tree(keywords.children[i], leaf), true});
  }
  return parameters;
}

// ---- notes ----------------------------------------------------------------------------------------------------------

namespace {

CallForm of_tree_specs(const std::string& in_spec, const std::string& out_spec) {
  size_t next = 0;
  const auto leaf = [&] { return CallTree{.kind = Kind::kTensor, .position = next++}; };
  CallForm form{call_parameters(pt2::parse_tree_spec(in_spec), {}, leaf), {}};
  next = 0;
  form.results = call_tree(pt2::parse_tree_spec(out_spec), leaf);
  return form;
}

}  // namespace

Result<std::optional<CallForm>> read_call_form(const std::map<std::string, std::string>& notes, size_t inputs,
                                               size_t outputs, std::optional<size_t> key) {
  return attempt([&]() -> std::optional<CallForm> {
    const auto call = notes.find(kCallNote);
    const auto in_spec = notes.find("in_spec"), out_spec = notes.find("out_spec");
    const bool has_specs = in_spec != notes.end() && out_spec != notes.end();
    if (call == notes.end() && !has_specs) return std::nullopt;
    const std::string name = call != notes.end() ? call->first : "in_spec and out_spec";
    auto form = attempt([&] {
      CallForm read = call != notes.end() ? parse_call_form(call->second).value()
                                          : of_tree_specs(in_spec->second, out_spec->second);
      check_call_form(read, inputs, outputs, key);
      return read;
    });
    if (form.ok()) return std::move(form).value();
    const auto& [message, where] = form.diagnostic();
    fail("the note {}, how the model is called, is malformed: {}{}", name,
         where.known() ? fmt::format("column {}: ", where.column) : "", message);
  });
}

}  // namespace tenon
