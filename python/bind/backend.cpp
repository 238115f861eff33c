#include "backends/backend.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>

#include "backends/bound.h"
#include "gil.h"
#include "loops.h"
#include "runtime/thread_pool.h"

namespace tenon::python {
namespace {

using loops::LoopTree;

// ---- backends that are written in Python ----------------------------------------------------------------------------

// A Python object that C++ holds. It may go away on any thread, and after the interpreter.
class Held {
 public:
  explicit Held(nb::object object) : object_(std::move(object)) {}
  Held(const Held&) = delete;
  ~Held() {
    if (!nb::is_alive()) {
      object_.release();
      return;
    }
    const nb::gil_scoped_acquire gil;
    object_.reset();
  }
  const nb::object& get() const { return object_; }

 private:
  nb::object object_;
};

class PythonCompiled : public Compiled {
 public:
  PythonCompiled(nb::object kernel, const loops::IR& ir) : kernel_(std::move(kernel)), ir_(ir) {}

  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool) const override {
    symbolic::Bindings bindings;
    const std::vector<Symbol> symbols = ir_.size_symbols();
    for (size_t i = 0; i < symbols.size(); ++i) bindings.emplace(symbols[i], sizes[i]);
    std::vector<loops::NodeRef> slots = ir_.reads();
    slots.insert(slots.end(), ir_.writes().begin(), ir_.writes().end());
    const nb::gil_scoped_acquire gil;
    nb::list arrays;
    for (size_t i = 0; i < slots.size(); ++i) {
      const TensorType type = ir_.type(slots[i]);
      const Access access = i < ir_.reads().size() ? Access::kReadOnly : Access::kReadWrite;
      Sizes shape = evaluate(type.shape, bindings);
      Sizes strides = contiguous_strides(shape);
      Tensor array = Tensor::borrow(type.dtype, std::move(shape), std::move(strides), memory[i], nullptr, access);
      arrays.append(to_python(std::move(array), ArrayKind::kNumpy));
    }
    kernel_.get().attr("run")(arrays);
  }

  std::string dump() const override {
    const nb::gil_scoped_acquire gil;
    if (!nb::hasattr(kernel_.get(), "dump")) return "";
    return nb::cast<std::string>(kernel_.get().attr("dump")());
  }

 private:
  Held kernel_;
  loops::IR ir_;
};

class PythonBackend : public Backend {
 public:
  PythonBackend(std::string name, int hardware, nb::object backend)
      : Backend(std::move(name)), hardware_(hardware), backend_(std::move(backend)) {}

  std::unique_ptr<Compiled> compile_impl(const LoopTree& tree) const override {
    const nb::gil_scoped_acquire gil;
    nb::object kernel = backend_.get().attr("compile")(nb::cast(LoopTree(tree)));
    if (!nb::hasattr(kernel, "run")) {
      fail("compile() of backend {} must give an object with run(memory), got {}", name(), class_of(kernel));
    }
    return std::make_unique<PythonCompiled>(std::move(kernel), tree.ir);
  }

  int hardware_requirement() const override { return hardware_; }

  std::string doc() const override {
    const nb::gil_scoped_acquire gil;
    const nb::object doc = backend_.get().attr("__doc__");
    return doc.is_none() ? "" : nb::cast<std::string>(doc);
  }

