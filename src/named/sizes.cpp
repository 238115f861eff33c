#include "named/sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/type.h"
#include "loops/box.h"

namespace tenon::named {
namespace {

using symbolic::SymbolicEquation;

bool are_constant(const Expr& a, const Expr& b) { return a.is_constant() && b.is_constant(); }

class SizeSolver {
 public:
  SizeSolver(const Term& node, const std::set<const Storage*>& open) {
    for (const Term* source : node.sources) {
      collect_data(*source, open);
      open_.insert(open_.end(), source->equations.begin(), source->equations.end());
      covers_.insert(covers_.end(), source->covers.begin(), source->covers.end());
      for (const SymbolicEquation& equation : source->equations) add_symbols(equation.left, wholes_);
      for (const SymbolicEquation& equation : source->equations) add_symbols(equation.right, parts_);
      const auto* input = source->as<InputTerm>();
      if (!input) continue;
      for (const Symbol& dim : source->dims) {
        (open.contains(input->storage.get()) ? fed_ : inputs_).push_back(dim.size_symbol());
      }
    }
  }

  Sizes run() {
    do {
      while (settle_equations()) {
      }
    } while (free_first(fed_, false) || settle_covers() || free_one());
    for (const Cover& cover : covers_) check_cover(cover);
    return std::move(sizes_);
  }

 private:
  using SizeSymbol = symbolic::Symbol;

  void collect_data(const Term& node, const std::set<const Storage*>& open) {
    const auto* input = node.as<InputTerm>();
    if (!input || open.contains(input->storage.get())) return;
    const tenon::Tensor data = input->storage->data();
    if (!data.defined()) return;
    for (size_t i = 0; i < node.dims.size(); ++i) {
      std::string origin =
          fmt::format("dimension {} of the data {} over {}", i, to_string(type_of(data)), list(node.dims));
      open_.push_back({node.dims[i].size(), data.size(static_cast<int64_t>(i)), std::move(origin)});
    }
  }

  static void add_symbols(const Expr& expr, std::vector<SizeSymbol>& to) {
    for (SizeSymbol symbol : symbols_of(expr)) to.push_back(symbol);
  }

  // ---- equations ----

  bool settle_equations() {
    const size_t before = open_.size();
    std::erase_if(open_, [&](const SymbolicEquation& equation) { return settle(equation); });
    return open_.size() != before;
  }

  bool settle(const SymbolicEquation& equation) {
    const Expr left = sizes_.substituted(equation.left), right = sizes_.substituted(equation.right);
    const std::vector<SizeSymbol> unknown = unknowns_of(left - right);
    if (unknown.empty()) return require_equal(equation, left, right), true;
    if (unknown.size() > 1) return false;
    const SymbolicEquation known{left, right, equation.origin};
    const auto solved = solve_for(std::span(&known, 1), unknown);
    if (solved) return bind(unknown[0], solved->at(unknown[0]), equation.origin), true;
    return bind_quotient(known, unknown[0]);
  }

  // slope*symbol == offset: a condition checks that the data gives an integer.
  bool bind_quotient(const SymbolicEquation& equation, SizeSymbol symbol) {
    const Expr difference = equation.right - equation.left;
    const Result<Expr> slope = differentiate(difference, symbol);
    if (!slope) return false;
    const Expr offset = -*intercept(difference, symbol);
    if (are_constant(*slope, offset)) {
      fail("{}: {} == {} has no solution for the size of {}", equation.origin, shown(equation.left),
           shown(equation.right), symbol_in(symbol)->name());
    }
    sizes_.conditions.push_back({mod(offset, *slope), 1, equation.origin});
    return bind(symbol, floordiv(offset, *slope), equation.origin), true;
  }

  void require_equal(const SymbolicEquation& equation, const Expr& left, const Expr& right) {
    if (left == right) return;
    if (!are_constant(left, right)) return sizes_.conditions.push_back({ne(left, right), 1, equation.origin});
    const std::optional<Symbol> symbol =
        equation.left.kind() == symbolic::Kind::kSymbol ? symbol_in(equation.left.symbol()) : std::nullopt;
    if (!symbol) fail("{}: {} is {}, not {}", equation.origin, shown(equation.left), shown(left), shown(right));
    fail("{} has the size {} from {}, and the size {} from {}", symbol->name(), shown(left),
         origins_.at(symbol->size_symbol()), shown(right), equation.origin);
  }

