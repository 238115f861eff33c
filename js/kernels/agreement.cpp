// Random kernels under random schedules: what `wasm` makes of them must equal what the interpreter makes, bit for bit
// but for the signs of zeros.
#include <fmt/format.h>

#include <cmath>

#include "backends/backend.h"
#include "backends/wasm/wasm.h"
#include "tests/loops/support_random_ir.h"
#include "tests/loops/support_random_schedule.h"

namespace tenon {
namespace {

using loops::LoopTree;

bool equal_elements(const Tensor& a, const Tensor& b, int64_t i) {
  if (!is_float(a.dtype())) return a.integer(i) == b.integer(i);
  return a.real(i) == b.real(i) || (std::isnan(a.real(i)) && std::isnan(b.real(i)));
}

// Where they differ; empty: nowhere.
std::string difference(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  for (size_t slot = 0; slot < wanted.size(); ++slot) {
    for (int64_t i = 0; i < wanted[slot].numel(); ++i) {
      if (equal_elements(got[slot], wanted[slot], i)) continue;
      return fmt::format("output {}, element {}: {} for {}", slot, i, got[slot].real(i), wanted[slot].real(i));
    }
  }
  return "";
}

std::string compare(const LoopTree& tree, const std::vector<Tensor>& inputs, const symbolic::Bindings& sizes = {}) {
  std::vector<std::vector<Tensor>> results;
  for (const char* name : {"wasm", "interpreter"}) {
    const auto kernel = find_backend(name).value()->compile(tree);
    if (!kernel.ok()) return fmt::format("{} does not compile it: {}", name, kernel.diagnostic().text());
    auto outputs = run(**kernel, tree.ir, inputs, sizes);
    if (!outputs.ok()) return fmt::format("{} does not run it: {}", name, outputs.diagnostic().text());
    results.push_back(std::move(*outputs));
  }
  return difference(results[0], results[1]);
}

// The same with each symbolic size from 0 to 9.
std::string compare_sizes(const LoopTree& tree) {
  for (int64_t size = 0; size < 10; ++size) {
    symbolic::Bindings sizes;
    for (Symbol symbol : tree.ir.size_symbols()) sizes[symbol] = size;
    std::vector<Tensor> inputs;
    for (loops::NodeRef read : tree.ir.reads()) {
      const TensorType type = tree.ir.type(read);
      Tensor& input = inputs.emplace_back(Tensor::zeros(type.dtype, evaluate(type.shape, sizes)));
      for (int64_t i = 0; i < input.numel(); ++i) {
        const int64_t value = i * 5 % 7 - 3;
        is_float(type.dtype) ? input.set_real(i, static_cast<double>(value)) : input.set_integer(i, value);
      }
    }
    const std::string failure = compare(tree, inputs, sizes);
    if (!failure.empty()) return fmt::format("size {}: {}", size, failure);
  }
  return "";
}

// Small kernels and kernels around the sizes of vectors. Nothing where the generator's dice, which differ between
// libraries, throw no valid kernel.
std::optional<loops::IR> kernel_of(uint64_t seed) {
  try {
    return seed % 2 == 1 ? test::random_ir_around_vectors(seed) : test::random_ir(seed);
  } catch (const Error&) {
    return {};
  }
}

// The kernel of a seed under a random schedule and under the backend's own.
std::string compare(uint64_t seed, const loops::IR& ir) {
  const std::vector<Tensor> inputs = test::inputs_for(ir, seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::string log;
  const LoopTree tree = loops::testing::random_schedule(LoopTree(ir), 20, random, &log);
  const std::string failure = compare(tree, inputs);
  if (!failure.empty()) return fmt::format("seed {}: {}\n{}{}", seed, failure, log, to_string(tree.ir));
  const Result<LoopTree> own = attempt([&] { return find_backend("wasm").value()->schedule(ir); });
  if (!own) return "";  // Some random kernels have no schedule that is legal.
  const std::string second = compare(*own, inputs);
  return second.empty() ? "" : fmt::format("seed {}: {}\n{}", seed, second, to_string(own->ir));
}

}  // namespace

extern "C" {

// Compares `count` kernels, of seeds from `seed` on; the first that fails, as text.
__attribute__((export_name("agree"))) const char* tenon_agree(uint32_t seed, uint32_t count) {
  static std::string failure;
  try {
    failure.clear();
    for (uint32_t done = 0; done < count && failure.empty(); ++seed) {
      const std::optional<loops::IR> ir = kernel_of(seed);
      if (!ir) continue;
      failure = compare(seed, *ir);
      ++done;
    }
  } catch (const std::exception& error) {
    failure = fmt::format("seed {}: {}", seed, error.what());
  }
  return failure.c_str();
}

// The same for one kernel, which a debugger calls with the kernel's text.
__attribute__((export_name("agree_on"))) const char* tenon_agree_on(const char* text) {
  static std::string failure;
  try {
    const LoopTree tree(loops::parse(text).value());
    failure = compare_sizes(tree);
    if (!failure.empty()) failure += "\n" + wasm::to_text(emit_wasm(tree));
  } catch (const std::exception& error) {
    failure = error.what();
  }
  return failure.c_str();
}

}  // extern "C"
}  // namespace tenon
