#include "capture/pt2/json.h"

#include <fmt/format.h>

#include <limits>

namespace tenon::pt2 {
namespace {

constexpr size_t kDeepest = 256;  // the readers recurse

std::string_view kind_of(simdjson::dom::element value) {
  switch (value.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "a list";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::INT64:
      return "an integer";
    case simdjson::dom::element_type::UINT64:
      return "an integer that does not fit 64 bits";
    case simdjson::dom::element_type::DOUBLE:
      return "a fraction";
    case simdjson::dom::element_type::STRING:
      return "a string";
    case simdjson::dom::element_type::BOOL:
      return "a bool";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
  }
  return "something else";
}

}  // namespace

void Json::expected(std::string_view what) const { fail("expected {}, got {}", what, kind_of(value_)); }

std::string_view Json::string() const {
  std::string_view text;
  if (value_.get(text) != simdjson::SUCCESS) expected("a string");
  return text;
}

int64_t Json::integer() const {
  if (!value_.is<int64_t>()) expected("an integer");
  return value_.get_int64().value_unsafe();
}

double Json::real() const {
  if (value_.is_string()) {
    const std::string_view text = string();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  double number = 0;
  if (value_.get(number) != simdjson::SUCCESS) expected("a number");
  return number;
}

bool Json::boolean() const {
  bool flag = false;
  if (value_.get(flag) != simdjson::SUCCESS) expected("a bool");
  return flag;
}

simdjson::dom::object Json::object() const {
  simdjson::dom::object object;
  if (value_.get(object) != simdjson::SUCCESS) expected("an object");
  return object;
}

simdjson::dom::array Json::array() const {
  simdjson::dom::array array;
  if (value_.get(array) != simdjson::SUCCESS) expected("a list");
  return array;
}

std::optional<Json> Json::find(std::string_view key) const& {
  std::optional<Json> found;
  for_each_member([&](std::string_view name, const Json& value) {
    if (name != key) return;
    if (found) fail("'{}' appears twice", key);
    found = value;
  });
  if (found && found->is_null()) return std::nullopt;
  return found;
}

Json Json::operator[](std::string_view key) const& {
  if (const std::optional<Json> found = find(key)) return *found;
  fail("'{}' is missing", key);
}

std::pair<std::string_view, Json> Json::only_member() const& {
  const simdjson::dom::object members = object();
  if (members.size() != 1) fail("expected one of several kinds of value, got {} at once", members.size());
  const simdjson::dom::key_value_pair member = *members.begin();
  return {member.key, Json(member.value, this, member.key, 0)};
}

void Json::append_path(std::string& text) const {
  if (parent_ == nullptr) return;
  parent_->append_path(text);
  if (key_.empty()) {
    text += fmt::format("[{}]", index_);
  } else {
    text += fmt::format("{}{}", text.empty() ? "" : ".", key_);
  }
}

std::string Json::prefix() const {
  const Json* root = this;
  while (root->parent_ != nullptr) root = root->parent_;
  std::string path;
  append_path(path);
  return fmt::format("{}: {}{}", root->key_, path, path.empty() ? "" : ": ");
}

JsonDocument::JsonDocument(std::string name, std::string_view text, size_t readable)
    : name_(std::move(name)), root_(parse(text, readable), nullptr, name_, 0) {}

simdjson::dom::element JsonDocument::parse(std::string_view text, size_t readable) {
  const bool copies = readable < text.size() + simdjson::SIMDJSON_PADDING;
  const size_t capacity = std::max<size_t>(text.size(), 64);
  if (parser_.allocate(capacity, kDeepest) != simdjson::SUCCESS) fail("{}: {} bytes are too many", name_, text.size());
  simdjson::dom::element root;
  const auto error = parser_.parse(text.data(), text.size(), copies).get(root);
  if (error == simdjson::DEPTH_ERROR) fail("{}: it nests deeper than {} levels", name_, kDeepest);
  if (error != simdjson::SUCCESS) fail("{}: malformed JSON: {}", name_, simdjson::error_message(error));
  return root;
}

}  // namespace tenon::pt2
