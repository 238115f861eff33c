// The C++ face of tenon.h and device.h: owners that free what they hold, views of tensors, failures as exceptions.
// Header only; C++20.
//
//     const tenon::Program program = tenon::Program::load("model.tenon");
//     tenon::Context context(program);
//     context.set_input(0, tenon::Tensor::of(pixels, shape));
//     context.run();
//     for (float score : context.output(0).values<float>()) ...
//
// A program is immutable: threads may share it, each with a context of its own. What a view points to is somebody
// else's: the caller's, or the context's until its next run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/device.h"
#include "tenon/tenon.h"

namespace tenon {

// What a call of the runtime failed with.
class RuntimeError : public std::exception {
 public:
  RuntimeError(tenon_status status, std::string message) : status_(status), message_(std::move(message)) {}
  tenon_status status() const noexcept { return status_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  tenon_status status_;
  std::string message_;
};

namespace detail {

inline void need(tenon_status status) {
  if (status != TENON_OK) throw RuntimeError(status, tenon_error());
}

template <class T>
constexpr tenon_dtype dtype_of() {
  using Element = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Element, double>)
    return TENON_F64;
  else if constexpr (std::is_same_v<Element, float>)
    return TENON_F32;
  else if constexpr (std::is_same_v<Element, int64_t>)
    return TENON_I64;
  else if constexpr (std::is_same_v<Element, int32_t>)
    return TENON_I32;
  else if constexpr (std::is_same_v<Element, int16_t>)
    return TENON_I16;
  else if constexpr (std::is_same_v<Element, int8_t>)
    return TENON_I8;
  else if constexpr (std::is_same_v<Element, uint8_t>)
    return TENON_U8;
  else {
    static_assert(std::is_same_v<Element, bool>, "this type is no element type; f16 and bf16 are given as bytes");
    return TENON_BOOL;
  }
}

struct Free {
  void operator()(tenon_program* program) const noexcept { tenon_program_free(program); }
  void operator()(tenon_context* context) const noexcept { tenon_context_free(context); }
  void operator()(tenon_states* states) const noexcept { tenon_states_free(states); }
  void operator()(tenon_device_tensor* tensor) const noexcept { tenon_device_tensor_free(tensor); }
};

}  // namespace detail

// Memory with a type. It owns nothing: neither the elements nor, where it is given, the shape and the strides.
class Tensor {
 public:
  explicit Tensor(const tenon_tensor& tensor) : tensor_(tensor) {}
  // Row-major, or with strides in elements.
  Tensor(void* data, tenon_dtype dtype, std::span<const int64_t> shape, const int64_t* strides = nullptr)
      : tensor_{data, dtype, static_cast<int32_t>(shape.size()), shape.data(), strides} {}

  // Row-major. Inputs are only read, unless the program updates them. Throws where the count is not that of the shape.
  template <class T>
  static Tensor of(std::span<T> values, std::span<const int64_t> shape) {
    const Tensor tensor(const_cast<std::remove_const_t<T>*>(values.data()), detail::dtype_of<T>(), shape);
    if (tensor.elements() != values.size()) {
      throw RuntimeError(TENON_INVALID_ARGUMENT, std::to_string(values.size()) + " values are given for a shape of " +
                                                     std::to_string(tensor.elements()) + " elements");
    }
    return tensor;
  }
  template <class T>
  static Tensor of(std::vector<T>& values, std::span<const int64_t> shape) {
    return of(std::span<T>(values), shape);
  }

  void* data() const { return tensor_.data; }
  tenon_dtype dtype() const { return tensor_.dtype; }
  std::span<const int64_t> shape() const { return {tensor_.shape, static_cast<size_t>(tensor_.rank)}; }
  std::span<const int64_t> strides() const {  // in elements; empty where it is row-major
    return {tensor_.strides, tensor_.strides ? shape().size() : 0};
  }
  size_t elements() const {
    size_t count = 1;
    for (const int64_t size : shape()) count *= static_cast<size_t>(size);
    return count;
  }
  size_t bytes() const { return elements() * tenon_dtype_size(dtype()); }

