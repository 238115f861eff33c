#include "capture/aten/einsum.h"

#include <algorithm>

namespace tenon::aten {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool has(std::string_view letters, char letter) { return letters.find(letter) != letters.npos; }

// A tensor with a letter for each dimension.
struct Term {
  Value value;
  std::string letters;
};

struct Equation {
  std::vector<std::string> operands;
  std::string out;
};

std::string without_spaces(std::string_view text) {
  std::string result;
  std::ranges::copy_if(text, std::back_inserter(result), [](char c) { return c != ' '; });
  return result;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Without a result given: the dimensions of "...", then the letters that occur once, in order.
std::string implied_result(const std::string& operands) {
  std::string result = operands.find("...") == std::string::npos ? "" : "...";
  for (char letter : kLetters) {
    if (std::ranges::count(operands, letter) == 1) result += letter;
  }
  std::ranges::sort(result.begin() + (result.starts_with("...") ? 3 : 0), result.end());
  return result;
}

// Letters for "...", which stands for the last of `spare` as it has dimensions.
std::string with_ellipsis(const std::string& letters, int64_t rank, const std::string& spare) {
  const size_t at = letters.find("...");
  if (at == std::string::npos) return letters;
  const int64_t count = rank - (std::ssize(letters) - 3);
  if (count < 0 || count > std::ssize(spare)) fail("einsum: \"{}\" does not name {} dimensions", letters, rank);
  return letters.substr(0, at) + spare.substr(spare.size() - static_cast<size_t>(count)) + letters.substr(at + 3);
}

int64_t ellipsis_rank(const std::string& letters, int64_t rank) {
  return letters.find("...") == std::string::npos ? 0 : rank - (std::ssize(letters) - 3);
}

Equation parse(std::string_view equation, const std::vector<Value>& tensors) {
  const std::string text = without_spaces(equation);
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation result{split_at_commas(left), arrow == std::string::npos ? implied_result(left) : text.substr(arrow + 2)};
  if (result.operands.size() != tensors.size()) {
    fail("einsum: \"{}\" has {} operands, got {}", equation, result.operands.size(), tensors.size());
  }
  int64_t widest = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    widest = std::max(widest, ellipsis_rank(result.operands[i], tensors[i].rank()));
  }
  std::string spare;
  for (char letter : kLetters) {
    if (!has(text, letter) && std::ssize(spare) < widest) spare += letter;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    result.operands[i] = with_ellipsis(result.operands[i], tensors[i].rank(), spare);
    if (std::ssize(result.operands[i]) != tensors[i].rank()) {
      fail("einsum: \"{}\" does not name the dimensions of {}", equation, to_string(tensors[i].type()));
    }
  }
  if (result.out.find("...") != std::string::npos) {
    result.out = with_ellipsis(result.out, std::ssize(result.out) - 3 + widest, spare);
  }
  return result;
}

// A letter that appears twice in one term is a diagonal.
Term with_diagonals(Builder& b, Term term) {
  for (size_t i = 0; i < term.letters.size(); ++i) {
    const char letter = term.letters[i];
    const size_t again = term.letters.find(letter, i + 1);
    if (again == std::string::npos) continue;
    term.value = b.op("diagonal", {term.value},
                      {{"dim1", static_cast<int64_t>(i)}, {"dim2", static_cast<int64_t>(again)}});
    term.letters.erase(again, 1);
    term.letters.erase(i, 1);
    term.letters += letter;
    return with_diagonals(b, std::move(term));
  }
  return term;
}

// Drops dimensions of size 1 whose letter has a larger size elsewhere: they broadcast.
Term without_stretched(Builder& b, Term term, const std::vector<Term>& all) {
  const auto stretches = [&](char letter) {
    return std::ranges::any_of(all, [&](const Term& other) {
      const size_t dim = other.letters.find(letter);
      return dim != std::string::npos && !other.value.shape()[dim].is_constant(1);
    });
  };
  for (size_t dim = term.letters.size(); dim-- > 0;) {
    if (!term.value.shape()[dim].is_constant(1) || !stretches(term.letters[dim])) continue;
    term.value = b.squeeze(term.value, static_cast<int64_t>(dim));
    term.letters.erase(dim, 1);
  }
  return term;
}

// Sums over the letters that nothing else needs.
Term summed(Builder& b, Term term, std::string_view needed) {
  std::vector<int64_t> dims;
  std::string kept;
  for (size_t dim = 0; dim < term.letters.size(); ++dim) {
    if (has(needed, term.letters[dim])) {
      kept += term.letters[dim];
    } else {
      dims.push_back(static_cast<int64_t>(dim));
    }
  }
  const DType dtype = term.value.dtype();
  if (!dims.empty()) term.value = b.cast(b.sum(term.value, std::move(dims)), dtype);
  return {term.value, kept};
}

Term multiplied(Builder& b, const Term& x, const Term& y, std::string_view needed) {
  std::string letters;
  for (char letter : x.letters + y.letters) {
    if (has(needed, letter) && !has(letters, letter)) letters += letter;
  }
  return {b.contract(x.value, y.value, x.letters + "," + y.letters + "->" + letters), letters};
}

Value arranged(Builder& b, const Term& term, const std::string& out) {
  std::vector<int64_t> order;
  for (char letter : out) {
    const size_t dim = term.letters.find(letter);
    if (dim == std::string::npos) fail("einsum: '{}' of the result is a dimension of no operand", letter);
    order.push_back(static_cast<int64_t>(dim));
  }
  return std::ranges::is_sorted(order) ? term.value : b.permute(term.value, std::move(order));
}

// The letters that the result and the terms from `first` on have. For the last product they are those of the result, in
// its order.
std::string needed_after(const std::vector<Term>& terms, size_t first, const std::string& out) {
  std::string needed = out;
  for (size_t i = first; i < terms.size(); ++i) needed += terms[i].letters;
  return needed;
}

}  // namespace