  std::vector<SizeSymbol> unknowns_of(const Expr& expr) const {
    std::vector<SizeSymbol> symbols = symbols_of(expr);
    std::erase_if(symbols, [&](SizeSymbol symbol) { return sizes_.values.contains(symbol); });
    return symbols;
  }

  void bind(SizeSymbol symbol, const Expr& value, const std::string& origin) {
    if (value.is_constant() && value.constant() < 0) {
      fail("{}: the size of {} would be {}", origin, symbol_in(symbol)->name(), value);
    }
    sizes_.values.emplace(symbol, value);
    origins_.emplace(symbol, origin);
  }

  // ---- indices ----

  // A cover with known sizes replaced, and the dimensions of its index whose size is unknown.
  struct Known {
    Expr index;
    std::vector<Symbol> unsized;
    bool has_unknown_offset;
    loops::Box box;
  };

  Known known(const Cover& cover) const {
    Known result{sizes_.substituted(cover.index), {}, false, loops::Box(ranges_of_free())};
    for (SizeSymbol part : symbols_of(result.index)) {
      const Symbol symbol = *symbol_in(part);
      if (part == symbol.size_symbol()) {
        result.has_unknown_offset = result.has_unknown_offset || !sizes_.values.contains(part);
      } else if (sizes_.values.contains(symbol.size_symbol())) {
        result.box.add(part, 0, sizes_.of(symbol) - 1);
      } else {
        result.unsized.push_back(symbol);
      }
    }
    return result;
  }

  symbolic::Ranges ranges_of_free() const {
    symbolic::Ranges ranges;
    for (const auto& [symbol, value] : sizes_.values) {
      if (value == Expr(symbol)) ranges.emplace(symbol, symbolic::Interval::at_least(0));
    }
    return ranges;
  }

  // Infers one size: the largest size of an index that stays inside, or the smallest size of an indexed dimension.
  bool settle_covers() {
    for (const Cover& cover : covers_) {
      const Known here = known(cover);
      if (here.has_unknown_offset || here.unsized.size() > 1) continue;
      const bool is_dim_known = sizes_.values.contains(cover.dim.size_symbol());
      if (is_dim_known && here.unsized.size() == 1 && bind_index(here.unsized[0])) return true;
      if (!is_dim_known && here.unsized.empty() && bind_dim(cover.dim)) return true;
    }
    return false;
  }

  bool bind_index(const Symbol& symbol) {
    std::optional<Expr> size;
    std::string origin;
    for (const Cover& cover : covers_) {
      const std::optional<Expr> limit = largest_size(cover, symbol);
      if (!limit) continue;
      size = size ? min(*size, *limit) : *limit;
      origin = fmt::format("the index {} of {}", shown(cover.index), cover.dim.name());
    }
    if (size) bind(symbol.size_symbol(), *size, origin);
    return size.has_value();
  }

  std::optional<Expr> largest_size(const Cover& cover, const Symbol& symbol) const {
    const Known here = known(cover);
    const bool is_only_unknown = here.unsized.size() == 1 && here.unsized[0] == symbol && !here.has_unknown_offset;
    if (!is_only_unknown || !sizes_.values.contains(cover.dim.size_symbol())) return {};
    const Result<Expr> slope = differentiate(here.index, symbol.index_symbol());
    if (!slope || !slope->is_constant() || slope->is_constant(0)) return {};
    const Expr rest = *intercept(here.index, symbol.index_symbol());
    const bool rises = slope->constant() > 0;
    const std::optional<Expr> extreme = rises ? here.box.highest(rest) : here.box.lowest(rest);
    if (!extreme) return {};
    const Expr room = rises ? sizes_.of(cover.dim) - 1 - *extreme : *extreme;
    return floordiv(room, rises ? *slope : -*slope) + 1;
  }