 private:
  int hardware_;
  Held backend_;
};

void register_python_backend(nb::object backend) {
  if (PyType_Check(backend.ptr())) {
    fail("register an instance of {}, not the class", text_of(backend.attr("__qualname__")));
  }
  std::string name;
  int hardware = 0;
  if (!nb::hasattr(backend, "name") || !nb::try_cast(backend.attr("name"), name) || name.empty()) {
    fail("a backend needs a name: a text");
  }
  if (!nb::hasattr(backend, "compile")) fail("backend {} needs a method compile(tree)", name);
  if (nb::hasattr(backend, "hardware_requirement") && !nb::try_cast(backend.attr("hardware_requirement"), hardware)) {
    fail("the hardware_requirement of backend {} must be an int", name);
  }
  register_backend(std::make_shared<PythonBackend>(std::move(name), hardware, std::move(backend)));
}

// ---- kernels --------------------------------------------------------------------------------------------------------

struct TreeKernel {
  loops::IR ir;
  std::unique_ptr<Compiled> compiled;
  std::map<int64_t, Tensor> constants = {};  // inputs that nobody gives any more, by slot
};

TreeKernel compile(const LoopTree& tree, const std::string& name, const std::map<int64_t, nb::object>& constants) {
  std::map<int64_t, Tensor> tensors;
  for (const auto& [slot, array] : constants) {
    tensors.emplace(slot, tensor_from(array, fmt::format("constant {}", slot)).contiguous());
  }
  const WithoutGil release;
  const auto backend = find_backend(name).value();
  if (tensors.empty()) return {tree.ir, backend->compile(tree).value()};
  std::unique_ptr<Compiled> kernel = compile_bound(*backend, tree, tensors);
  return {tree.ir, std::move(kernel), std::move(tensors)};
}

symbolic::Bindings bindings_from(const std::map<std::string, int64_t>& sizes) {
  symbolic::Bindings bindings;
  for (const auto& [name, size] : sizes) bindings.emplace(Symbol(name), size);
  return bindings;
}

// With the constants in their places.
std::vector<Tensor> tensors_from(nb::handle arrays, const TreeKernel& kernel) {
  std::vector<Tensor> tensors;
  size_t given = 0;
  const auto add_constants = [&] {
    for (auto it = kernel.constants.find(static_cast<int64_t>(tensors.size())); it != kernel.constants.end();
         it = kernel.constants.find(static_cast<int64_t>(tensors.size()))) {
      tensors.push_back(it->second);
    }
  };
  for (const nb::handle array : nb::borrow(arrays)) {
    add_constants();
    tensors.push_back(tensor_from(array, fmt::format("array {}", given++)));
  }
  add_constants();
  return tensors;
}

void check_outputs(std::span<const Tensor> outputs) {
  for (size_t slot = 0; slot < outputs.size(); ++slot) {
    if (outputs[slot].access() == Access::kReadOnly) fail("output {} is read-only", slot);
    if (outputs[slot].overlaps_itself()) fail("output {} overlaps itself: several indices are one element", slot);
  }
}

void write_to(const std::vector<Tensor>& results, std::span<Tensor> outputs) {
  for (size_t slot = 0; slot < results.size(); ++slot) {
    Tensor& output = outputs[slot];
    if (output.dtype() != results[slot].dtype() || output.shape() != results[slot].shape()) {
      fail("output {} must be {}, got {}", slot, to_string(type_of(results[slot])), to_string(type_of(output)));
    }
    output.copy_from(results[slot]);
  }
}

// 0, for none, is what the surroundings have.
int64_t threads_from(std::optional<int64_t> threads) {
  if (!threads) return 0;
  if (*threads < 1 || *threads > kMostThreads) fail("threads must be in [1, {}], got {}", kMostThreads, *threads);
  return *threads;
}

// Given the inputs, makes the outputs; given all, writes to the outputs.
nb::list run_kernel(const TreeKernel& self, nb::handle arrays, const std::map<std::string, int64_t>& sizes,
                    std::optional<int64_t> threads) {
  const int64_t own_threads = threads_from(threads);
  std::vector<Tensor> tensors = tensors_from(arrays, self);
  const ArrayKind kind = nb::len(arrays) == 0 ? ArrayKind::kNumpy : kind_of(nb::borrow(arrays)[0]);
  const size_t reads = self.ir.reads().size(), writes = self.ir.writes().size();
  const size_t constants = self.constants.size();
  if (tensors.size() != reads && tensors.size() != reads + writes) {
    fail("kernel {} takes {} inputs, or them and {} outputs, got {} arrays", self.ir.name(), reads - constants, writes,
         tensors.size() - constants);
  }
  check_outputs(std::span(tensors).subspan(reads));
  const symbolic::Bindings bindings = bindings_from(sizes);
  std::vector<Tensor> results;
  {
    const WithoutGil release;
    const ThreadCount guard(own_threads > 0 ? own_threads : thread_count());
    results = run(*self.compiled, self.ir, std::span(tensors).first(reads), bindings).value();
    if (tensors.size() > reads) write_to(results, std::span(tensors).subspan(reads));
  }
  nb::list outputs;
  for (size_t slot = 0; slot < results.size(); ++slot) {
    if (tensors.size() > reads) outputs.append(nb::borrow(arrays)[reads - constants + slot]);
    if (tensors.size() == reads) outputs.append(to_python(results[slot], kind));
  }
  return outputs;
}

PreparedRun prepare_kernel(const TreeKernel& self, nb::handle arrays, const std::map<std::string, int64_t>& sizes) {
  return prepare(*self.compiled, self.ir, tensors_from(arrays, self), bindings_from(sizes)).value();
}

void run_prepared(const PreparedRun& self) {
  const WithoutGil release;
  self();
}

nb::dict backends_by_name() {
  nb::dict result;
  for (const auto& backend : backends()) result[to_str(backend->name())] = to_str(backend->doc());
  return result;
}

}  // namespace