Value einsum(AtenCall& c, std::string_view equation, std::vector<Value> tensors) {
  const Equation parsed = parse(equation, tensors);
  std::vector<Term> terms;
  for (size_t i = 0; i < tensors.size(); ++i) terms.push_back(with_diagonals(c, {tensors[i], parsed.operands[i]}));
  const std::vector<Term> all = terms;
  for (Term& term : terms) term = without_stretched(c, term, all);
  for (size_t i = 0; i < terms.size(); ++i) {
    std::vector<Term> others = terms;
    others.erase(others.begin() + static_cast<int64_t>(i));
    terms[i] = summed(c, terms[i], needed_after(others, 0, parsed.out));
  }
  Term result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    result = multiplied(c, result, terms[i], needed_after(terms, i + 1, parsed.out));
  }
  return arranged(c, result, parsed.out);
}

Value tensordot(AtenCall& c, Value a, Value b, std::vector<int64_t> a_dims, std::vector<int64_t> b_dims) {
  if (a_dims.size() != b_dims.size()) {
    fail("tensordot: {} dimensions of one tensor meet {} of the other", a_dims.size(), b_dims.size());
  }
  std::string left(kLetters.substr(0, a.shape().size()));
  std::string right(kLetters.substr(a.shape().size(), b.shape().size()));
  for (size_t i = 0; i < a_dims.size(); ++i) {
    right[static_cast<size_t>(normalize_dim(b_dims[i], b.rank()))] =
        left[static_cast<size_t>(normalize_dim(a_dims[i], a.rank()))];
  }
  std::string out;
  for (char letter : left) out += has(right, letter) ? "" : std::string(1, letter);
  for (char letter : right) out += has(left, letter) ? "" : std::string(1, letter);
  return einsum(c, left + "," + right + "->" + out, {a, b});
}

}  // namespace tenon::aten
