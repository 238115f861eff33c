#include "support/message.h"

#include <fmt/format.h>

namespace tenon {

std::string fill_in_texts(std::string_view text, std::initializer_list<std::string> values) {
  std::string result;
  const std::string* value = values.begin();
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_value = text[i] == '{' && i + 1 < text.size() && text[i + 1] == '}';
    if (is_value) {
      result += *value++;
    } else {
      result += text[i];
    }
    if (text[i] == '{' || text[i] == '}') ++i;
  }
  return result;
}

std::string real_text(double value) { return fmt::format("{}", value); }
std::string real_text(float value) { return fmt::format("{}", value); }

}  // namespace tenon
