// Small helpers for messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tenon {

// "; did you mean 'softmax'?" when a candidate is close to `wrong`, else nothing.
std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> candidates);

}  // namespace tenon