  // Throws where the elements are of another type, or not row-major.
  template <class T>
  std::span<T> values() const {
    if (dtype() != detail::dtype_of<T>() || tensor_.strides != nullptr) {
      throw RuntimeError(TENON_INVALID_ARGUMENT, std::string("these are not row-major values of the asked type, but ") +
                                                     tenon_dtype_name(dtype()) +
                                                     (tensor_.strides ? " with strides" : ""));
    }
    return {static_cast<T*>(data()), elements()};
  }

  const tenon_tensor& get() const { return tensor_; }

 private:
  tenon_tensor tensor_;
};

// What a program takes or gives. Lives as long as the program.
class TensorInfo {
 public:
  explicit TensorInfo(const tenon_tensor_info& info) : info_(info) {}
  std::string_view name() const { return info_.name; }
  tenon_dtype dtype() const { return info_.dtype; }
  std::span<const tenon_dim> dims() const { return {info_.dims, static_cast<size_t>(info_.rank)}; }

  std::string text() const {  // "f32[N, 4]"
    std::string text = std::string(tenon_dtype_name(info_.dtype)) + "[";
    for (const tenon_dim& dim : dims()) text += (&dim == dims().data() ? "" : ", ") + std::string(dim.text);
    return text + "]";
  }

 private:
  tenon_tensor_info info_;
};

// ---- devices ----

// A plug-in's code runs in this process: load only what you trust. Returns the name of its device.
inline std::string_view load_plugin(const std::string& path) {
  const char* name = nullptr;
  detail::need(tenon_load_plugin(path.c_str(), &name));
  return name;
}
inline std::string_view register_device(tenon_device_plugin plugin) {  // a device that is part of this program
  const char* name = nullptr;
  detail::need(tenon_register_device(plugin, &name));
  return name;
}
inline std::vector<std::string_view> devices() {  // besides the CPU
  std::vector<std::string_view> names;
  for (size_t i = 0; i < tenon_device_count(); ++i) names.emplace_back(tenon_device_name(i));
  return names;
}

// A tensor in the memory of a device, row-major. A program that runs there reads or writes it without a transfer.
//
//     const tenon::DeviceTensor x("npu", image), y = tenon::DeviceTensor::empty("npu", TENON_F32, shape);
//     context.set_input(0, x);
//     context.set_output(0, y);
//     context.run();
//     y.read(tenon::Tensor::of(scores, shape));
class DeviceTensor {
 public:
  DeviceTensor(const std::string& device, const Tensor& tensor) : DeviceTensor(device, tensor.get()) {}  // a copy
  static DeviceTensor empty(const std::string& device, tenon_dtype dtype, std::span<const int64_t> shape) {
    return DeviceTensor(device, Tensor(nullptr, dtype, shape).get());
  }
  // Memory of the caller: the data is an address of the device, aligned as the device wants it. `release` is called
  // when neither a tensor nor a context uses it any more; it must not throw.
  static DeviceTensor wrap(const std::string& device, const Tensor& tensor, std::function<void()> release = {}) {
    using Release = std::function<void()>;
    auto owner = std::make_unique<Release>(std::move(release));
    const auto call = [](void* it) {
      const std::unique_ptr<Release> last(static_cast<Release*>(it));
      if (*last) (*last)();
    };
    tenon_device_tensor* made = nullptr;
    detail::need(tenon_device_tensor_wrap(device.c_str(), &tensor.get(), call, owner.get(), &made));
    owner.release();
    return DeviceTensor(made);
  }

  std::string_view device() const {
    const char* name = nullptr;
    tenon_tensor type;
    detail::need(tenon_device_tensor_info(get(), &name, &type));
    return name;
  }
  Tensor info() const {  // its type, with an address of the device as data; valid as long as the tensor
    tenon_tensor type;
    detail::need(tenon_device_tensor_info(get(), nullptr, &type));
    return Tensor(type);
  }
  void read(const Tensor& to) const { detail::need(tenon_device_tensor_read(get(), &to.get())); }  // to the host

  tenon_device_tensor* get() const { return tensor_.get(); }

 private:
  DeviceTensor(const std::string& device, const tenon_tensor& tensor) {
    tenon_device_tensor* made = nullptr;
    detail::need(tenon_device_tensor_create(device.c_str(), &tensor, &made));
    tensor_.reset(made);
  }
  explicit DeviceTensor(tenon_device_tensor* tensor) : tensor_(tensor) {}

