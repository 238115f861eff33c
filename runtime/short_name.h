// A name inside of a record, for constant tables. A pointer to text would be 24 bytes more in the library, and work
// each time it is loaded: the address is known only then.
#pragma once

#include <cstddef>
#include <string_view>

namespace tenon::runtime {

template <size_t kMost>
class ShortName {
 public:
  // A longer text does not compile.
  consteval ShortName(const char* text) {  // NOLINT: tables state names as texts
    for (size_t i = 0; text[i] != 0; ++i) text_[i] = text[i];
  }
  constexpr operator std::string_view() const {  // NOLINT: it is one
    const std::string_view all(text_, kMost);
    return all.substr(0, all.find('\0'));
  }
  bool operator==(const ShortName&) const = default;
  friend bool operator==(const ShortName& a, std::string_view b) { return std::string_view(a) == b; }

 private:
  char text_[kMost] = {};
};

}  // namespace tenon::runtime
