#include "values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "graph/attr.h"
#include "support/diagnostic.h"

namespace tenon::cli {
namespace {

constexpr int64_t kLargestRank = 64;   // NumPy's, and as deep as brackets nest here
constexpr int64_t kShownWhole = 1000;  // a larger tensor is abbreviated
constexpr int64_t kEdge = 3;           // elements shown at each end of an abbreviated dimension
constexpr int kMostDecimals = 8;
constexpr size_t kLineWidth = 100;

void check_rank(const Tensor& tensor) {
  if (tensor.rank() > kLargestRank) fail("a tensor of rank {} cannot be shown", tensor.rank());
}

// ---- one element ----------------------------------------------------------------------------------------------------

struct Digits {
  int count;     // significant
  int exponent;  // of the first one
};

// The fewest digits that denote this value among those of its dtype.
Digits shortest_digits(DType dtype, double value) {
  for (int count = 1;; ++count) {
    const std::string text = fmt::format("{:.{}e}", value, count - 1);
    const bool denotes = round_to(dtype, std::strtod(text.c_str(), nullptr)) == value;
    if (denotes || count == 17) return {count, std::atoi(text.c_str() + text.find('e') + 1)};
  }
}

// How all elements of one tensor are written, so that they align.
class Style {
 public:
  Style(const Tensor& tensor, const std::vector<int64_t>& shown) : tensor_(tensor) {
    if (is_float(tensor.dtype())) choose_decimals(shown);
    for (int64_t at : shown) width_ = std::max(width_, text(at).size());
  }

  std::string padded(int64_t at) const { return fmt::format("{:>{}}", text(at), width_); }
  size_t width() const { return width_; }

 private:
  void choose_decimals(const std::vector<int64_t>& shown) {
    double smallest = HUGE_VAL;
    double largest = 0;
    int after_point = 1;
    int mantissa = 1;
    for (int64_t at : shown) {
      const double value = std::abs(tensor_.real(at));
      if (!std::isfinite(value) || value == 0) continue;
      smallest = std::min(smallest, value);
      largest = std::max(largest, value);
      const Digits digits = shortest_digits(tensor_.dtype(), value);
      mantissa = std::max(mantissa, digits.count - 1);
      after_point = std::max(after_point, digits.count - 1 - digits.exponent);
    }
    scientific_ = largest >= 1e8 || smallest < 1e-4;
    decimals_ = std::min(scientific_ ? mantissa : after_point, kMostDecimals);
  }

  std::string text(int64_t at) const {
    const DType dtype = tensor_.dtype();
    if (dtype == DType::kBool) return tensor_.integer(at) != 0 ? "true" : "false";
    if (is_integral(dtype)) return std::to_string(tensor_.integer(at));
    const double value = tensor_.real(at);
    if (!std::isfinite(value)) return real_to_string(value);
    return scientific_ ? fmt::format("{:.{}e}", value, decimals_) : fmt::format("{:.{}f}", value, decimals_);
  }

  const Tensor& tensor_;
  bool scientific_ = false;
  int decimals_ = 1;
  size_t width_ = 0;
};

// ---- rows and brackets ----------------------------------------------------------------------------------------------

class Layout {
 public:
  explicit Layout(const Tensor& tensor)
      : tensor_(tensor), abbreviated_(tensor.numel() > kShownWhole), style_(tensor, shown_elements()) {}

  std::string text() { return tensor_.numel() == 0 ? "[]" : nested(0, 0); }

 private:
  // The indices shown along a dimension; -1 stands for those left out.
  std::vector<int64_t> shown_indices(int64_t dim) const {
    std::vector<int64_t> indices;
    const int64_t size = tensor_.size(dim);
    const bool cut = abbreviated_ && size > 2 * kEdge;
    for (int64_t i = 0; i < (cut ? kEdge : size); ++i) indices.push_back(i);
    if (!cut) return indices;
    indices.push_back(-1);
    for (int64_t i = size - kEdge; i < size; ++i) indices.push_back(i);
    return indices;
  }

  std::vector<int64_t> shown_elements() const {
    std::vector<int64_t> offsets = {0};
    for (int64_t dim = 0; dim < tensor_.rank(); ++dim) {
      std::vector<int64_t> next;
      for (int64_t offset : offsets) {
        for (int64_t i : shown_indices(dim)) {
          if (i >= 0) next.push_back(offset + i * tensor_.strides()[static_cast<size_t>(dim)]);
        }
      }
      offsets = std::move(next);
    }
    return offsets;
  }

  std::string nested(int64_t dim, int64_t offset) const {
    if (dim == tensor_.rank()) return style_.padded(offset);
    const bool innermost = dim + 1 == tensor_.rank();
    std::string text = "[";
    size_t column = static_cast<size_t>(dim) + 1;
    for (int64_t i : shown_indices(dim)) {
      const bool first = text.size() == 1;
      if (!first) text += innermost ? next_column(dim, column) : next_row(dim);
      text += i < 0 ? "..." : nested(dim + 1, offset + i * tensor_.strides()[static_cast<size_t>(dim)]);
      column += style_.width() + 2;
    }
    return text + "]";
  }

  std::string next_row(int64_t dim) const {
    const int64_t blank_lines = tensor_.rank() - dim - 1;
    return "," + std::string(static_cast<size_t>(blank_lines), '\n') + std::string(static_cast<size_t>(dim) + 1, ' ');
  }

  std::string next_column(int64_t dim, size_t& column) const {
    if (column + style_.width() <= kLineWidth) return ", ";
    column = static_cast<size_t>(dim) + 1;
    return ",\n" + std::string(column, ' ');
  }

  const Tensor& tensor_;
  bool abbreviated_;
  Style style_;
};

// ---- JSON -----------------------------------------------------------------------------------------------------------

std::string json_element(const Tensor& tensor, int64_t at) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::kBool) return tensor.integer(at) != 0 ? "true" : "false";
  if (is_integral(dtype)) return std::to_string(tensor.integer(at));
  const double value = tensor.real(at);
  if (!std::isfinite(value)) return "\"" + real_to_string(value) + "\"";
  if (dtype == DType::kF64) return real_to_string(value);
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value)).ptr;
  const std::string text(buffer, end);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;  // so that -0.0 keeps its sign
}

std::string json_nested(const Tensor& tensor, int64_t dim, int64_t offset) {
  if (dim == tensor.rank()) return json_element(tensor, offset);
  std::string text = "[";
  for (int64_t i = 0; i < tensor.size(dim); ++i) {
    if (i > 0) text += ", ";
    text += json_nested(tensor, dim + 1, offset + i * tensor.strides()[static_cast<size_t>(dim)]);
  }
  return text + "]";
}

}  // namespace

std::string format_values(const Tensor& tensor) {
  check_rank(tensor);
  return Layout(tensor).text();
}

std::string json_values(const Tensor& tensor) {
  check_rank(tensor);
  return json_nested(tensor, 0, 0);
}

}  // namespace tenon::cli
