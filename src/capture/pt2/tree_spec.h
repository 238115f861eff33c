// Reads how values nest, which PyTorch stores as a JSON text within the JSON.
#pragma once

#include "capture/pt2/json.h"
#include "capture/pt2/pt2.h"

namespace tenon::pt2 {

// `fields` are the field names of each type of named tuple.
TreeSpec tree_spec(const Json& json, const Dictionary<std::vector<std::string>>& fields);
// Of the text alone. Throws an Error.
TreeSpec parse_tree_spec(std::string_view text);

}  // namespace tenon::pt2