  std::unique_ptr<tenon_device_tensor, detail::Free> tensor_;
};

// ---- calls ----

// A call that a model needs from this program.
class Call {
 public:
  explicit Call(tenon_call& call) : call_(call) {}

  std::string_view name() const { return call_.name; }
  std::string_view text() const { return call_.text; }  // "(self=%0, dim=-1) -> %0": how it is called
  size_t input_count() const { return call_.input_count; }
  size_t output_count() const { return call_.output_count; }
  Tensor input(size_t number) const {  // row-major; to read, until the function returns
    check(number, call_.input_count);
    return Tensor(call_.inputs[number]);
  }
  Tensor output_type(size_t number) const {  // without data; a size of -1: only the call knows it
    check(number, call_.output_count);
    return Tensor(call_.outputs[number]);
  }
  // Memory for a result, row-major; each result must be made. The shape must stay as long as the view.
  Tensor make_output(size_t number, std::span<const int64_t> shape) {
    const Tensor type = output_type(number);
    const bool has_rank = shape.size() == type.shape().size();
    void* const memory = has_rank ? call_.make_output(&call_, number, shape.data()) : nullptr;
    if (memory == nullptr) {
      throw RuntimeError(has_rank ? TENON_OUT_OF_MEMORY : TENON_RUN_FAILED,
                         "there is no memory for result " + std::to_string(number) + " of these sizes");
    }
    return Tensor(memory, type.dtype(), shape);
  }

 private:
  static void check(size_t number, uint64_t count) {
    if (number < count) return;
    throw RuntimeError(TENON_RUN_FAILED, "there are " + std::to_string(count) + ", and number " +
                                             std::to_string(number) + " was asked for");
  }

  tenon_call& call_;
};

// For the models that are loaded from now on. Threads may call it at once. What it throws ends the run, with its text.
// It replaces a function of the same name, and is kept as long as the process: loaded programs may still call it.
//
//     tenon::register_call("mine.twice.default", [](tenon::Call& call) {
//       const tenon::Tensor x = call.input(0), y = call.make_output(0, x.shape());
//       std::ranges::transform(x.values<float>(), y.values<float>().begin(), [](float each) { return 2 * each; });
//     });
inline void register_call(const std::string& name, std::function<void(Call&)> function) {
  using Function = std::function<void(Call&)>;
  const auto run = [](void* user_data, tenon_call* call, tenon_text* error) -> tenon_status {
    try {
      Call given(*call);
      (*static_cast<const Function*>(user_data))(given);
      return TENON_OK;
    } catch (const RuntimeError& failure) {
      return tenon_write_text(error, failure.status(), failure.what());
    } catch (const std::bad_alloc&) {
      return tenon_write_text(error, TENON_OUT_OF_MEMORY, "out of memory");
    } catch (const std::exception& failure) {
      return tenon_write_text(error, TENON_RUN_FAILED, failure.what());
    } catch (...) {
      return tenon_write_text(error, TENON_RUN_FAILED, "the function threw what is no std::exception");
    }
  };
  static std::mutex mutex;
  static std::list<Function>& kept = *new std::list<Function>;  // also after the program's last static is gone
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(function));
  detail::need(tenon_register_call(name.c_str(), run, &kept.back()));
}
inline void forget_call(const std::string& name) { detail::need(tenon_register_call(name.c_str(), nullptr, nullptr)); }

// ---- programs and runs ----

class Program {
 public:
  static Program load(const std::string& path, const tenon_load_options& options = {}) {
    tenon_program* program = nullptr;
    detail::need(tenon_load_file(path.c_str(), &options, &program));
    return Program(program);
  }
  // The bytes must stay until the program and its contexts are gone.
  static Program load(std::span<const std::byte> bytes, const tenon_load_options& options = {}) {
    tenon_program* program = nullptr;
    detail::need(tenon_load_memory(bytes.data(), bytes.size(), &options, &program));
    return Program(program);
  }