void bind_backend(nb::module_& module) {
  nb::class_<PreparedRun>(module, "PreparedRun", "A kernel and its arrays: a call runs it.")
      .def("__call__", run_prepared);
  nb::class_<TreeKernel>(module, "Kernel", "A compiled kernel.")
      .def("run", run_kernel, nb::arg("arrays"), nb::arg("sizes") = std::map<std::string, int64_t>(),
           nb::arg("threads") = nb::none(),
           nb::sig("def run(self, arrays: Sequence[ArrayLike], sizes: dict[str, int] = {}, "
                   "threads: int | None = None) -> list"),
           "Takes the inputs by slot and gives the outputs, arrays of the same kind; or takes the outputs as well, and "
           "writes to them. `sizes` says what the inputs' shapes leave open. `threads` is how many threads this run "
           "may use; None is threads().")
      .def("prepare", prepare_kernel, nb::arg("arrays"), nb::arg("sizes") = std::map<std::string, int64_t>(),
           nb::keep_alive<0, 1>(),
           nb::sig("def prepare(self, arrays: Sequence[ArrayLike], sizes: dict[str, int] = {}) -> PreparedRun"),
           "A run with these inputs by slot, then these outputs by slot, to call again and again: the arrays are "
           "checked here, and each call only runs the kernel.")
      .def("dump", [](const TreeKernel& self) { return self.compiled->dump(); }, "Its code, for people.");
  constexpr const char* kCompileDoc =
      "Turns a LoopTree into something that runs. `constants` gives some inputs, by slot, once and for all: what "
      "depends "
      "on them alone (packed weights) is computed here, and runs take the other inputs.";
  module.def("compile", compile, nb::arg("tree"), nb::arg("backend") = "interpreter",
             nb::arg("constants") = std::map<int64_t, nb::object>(),
             nb::sig("def compile(tree: LoopTree, backend: str = 'interpreter', constants: dict[int, ArrayLike] = {}) "
                     "-> Kernel"),
             kCompileDoc);
  module.def(
      "compile",
      [](const loops::IR& ir, const std::string& backend, const std::map<int64_t, nb::object>& constants) {
        return compile(LoopTree(ir), backend, constants);
      },
      nb::arg("ir"), nb::arg("backend") = "interpreter", nb::arg("constants") = std::map<int64_t, nb::object>(),
      nb::sig("def compile(ir: IR, backend: str = 'interpreter', constants: dict[int, ArrayLike] = {}) -> Kernel"));
  module.def("backends", backends_by_name, nb::sig("def backends() -> dict[str, str]"),
             "What each backend does, by name.");
  module.def(
      "is_available", [](const std::string& backend) { return find_backend(backend).value()->is_available(); },
      nb::arg("backend"), "Whether this machine has the hardware that it needs.");
  module.def("register_backend", register_python_backend, nb::arg("backend"),
             nb::sig("def register_backend(backend: Any) -> None"),
             "Makes a backend known by its name: see tenon.loops.Backend.");
  module.def("unregister_backend", [](const std::string& name) { unregister_backend(name); }, nb::arg("name"));
  module.def("threads", thread_count, "How many threads a parallel loop runs on.");
  module.def(
      "set_threads", [](std::optional<int64_t> threads) { set_threads(threads_from(threads)); },
      nb::arg("threads").none(),
      "Sets how many threads a parallel loop runs on. 1 starts none; None is the default: $TENON_THREADS, or as many "
      "as the process has CPUs, by its affinity and the quota of its control groups.");
}

}  // namespace tenon::python
