#include "named/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "named/build.h"
#include "named/cache.h"
#include "named/lower.h"
#include "named/sizes.h"

namespace tenon::named {

namespace {

// What a run without feeds needs, for as long as the inputs keep their shapes.
struct Prepared {
  std::shared_ptr<const Backend> backend;
  std::vector<tenon::Sizes> shapes;              // of the inputs among the node's sources
  std::vector<std::shared_ptr<Storage>> inputs;  // by slot
  std::weak_ptr<const Kernel> kernel;            // the cache's
};

}  // namespace

// How an expression is to be run. Threads that run it and one that changes this see one choice or the other.
struct RunSettings {
  struct Choice {
    std::shared_ptr<const loops::IR> schedule = {};  // null: the backend's own
    std::string backend = {};                        // empty: the default
    std::shared_ptr<const Prepared> prepared = {};
  };

  Choice get() {
    const std::lock_guard lock(mutex);
    return choice;
  }
  void set_schedule(std::shared_ptr<const loops::IR> schedule) {
    const std::lock_guard lock(mutex);
    choice.schedule = std::move(schedule);
    choice.prepared = nullptr;
  }
  void set_backend(std::string name) {
    const std::lock_guard lock(mutex);
    choice.backend = std::move(name);
  }
  void keep(const Choice& chosen, std::shared_ptr<const Prepared> prepared) {
    const std::lock_guard lock(mutex);
    if (choice.schedule == chosen.schedule) choice.prepared = std::move(prepared);
  }

