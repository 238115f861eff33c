#include <algorithm>

#include "runtime/cpu_features.h"

namespace tenon::runtime {

bool has_level(int level) {
  static constexpr const char* k3 = "cx16,sahf,popcnt,sse4.2,avx,avx2,bmi,bmi2,f16c,fma,lzcnt,movbe";
  static constexpr const char* k4 = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl";
  return missing_features(k3).empty() && (level < 4 || missing_features(k4).empty());
}

std::vector<std::string> missing_features(std::string_view features) {
  std::vector<std::string> missing;
  for (size_t begin = 0; begin < features.size();) {
    const size_t end = std::min(features.find(',', begin), features.size());
    std::string_view name = features.substr(begin, end - begin);
    begin = end + 1;
    if (name.starts_with('-')) continue;
    if (name.starts_with('+')) name.remove_prefix(1);
    if (!has_feature(name)) missing.emplace_back(name);
  }
  return missing;
}

}  // namespace tenon::runtime
