// JSON values with the path that leads to them, so that whatever is wrong with one can be said with its place. A thin
// layer over simdjson; nobody outside this folder includes it.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/diagnostic.h"
#include "support/file.h"

namespace tenon::pt2 {

// A value of a document. It must not outlive the document, nor the Json that it was taken from.
class Json {
 public:
  std::string_view string() const;
  int64_t integer() const;
  double real() const;  // a number, or "Infinity", "-Infinity", "NaN", which is how PyTorch stores those
  bool boolean() const;
  bool is_null() const { return value_.is_null(); }
  bool is_string() const { return value_.is_string(); }
  bool is_integer() const { return value_.is<int64_t>(); }
  bool is_list() const { return value_.is_array(); }
  bool is_object() const { return value_.is_object(); }
  std::string text() const { return simdjson::minify(value_); }

  // A member of an object, which must be there; or nothing where it is missing or null. A key that appears twice
  // is an error.
  Json operator[](std::string_view key) const&;
  std::optional<Json> find(std::string_view key) const&;
  Json operator[](std::string_view key) && = delete;  // the path would dangle
  std::optional<Json> find(std::string_view key) && = delete;

  // Body takes (key, value); or one element.
  template <class Body>
  void for_each_member(Body&& body) const;
  template <class Body>
  void for_each_element(Body&& body) const;
  // The list of what `read` makes of each element.
  template <class Read>
  auto list(Read&& read) const -> std::vector<decltype(read(std::declval<Json>()))>;
  // The only member of an object: how the schema stores unions.
  std::pair<std::string_view, Json> only_member() const&;

  // "models/model.json: graph.nodes[3].target: message"
  template <class... Args>
  [[noreturn]] void fail(MessageFor<Args...> format, const Args&... args) const {
    tenon::fail("{}{}", prefix(), fill_in(format, args...));
  }
  // Runs the body; an Error that it throws without a place gets this one.
  template <class Body>
  auto located(Body&& body) const;

 private:
  friend class JsonDocument;
  Json(simdjson::dom::element value, const Json* parent, std::string_view key, size_t index)
      : value_(value), parent_(parent), key_(key), index_(index) {}

  std::string prefix() const;
  void append_path(std::string& text) const;
  [[noreturn]] void expected(std::string_view what) const;
  simdjson::dom::object object() const;
  simdjson::dom::array array() const;

  simdjson::dom::element value_;
  const Json* parent_;    // null: this is the root, and the key names the document
  std::string_view key_;  // empty: this is an element, at the index
  size_t index_;
};

// A parsed text. `name` is how messages call it.
class JsonDocument {
 public:
  // `readable` is how many bytes may be read from the start of the text: with enough behind it, it is not copied.
  JsonDocument(std::string name, std::string_view text, size_t readable);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;
  const Json& root() const { return root_; }

 private:
  simdjson::dom::element parse(std::string_view text, size_t readable);

  std::string name_;
  simdjson::dom::parser parser_;
  Json root_;
};

template <class Body>
void Json::for_each_member(Body&& body) const {
  for (const simdjson::dom::key_value_pair member : object()) {
    body(member.key, Json(member.value, this, member.key, 0));
  }
}

template <class Body>
void Json::for_each_element(Body&& body) const {
  size_t index = 0;
  for (const simdjson::dom::element element : array()) body(Json(element, this, {}, index++));
}

template <class Read>
auto Json::list(Read&& read) const -> std::vector<decltype(read(std::declval<Json>()))> {
  std::vector<decltype(read(std::declval<Json>()))> values;
  values.reserve(array().size());
  for_each_element([&](const Json& element) { values.push_back(read(element)); });
  return values;
}

template <class Body>
auto Json::located(Body&& body) const {
  try {
    return body();
  } catch (const Error& error) {
    fail("{}", error.diagnostic().message);
  }
}

}  // namespace tenon::pt2
