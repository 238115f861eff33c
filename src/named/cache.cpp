#include "named/cache.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <tuple>

#include "loops/key.h"
#include "named/tensor.h"

namespace tenon::named {
namespace {

using loops::IR;

struct Entry {
  std::shared_ptr<const Backend> backend;  // itself: another may be registered under its name
  std::mutex compiling = {};
  std::shared_ptr<const Kernel> kernel = {};
};

using Key = std::tuple<std::string, const Backend*, Loops>;

struct Cache {
  std::mutex mutex;
  std::map<Key, std::shared_ptr<Entry>> entries;
};

Cache& cache() {
  static Cache cache;
  return cache;
}

std::shared_ptr<Entry> entry_for(const IR& ir, std::shared_ptr<const Backend> backend, Loops loops) {
  Key key{structural_key_of(ir), backend.get(), loops};
  const std::lock_guard lock(cache().mutex);
  std::shared_ptr<Entry>& entry = cache().entries[std::move(key)];
  if (!entry) entry = std::make_shared<Entry>(std::move(backend));
  return entry;
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
