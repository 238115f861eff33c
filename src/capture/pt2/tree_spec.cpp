#include "capture/pt2/tree_spec.h"

namespace tenon::pt2 {
namespace {

using Fields = Dictionary<std::vector<std::string>>;

constexpr int64_t kProtocol = 1;

using Keys = std::vector<TreeSpec::Key>;

TreeSpec::Key key_in(const Json& key) {
  if (key.is_integer()) return key.integer();
  return key.is_string() ? std::string(key.string()) : key.text();
}

Keys keys_in(const Json& list) {
  return list.list([](const Json& key) { return key_in(key); });
}

// A context is what the type needs to be made again: for a dict its keys, as a JSON text; for a default dict they are
// within an object; for a named tuple its name. Types of the user's own may store anything.
Keys keys_of(const Json& context, const Fields& fields) {
  if (context.is_object()) {
    const auto keys = context.find("dict_context");
    return keys && keys->is_list() ? keys_in(*keys) : Keys();
  }
  if (!context.is_string()) return {};
  const std::string_view text = context.string();
  if (const auto named = fields.find(text); named != fields.end()) return {named->second.begin(), named->second.end()};
  if (!text.starts_with('[')) return {};
  const JsonDocument document("context", text, text.size());
  return keys_in(document.root());
}

TreeSpec node(const Json& json, const Fields& fields) {
  TreeSpec spec;
  if (const auto type = json.find("type")) spec.type = type->string();
  spec.children = json["children_spec"].list([&](const Json& child) { return node(child, fields); });
  if (spec.is_leaf() && !spec.children.empty()) json.fail("a leaf has {} children", spec.children.size());
  const auto context = json.find("context");
  if (!context) return spec;
  spec.context = context->is_string() ? std::string(context->string()) : context->text();
  spec.keys = json.located([&] { return keys_of(*context, fields); });
  if (spec.keys.size() != spec.children.size()) spec.keys.clear();
  return spec;
}

TreeSpec parsed(std::string_view text, const Fields& fields) {
  const JsonDocument document("tree spec", text, text.size());
  const auto elements = document.root().list([](const Json& element) { return element; });
  if (elements.size() != 2) fail("expected a version and a tree, got {} values", elements.size());
  const int64_t protocol = elements[0].integer();
  if (protocol != kProtocol) fail("version {} of tree specs is not known here", protocol);
  return node(elements[1], fields);
}

}  // namespace

size_t TreeSpec::leaf_count() const {
  size_t count = is_leaf() ? 1 : 0;
  for (const TreeSpec& child : children) count += child.leaf_count();
  return count;
}

TreeSpec tree_spec(const Json& json, const Fields& fields) {
  return json.located([&] { return parsed(json.string(), fields); });
}

TreeSpec parse_tree_spec(std::string_view text) { return parsed(text, {}); }

}  // namespace tenon::pt2