  std::string_view name() const { return tenon_program_name(get()); }
  std::vector<std::string> entries() const {  // of its file: "main" of one that says no more
    std::vector<std::string> names;
    for (size_t i = 0; i < tenon_entry_count(get()); ++i) names.emplace_back(tenon_entry_name(get(), i));
    return names;
  }
  Program entry(const std::string& name) const {  // lives on its own
    tenon_program* program = nullptr;
    detail::need(tenon_program_entry(get(), name.c_str(), &program));
    return Program(program);
  }
  size_t input_count() const { return tenon_input_count(get()); }
  size_t output_count() const { return tenon_output_count(get()); }
  size_t symbol_count() const { return tenon_symbol_count(get()); }
  TensorInfo input(size_t number) const {
    tenon_tensor_info info;
    detail::need(tenon_input_info(get(), number, &info));
    return TensorInfo(info);
  }
  TensorInfo output(size_t number) const {
    tenon_tensor_info info;
    detail::need(tenon_output_info(get(), number, &info));
    return TensorInfo(info);
  }
  tenon_symbol symbol(size_t number) const {
    tenon_symbol info;
    detail::need(tenon_symbol_info(get(), number, &info));
    return info;
  }

  const tenon_program* get() const { return program_.get(); }

 private:
  explicit Program(tenon_program* program) : program_(program) {}

  std::unique_ptr<tenon_program, detail::Free> program_;
};

// What a model keeps from run to run, by name. Contexts of several entries may run over one set of states, one at a
// time: whoever comes meanwhile from another thread gets an exception.
//
//     tenon::States states(program);
//     tenon::Context step(program.entry("step"), states), eval(program.entry("eval"), states);
//     states.save("checkpoint.tenon");
class States {
 public:
  explicit States(const Program& program, const tenon_states_options& options = {}) {
    tenon_states* states = nullptr;
    detail::need(tenon_states_create(program.get(), &options, &states));
    states_.reset(states);
  }

  size_t count() const { return tenon_state_count(get()); }
  int64_t bytes() const { return tenon_states_bytes(get()); }
  TensorInfo info(size_t number) const {
    tenon_tensor_info info;
    detail::need(tenon_state_info(get(), number, &info));
    return TensorInfo(info);
  }
  size_t find(const std::string& name) const {
    size_t number = 0;
    detail::need(tenon_find_state(get(), name.c_str(), &number));
    return number;
  }

  Tensor get(size_t number) const {  // to read, until the next run or change
    tenon_tensor tensor;
    detail::need(tenon_get_state(get(), number, &tensor));
    return Tensor(tensor);
  }
  Tensor get(const std::string& name) const { return get(find(name)); }
  void set(size_t number, const Tensor& tensor) { detail::need(tenon_set_state(get(), number, &tensor.get())); }
  void set(const std::string& name, const Tensor& tensor) { set(find(name), tensor); }
  void reset() { detail::need(tenon_states_reset(get())); }

  void set_note(const std::string& key, const std::string& value) {
    detail::need(tenon_set_note(get(), key.c_str(), value.c_str()));
  }
  std::vector<std::pair<std::string, std::string>> notes() const {
    std::vector<std::pair<std::string, std::string>> all;
    for (size_t i = 0; i < tenon_note_count(get()); ++i) {
      tenon_note note;
      detail::need(tenon_get_note(get(), i, &note));
      all.emplace_back(note.key, note.value);
    }
    return all;
  }

  void save(const std::string& path) { detail::need(tenon_states_save(get(), path.c_str())); }
  void load(const std::string& path) { detail::need(tenon_states_load(get(), path.c_str())); }
  void export_safetensors(const std::string& path) { detail::need(tenon_states_export(get(), path.c_str())); }

  tenon_states* get() const { return states_.get(); }

 private:
  friend class Context;
  explicit States(tenon_states* states) : states_(states) {}

  std::unique_ptr<tenon_states, detail::Free> states_;
};

// Threads of this program, for the parallel loops of contexts. The function calls body(i) for each i below `count`, on
// whatever threads it has, and returns when they are done. What it throws fails the run, with its text.
//
//     const tenon::Executor executor([&](int64_t count, auto body) { pool.for_each(count, body); });
//     tenon::Context context(program, {.threads = 8, .executor = &executor.get()});
class Executor {
 public:
  class Body {
   public:
    Body(void (*body)(void* data, int64_t index), void* data) : body_(body), data_(data) {}
    void operator()(int64_t index) const { body_(data_, index); }

