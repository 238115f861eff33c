#include "backends/backend.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include "backends/device_backend.h"
#include "backends/plugin/plugin.h"
#include "loops/schedule.h"
#include "support/is_in.h"
#include "support/text.h"

namespace tenon {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Backend>, std::less<>> backends;
};

// Constructed at first use: backends register themselves before main.
Registry& registry() {
  static Registry registry;
  return registry;
}

bool can_load(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle) dlclose(handle);
  return handle != nullptr;
}

std::string hardware_names(int bits) {
  std::string names;
  const auto add = [&](int bit, std::string_view name) {
    if ((bits & bit) != 0) names += (names.empty() ? "" : " and ") + std::string(name);
  };
  add(kCuda, "a CUDA device");
  return names.empty() ? fmt::format("hardware {:#x}", bits) : names;
}

}  // namespace

int available_hardware() {
  static const int hardware = kCpu | (can_load("libcuda.so.1") ? kCuda : 0);
  return hardware;
}

void check_arguments(const loops::IR& ir, std::span<void* const> memory, std::span<const int64_t> sizes) {
  const size_t arrays = ir.reads().size() + ir.writes().size(), symbols = ir.size_symbols().size();
  check(memory.size() == arrays && sizes.size() == symbols, "kernel {} takes {} arrays and {} sizes, got {} and {}",
        ir.name(), arrays, symbols, memory.size(), sizes.size());
}

loops::LoopTree Backend::schedule(const loops::IR& kernel) const {
  return loops::LoopTree(loops::initial_schedule(kernel));
}

Result<std::unique_ptr<Compiled>> Backend::compile(const loops::LoopTree& tree) const {
  const loops::LoopTree* const trees[] = {&tree};
  return attempt([&] { return std::move(compile_all(trees).value()[0]); });
}

Result<std::vector<std::unique_ptr<Compiled>>> Backend::compile_all(
    std::span<const loops::LoopTree* const> trees) const {
  return attempt([&] {
    check_hardware();
    std::vector<std::unique_ptr<Compiled>> kernels = compile_all_impl(trees);
    for (size_t i = 0; i < trees.size(); ++i) {
      if (!kernels[i]) fail("backend {} returned no kernel for {}", name_, trees[i]->ir.name());
    }
    return kernels;
  });
}

std::string Backend::missing_hardware() const {
  const int missing = hardware_requirement() & ~available_hardware();
  return missing == 0 ? "" : hardware_names(missing);
}

void Backend::check_hardware() const {
  const std::string missing = missing_hardware();
  if (!missing.empty()) fail("backend {} needs {}, which this machine lacks", name_, missing);
}

std::vector<std::unique_ptr<Compiled>> Backend::compile_all_impl(std::span<const loops::LoopTree* const> trees) const {
  std::vector<std::unique_ptr<Compiled>> kernels;
  for (const loops::LoopTree* tree : trees) kernels.push_back(compile_impl(*tree));
  return kernels;
}

void register_backend(std::shared_ptr<const Backend> backend) {
  if (!backend || backend->name().empty()) fail("a backend needs a name");
  const std::lock_guard lock(registry().mutex);
  const std::string name = backend->name();
  if (!registry().backends.emplace(name, std::move(backend)).second) fail("backend {} is registered already", name);
}

void unregister_backend(std::string_view name) {
  std::shared_ptr<const Backend>
      dropped;  // destroyed after the lock is released: destroying a Python backend needs the interpreter
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().backends.find(name);
  if (found == registry().backends.end()) fail("there is no backend {}", name);
  dropped = std::move(found->second);
  registry().backends.erase(found);
}

std::vector<std::shared_ptr<const Backend>> backends() {
  const std::lock_guard lock(registry().mutex);
  std::vector<std::shared_ptr<const Backend>> result;
  for (const auto& [name, backend] : registry().backends) result.push_back(backend);
  return result;
}

Result<std::shared_ptr<const Backend>> find_backend(std::string_view name) {
  return attempt([&] {
    const std::vector<std::shared_ptr<const Backend>> all = backends();
    std::vector<std::string_view> names;
    for (const auto& backend : all) {
      if (backend->name() == name) return backend;
      names.push_back(backend->name());
    }
    for (const auto& backend : all) {
      if (backend->name() != runtime::name_of_spec(name)) continue;
      if (auto chosen = with_options(*backend, name)) return chosen;
    }
    if (const auto plugin = plugin_backend(name)) return plugin;
    for (std::string_view device : runtime::device_names()) {  // that of backend cuda is there already
      if (!is_in(names, device)) names.push_back(device);
    }
    fail("there is no backend '{}'{} (there are: {}; a device is there when its plug-in is loaded)", name,
         did_you_mean(runtime::name_of_spec(name), names), fmt::format("{}", fmt::join(names, ", ")));
  });
}

// ---- running on tensors ---------------------------------------------------------------------------------------------

