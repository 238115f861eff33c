// Quantities as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "symbolic/expr.h"

namespace tenon::cli {

std::string bytes_text(int64_t bytes);       // "1.5 MiB"
std::string time_text(double nanoseconds);   // "12.3 us"
int64_t parse_bytes(std::string_view text);  // of --budget: "64MiB", "1.5GB" or "1000"; throws an Error

// What "--budget 64MiB" and "--budget npu=64MiB" say. Throws an Error.
struct Budgets {
  std::optional<int64_t> host;
  std::vector<std::pair<std::string, int64_t>> devices;
};
Budgets parse_budgets(const std::vector<std::string>& arguments);

std::vector<std::string> split_commas(const std::string& text);

// Of "--size N=64" arguments. Throws an Error.
symbolic::Bindings parse_sizes(const std::vector<std::string>& arguments);

}  // namespace tenon::cli
