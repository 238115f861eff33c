#include "named/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tenon::named {
namespace {

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// By bits: 0.0 and -0.0 are two constants.
std::string to_text(const loops::Scalar& value) {
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("r{:x}", std::bit_cast<uint64_t>(*real));
  return fmt::format("i{}", std::get<int64_t>(value));
}

// One line for each node, with numbers in order of appearance; then the facts about sizes.
class Description {
 public:
  explicit Description(const Term& output) : output_(output) {}

  std::string run() {
    const std::vector<const Term*> order = in_order(output_);
    for (const Term* node : order) {
      for (const Symbol& dim : node->dims) number(dim);
    }
    std::string text;
    for (const Term* node : order) text += numbered(*node);
    text += fmt::format("write {} {}\n", numbers_.at(&output_), to_text(output_.dims));
    for (const std::string& fact : facts()) text += fact;
    return text;
  }

 private:
  void number(const Symbol& dim) {
    const size_t next = names_.size();
    if (names_.emplace(dim.index_symbol(), symbolic::Symbol(fmt::format("d{}", next))).second) {
      names_.emplace(dim.size_symbol(), symbolic::Symbol(fmt::format("s{}", next)));
    }
  }

  // The line of a node; empty where it reads the same as one before.
  std::string numbered(const Term& node) {
    std::string line = fmt::format("{} {} = {}", name_of(node.dtype), to_text(node.dims),
                                   std::visit([&](const auto& action) { return to_text(node, action); }, node.action));
    for (const TermPtr& input : node.inputs) line += fmt::format(" %{}", numbers_.at(input.get()));
    if (!node.as<InputTerm>()) return numbers_.emplace(&node, lines_++), line + "\n";
    const auto [read, is_new] = reads_.emplace(line, lines_);
    numbers_.emplace(&node, read->second);
    lines_ += is_new ? 1 : 0;
    return is_new ? line + "\n" : "";
  }

  std::string to_text(const std::vector<Symbol>& dims) {
    std::string text;
    for (const Symbol& dim : dims) text += to_text(Expr(dim)) + ",";
    return text;
  }

  std::string to_text(const Expr& expr) {
    std::vector<Symbol> symbols;
    for (symbolic::Symbol part : symbols_of(expr)) {
      if (const auto symbol = symbol_in(part); symbol && !names_.contains(part)) symbols.push_back(*symbol);
    }
    std::ranges::sort(symbols, std::less<>());
    for (const Symbol& symbol : symbols) number(symbol);
    return to_string(substitute(expr, names_));
  }

  std::string to_text(const Term&, const InputTerm& input) {
    return fmt::format("read {}", storages_.emplace(input.storage.get(), storages_.size()).first->second);
  }
  std::string to_text(const Term&, const ConstantTerm& constant) const { return named::to_text(constant.value); }
  std::string to_text(const Term&, const IndexTerm& index) { return "index " + to_text(index.value); }
  std::string to_text(const Term&, const ComputeTerm& compute) const {
    return fmt::format("{}", compute.op->name.get());
  }
  std::string to_text(const Term&, const ReduceTerm& reduce) const {
    return fmt::format("reduce {}", reduce.op->name.get());
  }
  std::string to_text(const Term&, const AliasTerm&) const { return "alias"; }

  std::string to_text(const Term&, const ViewTerm& view) {
    std::string text = "view else " + named::to_text(view.fill);
    for (const ViewLookup& lookup : view.lookups) {
      names_.emplace(lookup.symbol, symbolic::Symbol(fmt::format("l{}", names_.size())));
      text += fmt::format(" with {} = {} in {}", to_text(lookup.symbol), lookup.indices, to_text(lookup.bound));
    }
    for (const ViewPiece& piece : view.pieces) {
      text += fmt::format(" | {}", piece.input);
      for (const Expr& index : piece.index) text += " at " + to_text(index);
      for (const auto& [expr, bound] : piece.where)
        text += fmt::format(" where {} in {}", to_text(expr), to_text(bound));
    }
    return text;
  }

  // Sorted: their order does not matter.
  std::vector<std::string> facts() {
    std::vector<std::string> facts;
    for (const Term* source : output_.sources) {
      for (const auto& [left, right, origin] : source->equations) {
        facts.push_back(fmt::format("{} == {}\n", to_text(left), to_text(right)));
      }
      for (const auto& [dim, index] : source->covers) {
        facts.push_back(fmt::format("{} covers {}\n", to_text(Expr(dim)), to_text(index)));
      }
    }
    std::ranges::sort(facts);
    return facts;
  }

  const Term& output_;
  symbolic::Substitution names_;
  std::map<const Storage*, size_t> storages_;
  std::map<std::string, size_t> reads_;  // numbers of lines
  std::map<const Term*, size_t> numbers_;
  size_t lines_ = 0;
};

}  // namespace

std::string kernel_name(const Term& output) { return fmt::format("lazy_{:016x}", fnv1a(Description(output).run())); }

}  // namespace tenon::named