  bool bind_dim(const Symbol& dim) {
    std::optional<Expr> size;
    std::string origin;
    for (const Cover& cover : covers_) {
      const Known here = known(cover);
      if (cover.dim != dim || here.has_unknown_offset || !here.unsized.empty()) continue;
      const std::optional<Expr> last = here.box.highest(here.index);
      if (!last) continue;
      size = size ? max(*size, *last + 1) : *last + 1;
      origin = fmt::format("the index {} of {}", shown(cover.index), dim.name());
    }
    if (size) bind(dim.size_symbol(), *size, origin);
    return size.has_value();
  }

  void check_cover(const Cover& cover) {
    const Known here = known(cover);
    if (here.has_unknown_offset || !here.unsized.empty()) return;
    if (is_empty(here.index)) return;
    const Expr bound = sizes_.of(cover.dim);
    if (here.box.contains({here.index, bound})) return;
    const std::optional<Expr> low = here.box.lowest(here.index), high = here.box.highest(here.index);
    if (!low || !high) {
      fail("the index {} of {} may be outside of its size {}: read it with at(), which says what is there",
           shown(cover.index), cover.dim.name(), shown(bound));
    }
    if (low->is_constant() && low->constant() < 0) fail_outside(cover, *low, bound);
    if (are_constant(*high, bound)) fail_outside(cover, *high, bound);
    const std::string origin = fmt::format("the index {} of {}", shown(cover.index), cover.dim.name());
    sizes_.conditions.push_back({*low, bound, origin});
    sizes_.conditions.push_back({*high, bound, origin});
  }

  bool is_empty(const Expr& index) const {
    return std::ranges::any_of(dims_of(index), [&](const Symbol& dim) { return sizes_.of(dim).is_constant(0); });
  }

  [[noreturn]] void fail_outside(const Cover& cover, const Expr& reached, const Expr& bound) const {
    std::string where;
    for (const Symbol& dim : dims_of(cover.index)) {
      where += fmt::format("{} {} of size {}", where.empty() ? ", with" : " and", dim.name(), shown(sizes_.of(dim)));
    }
    fail("the index {} of {} reaches {}, outside of its size {}{}: pad it, read it with at(), or use smaller sizes",
         shown(cover.index), cover.dim.name(), shown(reached), shown(bound), where);
  }

  // ---- sizes that come from the data ----

  // Leaves one more size to the data: preferably the size of a part instead of the whole, and of an input.
  bool free_one() {
    return free_first(inputs_, false) || free_first(parts_, false) || free_first(inputs_, true) ||
           free_first(fed_, true) || free_first(parts_, true) || free_first(wholes_, true) || free_index();
  }

  bool free_first(const std::vector<SizeSymbol>& symbols, bool wholes) {
    for (SizeSymbol symbol : symbols) {
      const bool is_whole = std::ranges::find(wholes_, symbol) != wholes_.end();
      if (sizes_.values.contains(symbol) || is_whole != wholes) continue;
      bind(symbol, symbol, "an input");
      return true;
    }
    return false;
  }

  bool free_index() {
    for (const Cover& cover : covers_) {
      for (const Symbol& dim : dims_of(cover.index)) {
        if (sizes_.values.contains(dim.size_symbol())) continue;
        bind(dim.size_symbol(), dim.size(), "an index");
        return true;
      }
    }
    return false;
  }

  std::vector<SymbolicEquation> open_;
  std::vector<Cover> covers_;
  std::vector<SizeSymbol> wholes_;
  std::vector<SizeSymbol> parts_;
  std::vector<SizeSymbol> inputs_;
  std::vector<SizeSymbol> fed_;
  Sizes sizes_;
  std::map<SizeSymbol, std::string> origins_;
};

}  // namespace

Expr Sizes::of(const Symbol& symbol) const {
  const auto found = values.find(symbol.size_symbol());
  return found == values.end() ? symbol.size() : found->second;
}

Sizes solve_sizes(const Term& node, const std::set<const Storage*>& open) { return SizeSolver(node, open).run(); }

}  // namespace tenon::named