  std::mutex mutex;
  Choice choice;
};

namespace {

struct DefaultBackend {
  std::mutex mutex;
  std::string name;  // empty: the fastest that is there
};

DefaultBackend& the_default() {
  static DefaultBackend backend;
  return backend;
}

const InputTerm& input_of(const Tensor& tensor, std::string_view what) {
  const auto* input = tensor.node()->as<InputTerm>();
  if (!input) fail("{} takes an input, but {} is computed", what, describe(*tensor.node()));
  return *input;
}

void check_data(const Term& node, const tenon::Tensor& data) {
  if (!data.defined()) fail("{} is bound to nothing", describe(node));
  if (data.dtype() == node.dtype && data.shape().size() == node.dims.size()) return;
  fail("{} cannot be bound to {}: their dtypes and ranks must be the same", describe(node), to_string(type_of(data)));
}

TermPtr input_term(DType dtype, Symbols dims, const tenon::Tensor& data) {
  require_distinct(dims);
  Term node{dtype, std::move(dims), InputTerm{std::make_shared<Storage>(data)}};
  if (data.defined()) check_data(node, data);
  return make_term(std::move(node));
}

// Whether `a` and `b` may be the same; symbols may be anything.
bool may_equal(const Expr& a, const Expr& b) { return !a.is_constant() || !b.is_constant() || a == b; }

bool may_equal(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype &&
         std::ranges::equal(a.shape, b.shape, [](const Expr& x, const Expr& y) { return may_equal(x, y); });
}

// Edits add variables behind those of the kernel. One that is folded is in no slot.
void check_vars(const loops::IR& schedule, const loops::IR& own) {
  if (schedule.vars().size() < own.vars().size()) fail("the schedule is of another kernel: it lacks variables");
  for (size_t i = 0; i < own.vars().size(); ++i) {
    const auto& [name, size] = schedule.vars()[i];
    if (may_equal(size, own.vars()[i].size)) continue;
    fail("the schedule is of another kernel: its variable {} has the size {}, not {}", name, size, own.vars()[i].size);
  }
}

// The name says what is computed, of any sizes.
void check_schedule(const loops::IR& schedule, const loops::IR& own) {
  if (schedule.name() != own.name()) {
    fail("the schedule is of another kernel ({}), this one is {}: make it from ir() or loop_tree()", schedule.name(),
         own.name());
  }
  const auto check_slots = [&](const std::vector<loops::NodeRef>& given, const std::vector<loops::NodeRef>& wanted,
                               std::string_view what) {
    if (given.size() != wanted.size()) {
      fail("the schedule is of another kernel: it has {} {}s, not {}", given.size(), what, wanted.size());
    }
    for (size_t slot = 0; slot < given.size(); ++slot) {
      const TensorType type = schedule.type(given[slot]), expected = own.type(wanted[slot]);
      if (may_equal(type, expected)) continue;
      fail("the schedule is of another kernel: its {} {} is {}, not {}", what, slot, to_string(type),
           to_string(expected));
    }
  };
  check_slots(schedule.reads(), own.reads(), "input");
  check_slots(schedule.writes(), own.writes(), "output");
  check_vars(schedule, own);
}

// The schedule that was set, if it is still one of this kernel; else plain loops.
loops::IR scheduled(LoweredTensor program, const RunSettings::Choice& choice) {
  if (!choice.schedule) return std::move(program.ir);
  check_schedule(*choice.schedule, program.ir);
  return *choice.schedule;
}

std::shared_ptr<const Backend> backend_of(const RunSettings::Choice& choice) {
  return find_backend(choice.backend.empty() ? default_backend() : choice.backend).value();
}

std::shared_ptr<const Kernel> kernel_of(LoweredTensor program, const RunSettings::Choice& choice,
                                        const std::shared_ptr<const Backend>& backend) {
  const Loops given = choice.schedule ? Loops::kAsGiven : Loops::kOfBackend;
  return kernel_for(scheduled(std::move(program), choice), backend, given);
}

std::vector<tenon::Sizes> shapes_of(const Term& node) {
  std::vector<tenon::Sizes> shapes;
  for (const Term* source : node.sources) {
    if (const auto* input = source->as<InputTerm>()) shapes.push_back(input->storage->data().shape());
  }
  return shapes;
}

using Feeds = std::map<const Storage*, tenon::Tensor>;

std::vector<tenon::Tensor> inputs_of(const LoweredTensor& program, const Feeds& feeds) {
  std::vector<tenon::Tensor> inputs;
  for (size_t slot = 0; slot < program.inputs.size(); ++slot) {
    const auto fed = feeds.find(program.inputs[slot].get());
    inputs.push_back(fed == feeds.end() ? program.inputs[slot]->data() : fed->second);
    if (!inputs.back().defined())
      fail("an input {} has no data: bind it", to_string(program.ir.type(program.ir.reads()[slot])));
  }
  return inputs;
}

// Where data came at the run: what the sizes must satisfy.
void check_conditions(const LoweredTensor& program, const std::vector<tenon::Tensor>& inputs) {
  if (program.conditions.empty()) return;
  std::vector<symbolic::Equation> equations;
  for (size_t slot = 0; slot < inputs.size(); ++slot) {
    const TensorType type = program.ir.type(program.ir.reads()[slot]);
    for (int64_t dim = 0; dim < type.rank(); ++dim) {
      equations.push_back({type.size(dim), inputs[slot].size(dim), fmt::format("dimension {} of input {}", dim, slot)});
    }
  }
  const symbolic::Bindings sizes = solve(equations, program.ir.ranges()).value();
  for (const auto& [expr, bound, origin] : program.conditions) {
    const int64_t value = evaluate(expr, sizes), limit = evaluate(bound, sizes);
    if (value < 0 || value >= limit) fail("{}: {} is {}, not from 0 to {}", origin, expr, value, limit - 1);
  }
}

void require_input(const Term& node, const Tensor& feed) {
  const Storage* storage = input_of(feed, "a feed").storage.get();
  const bool is_there = std::ranges::any_of(node.sources, [&](const Term* source) {
    const auto* input = source->as<InputTerm>();
    return input && input->storage.get() == storage;
  });
  if (!is_there) fail("the feed {} is no input of the expression {}", describe(*feed.node()), describe(node));
}

void require_sizes(const LoweredTensor& program) {
  std::set<symbolic::Symbol> said;
  for (loops::NodeRef read : program.ir.reads()) {
    for (const Expr& size : program.ir.type(read).shape) {
      for (symbolic::Symbol symbol : symbols_of(size)) said.insert(symbol);
    }
  }
  for (symbolic::Symbol symbol : program.ir.size_symbols()) {
    if (!said.contains(symbol)) fail("nothing says what {} is: bind data over it, or use with_sizes", symbol.name());
  }
}

std::vector<tenon::Tensor> data_of(const std::vector<std::shared_ptr<Storage>>& inputs) {
  std::vector<tenon::Tensor> data;
  for (const auto& storage : inputs) data.push_back(storage->data());
  return data;
}

tenon::Tensor run_kernel(const Kernel& kernel, const std::vector<tenon::Tensor>& inputs) {
  return run(*kernel.compiled, kernel.tree.ir, inputs).value()[0];
}

}  // namespace

// ---- inputs ---------------------------------------------------------------------------------------------------------

Tensor::Tensor(TermPtr node) : node_(std::move(node)), settings_(std::make_shared<RunSettings>()) {}

Tensor::Tensor(Symbols dims, DType dtype) : Tensor(input_term(dtype, std::move(dims), {})) {}

Tensor::Tensor(const tenon::Tensor& data, Symbols dims) : Tensor(input_term(data.dtype(), std::move(dims), data)) {}

void Tensor::bind(tenon::Tensor data) const {
  const InputTerm& input = input_of(*this, "bind");
  check_data(*node_, data);
  input.storage->exchange(data);
}

// ---- what it is -----------------------------------------------------------------------------------------------------

const std::vector<Symbol>& Tensor::dims() const { return node_->dims; }

DType Tensor::dtype() const { return node_->dtype; }

Shape Tensor::shape() const {
  const Sizes sizes = solve_sizes(*node_);
  Shape shape;
  for (const Symbol& dim : node_->dims) shape.push_back(sizes.of(dim));
  return shape;
}

Expr Tensor::size(const Symbol& symbol) const { return solve_sizes(*node_).of(symbol); }

// ---- compiling and running ------------------------------------------------------------------------------------------

tenon::Tensor Tensor::data() const {
  const RunSettings::Choice choice = settings_->get();
  const std::shared_ptr<const Backend> backend = backend_of(choice);
  std::vector<tenon::Sizes> shapes = shapes_of(*node_);
  const std::shared_ptr<const Prepared>& known = choice.prepared;
  if (known && known->backend == backend && known->shapes == shapes) {
    if (const auto kernel = known->kernel.lock()) return run_kernel(*kernel, data_of(known->inputs));
  }
  LoweredTensor program = lower(node_, {});
  const std::vector<tenon::Tensor> inputs = inputs_of(program, {});
  require_sizes(program);
  const std::vector<std::shared_ptr<Storage>> storages = program.inputs;
  const std::shared_ptr<const Kernel> kernel = kernel_of(std::move(program), choice, backend);
  settings_->keep(choice, std::make_shared<Prepared>(backend, std::move(shapes), storages, kernel));
  return run_kernel(*kernel, inputs);
}

tenon::Tensor Tensor::data(const std::vector<std::pair<Tensor, tenon::Tensor>>& feeds) const {
  Feeds fed;
  std::set<const Storage*> open;
  for (const auto& [tensor, data] : feeds) {
    const InputTerm& input = input_of(tensor, "a feed");
    check_data(*tensor.node(), data);
    if (!fed.emplace(input.storage.get(), data).second) fail("{} is fed twice", describe(*tensor.node()));
    open.insert(input.storage.get());
  }
  for (const auto& [tensor, data] : feeds) require_input(*node_, tensor);
  LoweredTensor program = lower(node_, open);
  const std::vector<tenon::Tensor> inputs = inputs_of(program, fed);
  require_sizes(program);
  check_conditions(program, inputs);
  const RunSettings::Choice choice = settings_->get();
  return run_kernel(*kernel_of(std::move(program), choice, backend_of(choice)), inputs);
}

std::string Tensor::code() const {
  const RunSettings::Choice choice = settings_->get();
  return kernel_of(lower(node_, {}), choice, backend_of(choice))->compiled->dump();
}

loops::IR Tensor::ir() const { return scheduled(lower(node_, {}), settings_->get()); }

loops::LoopTree Tensor::loop_tree() const { return loops::LoopTree(ir()); }

const Tensor& Tensor::set(const loops::LoopTree& schedule) const { return set(schedule.ir); }

const Tensor& Tensor::set(loops::IR schedule) const {
  check_schedule(schedule, lower(node_, {}).ir);
  settings_->set_schedule(std::make_shared<const loops::IR>(std::move(schedule)));
  return *this;
}

const Tensor& Tensor::reset_schedule() const {
  settings_->set_schedule(nullptr);
  return *this;
}

const Tensor& Tensor::backend(std::string name) const {
  find_backend(name).value();
  settings_->set_backend(std::move(name));
  return *this;
}

void set_default_backend(std::string name) {
  find_backend(name).value();
  const std::lock_guard lock(the_default().mutex);
  the_default().name = std::move(name);
}

std::string default_backend() {
  {
    const std::lock_guard lock(the_default().mutex);
    if (!the_default().name.empty()) return the_default().name;
  }
  const Result<std::shared_ptr<const Backend>> cpu = find_backend("cpu");
  return cpu.ok() && (*cpu)->is_available() ? "cpu" : "interpreter";
}

}  // namespace tenon::named
