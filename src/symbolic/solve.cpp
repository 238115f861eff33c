// Binds symbols from equations. The Solver keeps `difference == 0` for each equation, and binds the last open unknown
// of an equation.
#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "support/text.h"
#include "symbolic/format.h"

namespace tenon::symbolic {
namespace {

using Constraint = SymbolicEquation;

std::string text_of(const Constraint& constraint) { return fmt::format("{} == {}", constraint.left, constraint.right); }

class Solver {
 public:
  Solver(std::vector<Constraint> constraints, std::set<Symbol> unknowns, const Ranges& ranges)
      : constraints_(std::move(constraints)), unknowns_(std::move(unknowns)), ranges_(ranges) {
    for (size_t i = 0; i < constraints_.size(); ++i) ready_.insert(ready_.end(), i);
  }

  // Takes constraints in order, round after round. A waiting constraint is ready again when one of its unknowns is
  // bound.
  Substitution solve() {
    std::set<size_t> waiting;
    for (size_t from = 0; !ready_.empty();) {
      const auto next = ready_.lower_bound(from);
      if (next == ready_.end()) {
        from = 0;
        continue;
      }
      const size_t constraint = *next;
      ready_.erase(next);
      from = constraint + 1;
      if (settle(constraints_[constraint])) {
        waiting.erase(constraint);
      } else {
        waiting.insert(constraint);
        wait(constraint);
      }
    }
    if (!waiting.empty()) fail_undetermined(constraints_[*waiting.begin()]);
    return std::move(solution_);
  }

 private:
  // Uses the constraint to bind an unknown, or checks it if there is none. False if several unknowns are open.
  bool settle(const Constraint& constraint) {
    const Expr difference = located(constraint, [&] { return difference_of(constraint); });
    const std::vector<Symbol> open = open_unknowns(difference);
    if (open.empty()) return require_zero(constraint, difference), true;
    if (open.size() > 1) return false;
    const Result<Expr> slope = differentiate(difference, open[0]);
    if (!slope) return false;
    bind(constraint, open[0], *slope, *intercept(difference, open[0]));
    return true;
  }

  void wait(size_t constraint) {
    for (Symbol symbol : open_unknowns(difference_of(constraints_[constraint])))
      waiting_for_[symbol].push_back(constraint);
  }

  Expr difference_of(const Constraint& constraint) const {
    return substitute(constraint.left, solution_) - substitute(constraint.right, solution_);
  }

  std::vector<Symbol> open_unknowns(const Expr& expr) const {
    std::vector<Symbol> open = symbols_of(expr);
    std::erase_if(open, [&](Symbol symbol) { return !unknowns_.contains(symbol); });
    return open;
  }

  // slope*symbol + offset == 0
  void bind(const Constraint& constraint, Symbol symbol, const Expr& slope, const Expr& offset) {
    const Expr quotient = located(constraint, [&] { return floordiv(-offset, slope); });
    if (quotient * slope != -offset) {
      fail("{}: {} has no integer solution for {}{}", constraint.origin, text_of(constraint), symbol.name(),
           values_of(constraint));
    }
    const auto range = ranges_.find(symbol);
    if (range != ranges_.end() && quotient.is_constant() && !range->second.contains(quotient.constant())) {
      fail("{}: {} gives {} = {}, which is outside its range {}", constraint.origin, text_of(constraint), symbol.name(),
           quotient, to_string(range->second));
    }
    unknowns_.erase(symbol);
    solution_.emplace(symbol, quotient);
    origins_.emplace(symbol, constraint.origin);
    for (size_t waiting : std::exchange(waiting_for_[symbol], {})) ready_.insert(waiting);
  }

  void require_zero(const Constraint& constraint, const Expr& difference) const {
    if (difference.is_constant(0)) return;
    const bool is_false = difference.is_constant();
    fail("{}: {} {}{}", constraint.origin, text_of(constraint), is_false ? "is false" : "does not follow",
         values_of(constraint));
  }

  // ", where s0 = 3 from dimension 0 of input x"
  std::string values_of(const Constraint& constraint) const {
    std::string text;
    for (const auto& [symbol, value] : solution_) {
      if (!depends_on(constraint.left, symbol) && !depends_on(constraint.right, symbol)) continue;
      text +=
          fmt::format("{} {} = {} from {}", text.empty() ? ", where" : ",", symbol.name(), value, origins_.at(symbol));
    }
    return text;
  }

  [[noreturn]] void fail_undetermined(const Constraint& constraint) const {
    const std::vector<Symbol> open = open_unknowns(difference_of(constraint));
    const std::string names = join(open, ", ", [](Symbol symbol) { return symbol.name(); });
    fail("{}: {} does not determine {}{}", constraint.origin, text_of(constraint), names, values_of(constraint));
  }

  template <class Build>
  static Expr located(const Constraint& constraint, const Build& build) {
    const Result<Expr> result = attempt(build);
    if (!result) fail("{}: {}: {}", constraint.origin, text_of(constraint), result.diagnostic().message);
    return *result;
  }

  std::vector<Constraint> constraints_;
  std::set<size_t> ready_;                             // to be looked at
  std::map<Symbol, std::vector<size_t>> waiting_for_;  // constraints that an unknown would help
  std::set<Symbol> unknowns_;
  const Ranges& ranges_;
  Substitution solution_;
  std::map<Symbol, std::string> origins_;  // which constraint bound it
};

}  // namespace

Result<Bindings> solve(std::span<const Equation> equations, const Ranges& ranges) {
  return attempt([&] {
    std::vector<Constraint> constraints;
    std::set<Symbol> unknowns;
    for (const auto& [expr, value, origin] : equations) {
      constraints.push_back({expr, value, origin});
      for (const Symbol symbol : symbols_of(expr)) unknowns.insert(symbol);
    }
    Bindings bindings;
    for (const auto& [symbol, value] : Solver(std::move(constraints), std::move(unknowns), ranges).solve()) {
      bindings.emplace(symbol, value.constant());
    }
    return bindings;
  });
}

Result<Substitution> solve_for(std::span<const SymbolicEquation> equations, std::span<const Symbol> unknowns) {
  return attempt([&] {
    const Ranges ranges;
    Solver solver({equations.begin(), equations.end()}, {unknowns.begin(), unknowns.end()}, ranges);
    Substitution solution = solver.solve();
    for (const Symbol symbol : unknowns) {
      if (!solution.contains(symbol)) fail("no equation determines {}", symbol.name());
    }
    return solution;
  });
}

}  // namespace tenon::symbolic
