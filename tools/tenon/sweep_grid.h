// The options of a device that `tenon device sweep` goes through.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::cli {

struct SweepAxis {
  std::string option;
  std::vector<std::string> values;
};

// "size=8,16;dma_bytes=8,16". Throws an Error that says what is wrong.
std::vector<SweepAxis> parse_grid(const std::string& text);

using SweepOptions = std::vector<std::pair<std::string, std::string>>;  // option, value

// All combinations, the last axis first. Throws an Error if there are too many.
std::vector<SweepOptions> points_of(const std::vector<SweepAxis>& grid);

// "atalla:body=cycles" with the options of a point added. Throws an Error if the device has one of them already.
std::string spec_at(const std::string& device, const SweepOptions& options);

}  // namespace tenon::cli
