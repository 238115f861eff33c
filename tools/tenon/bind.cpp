#include "bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "graph/npy.h"
#include "support/text.h"

namespace tenon::cli {
namespace {

// A tensor that an argument names, and the file that it comes from.
struct Given {
  std::string name;  // empty: by position
  Tensor tensor;
  std::string path;
};

// "name=path", or "path" alone. A path that contains '=' can be written "./a=b.npy".
std::vector<Given> load(const std::string& argument) {
  const size_t equals = argument.find('=');
  const bool is_path = argument.starts_with('/') || argument.starts_with('.');
  const bool named = equals != std::string::npos && !is_path;
  const std::string name = named ? argument.substr(0, equals) : "";
  const std::string path = named ? argument.substr(equals + 1) : argument;
  if (!path.ends_with(".npz")) return {{name, read_npy(path).value(), path}};
  if (named) fail_at({path}, "an archive names its arrays itself; give it without '{}='", name);
  std::vector<Given> all;
  for (auto& [key, tensor] : read_npz(path).value()) all.push_back({key, tensor, path});
  return all;
}

[[noreturn]] void fail_unknown(const Given& given, std::string_view what, const std::vector<std::string_view>& names) {
  fail_at({given.path}, "the graph has no {} '{}'{}", what, given.name, did_you_mean(given.name, names));
}

void check_fits(const InputInfo& spec, std::string_view what, const Given& given) {
  if (given.tensor.dtype() == spec.dtype && given.tensor.rank() == spec.rank) return;
  const bool casts = given.tensor.rank() == spec.rank;
  fail_at({given.path}, "{} '{}' is {}, but the file has {}{}", what, spec.name, spec.type,
          to_string(type_of(given.tensor)), casts ? "; cast the array before you save it" : "");
}

InputInfo info_of(const Graph& graph, const Leaf& leaf) {
  const TensorType& type = graph.type(leaf.value);
  return {leaf.name, type.dtype, type.rank(), to_string(type)};
}

class Inputs {
 public:
  explicit Inputs(std::vector<InputInfo> specs) : specs_(std::move(specs)), tensors_(specs_.size()) {}

  void add(const Given& given) {
    const size_t position = given.name.empty() ? next_free(given) : position_of(given);
    check_fits(specs_[position], "input", given);
    if (tensors_[position].defined()) fail_at({given.path}, "input '{}' is given twice", specs_[position].name);
    tensors_[position] = given.tensor;
  }

  std::vector<Tensor> take() && {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].defined()) continue;
      fail("input '{}' ({}) is not given: add --input {}=FILE.npy", specs_[i].name, specs_[i].type, specs_[i].name);
    }
    return std::move(tensors_);
  }

 private:
  size_t next_free(const Given& given) const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!tensors_[i].defined()) return i;
    }
    fail_at({given.path}, "the model takes {} inputs, and more are given", tensors_.size());
  }

  size_t position_of(const Given& given) const {
    const auto found = std::ranges::find(specs_, given.name, &InputInfo::name);
    if (found != specs_.end()) return static_cast<size_t>(found - specs_.begin());
    std::vector<std::string_view> names;
    for (const InputInfo& spec : specs_) names.push_back(spec.name);
    fail_unknown(given, "input", names);
  }

  std::vector<InputInfo> specs_;
  std::vector<Tensor> tensors_;
};

bool is_bindable(const Leaf& leaf) { return leaf.kind == LeafKind::kParameter || leaf.kind == LeafKind::kBuffer; }

void bind_parameter(Graph& graph, const Given& given) {
  const Leaf* leaf = graph.leaf_named(given.name);
  if (!leaf || !is_bindable(*leaf)) {
    std::vector<std::string_view> names;
    for (const Leaf& other : graph.leaves()) {
      if (is_bindable(other)) names.push_back(other.name);
    }
    fail_unknown(given, "parameter or buffer", names);
  }
  check_fits(info_of(graph, *leaf), name_of(leaf->kind), given);
  if (leaf->data.defined()) fail_at({given.path}, "{} '{}' is given twice", name_of(leaf->kind), leaf->name);
  const Status bound = attempt([&] { graph.bind(given.name, given.tensor); });
  if (!bound.ok()) fail_at({given.path}, "{}", bound.diagnostic().message);
}

