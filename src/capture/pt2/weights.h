// The tensors of an archive, borrowed from it.
#pragma once

#include "capture/pt2/archive.h"
#include "capture/pt2/pt2.h"

namespace tenon::pt2 {

// Of the program `model`.
Dictionary<Weight> read_weights(const Archive& archive, const std::string& model);
Dictionary<Weight> read_constants(const Archive& archive, const std::string& model);

}  // namespace tenon::pt2
