#include "named/cache.h"

#include <mutex>
#include <unordered_map>

#include "named/tensor.h"
#include "support/hash.h"

namespace tenon::named {
namespace {

using loops::IR;
using loops::NodeRef;
using loops::VarRef;

class Canonical {
 public:
  explicit Canonical(const IR& from) : from_(from), refs_(from.nodes().size()) {}

  IR run() {
    name_symbols();
    for (const auto& [symbol, range] : from_.symbols()) {
      if (names_.contains(symbol)) to_.declare_symbol(names_.at(symbol).symbol(), range);
    }
    for (uint32_t id = 0; id < from_.vars().size(); ++id) {
      to_.add_var(fmt::format("v{}", id), renamed(from_.var({id}).size));
    }
    for (NodeRef ref : sequence()) refs_[ref.id] = add(from_.node(ref));
    for (NodeRef ref : from_.order()) to_.set_loops(refs_[ref.id], from_.node(ref).loops);
    to_.set_order(moved(from_.order()));
    return std::move(to_);
  }

 private:
  // An order of adding nodes that keeps the slots of inputs and outputs. An edit may have put a node behind its reader.
  std::vector<NodeRef> sequence() const {
    std::vector<NodeRef> refs = from_.node_refs();
    std::erase_if(refs, [&](NodeRef ref) { return !from_.node(ref).is_leaf(); });
    for (NodeRef ref : from_.order()) {
      if (!from_.node(ref).as<loops::Write>()) refs.push_back(ref);
    }
    refs.insert(refs.end(), from_.writes().begin(), from_.writes().end());
    return refs;
  }

  void name_symbols() {
    for (uint32_t id = 0; id < from_.vars().size(); ++id) {
      names_.emplace(from_.var({id}).symbol(), symbolic::Symbol(fmt::format("v{}", id)));
    }
    for (const loops::Var& var : from_.vars()) {
      for (symbolic::Symbol symbol : symbols_of(var.size)) {
        names_.emplace(symbol, symbolic::Symbol(fmt::format("s{}", names_.size())));
      }
    }
  }

  NodeRef moved(NodeRef ref) const { return refs_[ref.id]; }

  std::vector<NodeRef> moved(std::vector<NodeRef> refs) const {
    for (NodeRef& ref : refs) ref = moved(ref);
    return refs;
  }

  Expr renamed(const Expr& expr) const { return substitute(expr, names_); }

  NodeRef add(loops::Node node) {
    node.name.clear();
    for_each_lookup(node, [&](loops::Lookup& lookup) {
      const symbolic::Symbol symbol(fmt::format("l{}", names_.size()));
      names_.insert_or_assign(lookup.symbol, Expr(symbol));
      lookup.symbol = symbol;
    });
    for_each_ref(node, [&](NodeRef& ref) { ref = moved(ref); });
    for_each_expr(node, [&](Expr& expr) { expr = renamed(expr); });
    return to_.add_node(std::move(node));
  }

  const IR& from_;
  IR to_;
  symbolic::Substitution names_;
  std::vector<NodeRef> refs_;  // by old ref
};

size_t hash_of(const IR& ir) {
  size_t hash = ir.nodes().size();
  for (const loops::Var& var : ir.vars()) hash_combine(hash, var.size.hash());
  for (const loops::Node& node : ir.nodes()) {
    hash_combine(hash, node.action.index());
    hash_combine(hash, static_cast<size_t>(node.dtype));
    for (NodeRef input : node.inputs) hash_combine(hash, input.id);
    for (const loops::LoopSpec& loop : node.loops)
      hash_combine(hash, loop.var.id + static_cast<size_t>(loop.step) * 31);
  }
  return hash;
}

struct Entry {
  IR ir;
  std::shared_ptr<const Backend> backend;  // itself: another may be registered under its name
  Loops loops;
  std::mutex compiling = {};
  std::shared_ptr<const Kernel> kernel = {};
};

struct Cache {
  std::mutex mutex;
  std::unordered_multimap<size_t, std::shared_ptr<Entry>> entries;  // by hash
};

Cache& cache() {
  static Cache cache;
  return cache;
}

std::shared_ptr<Entry> entry_for(const IR& ir, std::shared_ptr<const Backend> backend, Loops loops) {
  IR key = canonical(ir);
  const size_t hash = hash_of(key);
  const std::lock_guard lock(cache().mutex);
  const auto [first, last] = cache().entries.equal_range(hash);
  for (auto candidate = first; candidate != last; ++candidate) {
    const Entry& entry = *candidate->second;
    if (entry.backend == backend && entry.loops == loops && entry.ir == key) return candidate->second;
  }
  const auto entry = std::make_shared<Entry>(std::move(key), std::move(backend), loops);
  return cache().entries.emplace(hash, entry)->second;
}

void forget(const Entry& entry) {
  const std::lock_guard lock(cache().mutex);
  std::erase_if(cache().entries, [&](const auto& item) { return item.second.get() == &entry; });
}

std::shared_ptr<const Kernel> compile(const IR& ir, const Backend& backend, Loops loops) {
  loops::LoopTree tree = loops == Loops::kAsGiven ? loops::LoopTree(ir) : backend.schedule(ir);
  std::unique_ptr<Compiled> compiled = backend.compile(tree).value();
  return std::make_shared<Kernel>(std::move(tree), std::move(compiled));
}

}  // namespace

IR canonical(const IR& ir) { return Canonical(ir).run(); }

std::shared_ptr<const Kernel> kernel_for(const IR& ir, const std::shared_ptr<const Backend>& backend, Loops loops) {
  const std::shared_ptr<Entry> entry = entry_for(ir, backend, loops);
  const std::lock_guard lock(entry->compiling);
  try {
    if (!entry->kernel) entry->kernel = compile(ir, *entry->backend, loops);
  } catch (...) {
    forget(*entry);
    throw;
  }
  return entry->kernel;
}

size_t cache_size() {
  const std::lock_guard lock(cache().mutex);
  return cache().entries.size();
}

void clear_cache() {
  decltype(Cache::entries) dropped;  // outlives the lock: a kernel of Python's may need the interpreter to go away
  const std::lock_guard lock(cache().mutex);
  dropped.swap(cache().entries);
}

}  // namespace tenon::named