   private:
    void (*body_)(void* data, int64_t index);
    void* data_;
  };
  using Function = std::function<void(int64_t count, Body body)>;

  explicit Executor(Function function) : function_(std::make_unique<const Function>(std::move(function))) {
    executor_.user = const_cast<Function*>(function_.get());
    executor_.parallel = [](void* user, int64_t count, void (*body)(void* data, int64_t index), void* data) {
      (*static_cast<const Function*>(user))(count, Body(body, data));
    };
  }

  const tenon_executor& get() const { return executor_; }  // valid as long as the executor

 private:
  std::unique_ptr<const Function> function_;
  tenon_executor executor_;
};

// Belongs to one thread at a time, and keeps what it needs of its program.
class Context {
 public:
  // Budgets bound the memory of devices, in bytes: {{"npu", 64 << 20}}.
  using DeviceBudgets = std::vector<tenon_device_budget>;
  explicit Context(const Program& program, const tenon_context_options& options = {}, const DeviceBudgets& budgets = {})
      : output_count_(program.output_count()) {
    tenon_context* context = nullptr;
    const tenon_context_options all = with(options, budgets);
    detail::need(tenon_context_create(program.get(), &all, &context));
    context_.reset(context);
  }
  Context(const Program& program, const States& states, const tenon_context_options& options = {},
          const DeviceBudgets& budgets = {})
      : output_count_(program.output_count()) {
    tenon_context* context = nullptr;
    const tenon_context_options all = with(options, budgets);
    detail::need(tenon_context_create_with(program.get(), &all, states.get(), &context));
    context_.reset(context);
  }

  States states() const {  // that it runs over
    tenon_states* states = nullptr;
    detail::need(tenon_context_states(context_.get(), &states));
    return States(states);
  }

  // Random numbers of the next runs follow from it. Without a seed each run draws one.
  void set_seed(int64_t seed) { detail::need(tenon_set_seed(context_.get(), seed)); }
  void set_input(size_t number, const Tensor& tensor) {
    detail::need(tenon_set_input(context_.get(), number, &tensor.get()));
  }
  void set_input(size_t number, const DeviceTensor& tensor) {  // the context keeps it until another is set
    detail::need(tenon_set_input_on_device(context_.get(), number, tensor.get()));
  }
  // The result goes there from now on, until forget_output.
  void set_output(size_t number, const Tensor& tensor) {
    detail::need(tenon_set_output(context_.get(), number, &tensor.get()));
  }
  void set_output(size_t number, const DeviceTensor& tensor) {
    detail::need(tenon_set_output_on_device(context_.get(), number, tensor.get()));
  }
  void forget_output(size_t number) { detail::need(tenon_set_output(context_.get(), number, nullptr)); }

  void run() { detail::need(tenon_run(context_.get())); }

  Tensor output(size_t number) const {
    tenon_tensor tensor;
    detail::need(tenon_get_output(context_.get(), number, &tensor));
    return Tensor(tensor);
  }
  std::vector<Tensor> outputs() const {
    std::vector<Tensor> all;
    for (size_t i = 0; i < output_count_; ++i) all.push_back(output(i));
    return all;
  }

  tenon_memory memory() const {
    tenon_memory memory;
    detail::need(tenon_context_memory(context_.get(), &memory));
    return memory;
  }
  std::vector<tenon_event> events() const {  // of the last run; empty without telemetry
    std::vector<tenon_event> all(tenon_event_count(context_.get()));
    for (size_t i = 0; i < all.size(); ++i) detail::need(tenon_get_event(context_.get(), i, &all[i]));
    return all;
  }

  tenon_context* get() const { return context_.get(); }

 private:
  static tenon_context_options with(tenon_context_options options, const DeviceBudgets& budgets) {
    if (budgets.empty()) return options;
    options.device_budgets = budgets.data();
    options.device_budget_count = budgets.size();
    return options;
  }

  size_t output_count_;
  std::unique_ptr<tenon_context, detail::Free> context_;
};

}  // namespace tenon