void check_sizes(const loops::IR& ir, const symbolic::Bindings& sizes) {
  const std::vector<Symbol> symbols = ir.size_symbols();
  for (const auto& [symbol, value] : sizes) {
    if (std::ranges::find(symbols, symbol) != symbols.end()) continue;
    std::string list;
    for (Symbol known : symbols) list += (list.empty() ? "" : ", ") + known.name();
    fail("kernel {} has no size {} (it has {})", ir.name(), symbol.name(), list.empty() ? "no symbolic size" : list);
  }
}

namespace {

void check_input(const TensorType& type, const Tensor& tensor, size_t slot) {
  if (tensor.defined() && data_fits(type, tensor)) return;
  fail("input {} must be {}, got {}", slot, to_string(type),
       tensor.defined() ? to_string(type_of(tensor)) : std::string("nothing"));
}

symbolic::Bindings solve_sizes(const loops::IR& ir, std::span<const Tensor> inputs, const symbolic::Bindings& given) {
  check_sizes(ir, given);
  std::vector<symbolic::Equation> equations;
  for (const auto& [symbol, value] : given) equations.push_back({symbol, value, "the caller"});
  for (size_t slot = 0; slot < inputs.size(); ++slot) {
    const TensorType type = ir.type(ir.reads()[slot]);
    check_input(type, inputs[slot], slot);
    for (int64_t dim = 0; dim < type.rank(); ++dim) {
      equations.push_back({type.size(dim), inputs[slot].size(dim), fmt::format("dimension {} of input {}", dim, slot)});
    }
  }
  return solve(equations, ir.ranges()).value();
}

std::vector<int64_t> size_values(const loops::IR& ir, const symbolic::Bindings& bindings) {
  std::vector<int64_t> values;
  for (Symbol symbol : ir.size_symbols()) {
    const auto found = bindings.find(symbol);
    if (found == bindings.end()) fail("kernel {}: the size {} follows from no input", ir.name(), symbol.name());
    values.push_back(found->second);
  }
  return values;
}

bool share_memory(const Tensor& a, const Tensor& b) {
  const auto* const a_begin = static_cast<const std::byte*>(a.data());
  const auto* const b_begin = static_cast<const std::byte*>(b.data());
  const auto bytes = [](const Tensor& tensor) { return tensor.numel() * size_of(tensor.dtype()); };
  return std::less<>()(a_begin, b_begin + bytes(b)) && std::less<>()(b_begin, a_begin + bytes(a));
}

// Checks arrays[place] as an output. Inputs come first in `arrays`.
void check_output(const loops::IR& ir, const symbolic::Bindings& bindings, std::span<const Tensor> arrays,
                  size_t place) {
  const size_t slot = place - ir.reads().size();
  const TensorType type = ir.type(ir.writes()[slot]);
  const Tensor& output = arrays[place];
  if (!output.defined() || output.dtype() != type.dtype || output.shape() != evaluate(type.shape, bindings)) {
    fail("output {} must be {}, got {}", slot, to_string(type),
         output.defined() ? to_string(type_of(output)) : std::string("nothing"));
  }
  if (output.access() == Access::kReadOnly) fail("output {} is read-only", slot);
  for (size_t other = 0; other < place; ++other) {
    if (share_memory(output, arrays[other])) fail("output {} and array {} share memory", slot, other);
  }
}

}  // namespace

Result<std::vector<Tensor>> run(const Compiled& kernel, const loops::IR& ir, std::span<const Tensor> inputs,
                                const symbolic::Bindings& sizes) {
  return attempt([&] {
    if (inputs.size() != ir.reads().size()) {
      fail("kernel {} takes {} inputs, got {}", ir.name(), ir.reads().size(), inputs.size());
    }
    const symbolic::Bindings bindings = solve_sizes(ir, inputs, sizes);
    const std::vector<int64_t> values = size_values(ir, bindings);
    std::vector<Tensor> held;  // keeps contiguous copies alive during the run
    std::vector<Tensor> outputs;
    std::vector<void*> memory;
    for (const Tensor& input : inputs) memory.push_back(held.emplace_back(input.contiguous()).data());
    for (loops::NodeRef write : ir.writes()) {
      const TensorType type = ir.type(write);
      memory.push_back(outputs.emplace_back(Tensor::zeros(type.dtype, evaluate(type.shape, bindings))).data());
    }
    kernel.run(memory, values);
    return outputs;
  });
}

Result<PreparedRun> prepare(const Compiled& kernel, const loops::IR& ir, std::vector<Tensor> arrays,
                            const symbolic::Bindings& sizes) {
  return attempt([&] {
    const size_t reads = ir.reads().size(), writes = ir.writes().size();
    if (arrays.size() != reads + writes) {
      fail("kernel {} takes {} inputs and {} outputs, got {} arrays", ir.name(), reads, writes, arrays.size());
    }
    const symbolic::Bindings bindings = solve_sizes(ir, std::span(arrays).first(reads), sizes);
    PreparedRun run;
    run.kernel_ = &kernel;
    run.sizes_ = size_values(ir, bindings);
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (!arrays[i].is_contiguous()) fail("array {} is not contiguous: a prepared run copies nothing", i);
      if (i >= reads) check_output(ir, bindings, arrays, i);
      run.memory_.push_back(arrays[i].data());
    }
    run.arrays_ = std::move(arrays);
    return run;
  });
}

}  // namespace tenon