// The same on every platform, which std::hash is not.
uint64_t hash_of_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::mt19937_64 random_source(int64_t seed, std::string_view name) {
  return std::mt19937_64(static_cast<uint64_t>(seed) ^ hash_of_name(name));
}

double next_uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }  // in [0, 1)

Tensor random_tensor(const Leaf& leaf, const TensorType& type, int64_t seed) {
  if (!is_static(type.shape)) {
    fail("{} '{}' has the symbolic type {}: give it with --param", name_of(leaf.kind), leaf.name, to_string(type));
  }
  Tensor tensor = Tensor::zeros(type.dtype, evaluate(type.shape, {}));
  const int64_t rows = tensor.rank() > 1 ? std::max<int64_t>(tensor.size(0), 1) : 1;
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(tensor.numel() / rows, 1)));
  std::mt19937_64 random = random_source(seed, leaf.name);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double uniform = next_uniform(random);
    const double real = leaf.kind == LeafKind::kBuffer ? uniform : (2 * uniform - 1) * bound;
    is_float(type.dtype) ? tensor.set_real(i, real) : tensor.set_integer(i, uniform < 0.5 ? 0 : 1);
  }
  return tensor;
}

}  // namespace

std::vector<InputInfo> input_infos(const Graph& graph) {
  std::vector<InputInfo> specs;
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.kind == LeafKind::kInput) specs.push_back(info_of(graph, leaf));
  }
  return specs;
}

std::vector<Tensor> load_inputs(std::vector<InputInfo> specs, std::span<const std::string> arguments,
                                const std::map<std::string, Tensor>& known) {
  Inputs inputs(std::move(specs));
  for (const auto& [name, tensor] : known) inputs.add({name, tensor, {}});
  std::vector<Given> by_position;
  for (const std::string& argument : arguments) {
    for (Given& given : load(argument)) {
      if (given.name.empty()) {
        by_position.push_back(std::move(given));
      } else {
        inputs.add(given);
      }
    }
  }
  for (const Given& given : by_position) inputs.add(given);
  return std::move(inputs).take();
}

Tensor random_input(const std::string& name, DType dtype, Sizes shape, int64_t seed) {
  Tensor tensor = Tensor::zeros(dtype, std::move(shape));
  std::mt19937_64 random = random_source(seed, name);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double uniform = next_uniform(random);
    is_float(dtype) ? tensor.set_real(i, uniform) : tensor.set_integer(i, uniform < 0.5 ? 0 : 1);
  }
  return tensor;
}

void load_parameters(Graph& graph, std::span<const std::string> arguments) {
  for (const std::string& argument : arguments) {
    for (const Given& given : load(argument)) {
      if (given.name.empty()) fail_at({given.path}, "--param takes NAME=FILE.npy, or FILE.npz");
      bind_parameter(graph, given);
    }
  }
}

void fill_parameters(Graph& graph, int64_t seed) {
  std::vector<std::pair<std::string, Tensor>> filled;
  for (const Leaf& leaf : graph.leaves()) {
    if (is_bindable(leaf) && !leaf.data.defined()) {
      filled.emplace_back(leaf.name, random_tensor(leaf, graph.type(leaf.value), seed));
    }
  }
  for (auto& [name, tensor] : filled) graph.bind(name, tensor);
}

void require_parameters(const Graph& graph) {
  std::vector<std::string> missing;
  for (const Leaf& leaf : graph.leaves()) {
    if (is_bindable(leaf) && !leaf.data.defined()) {
      missing.push_back(fmt::format("{} '{}'", name_of(leaf.kind), leaf.name));
    }
  }
  if (missing.empty()) return;
  fail("no data for {}: give --param NAME=FILE.npy, or --random-params SEED", fmt::join(missing, ", "));
}

}  // namespace tenon::cli
