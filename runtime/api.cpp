// The C interface. Nothing is thrown past it: each function that can fail is a body inside of `guarded`.
#include <new>
#include <string>

#include "runtime/artifact.h"
#include "runtime/context.h"
#include "runtime/error.h"
#include "tenon/tenon.h"

using tenon::runtime::Container;
using tenon::runtime::Context;
using tenon::runtime::Error;
using tenon::runtime::fail;
using tenon::runtime::Program;
using tenon::runtime::TensorInfo;

// ---- objects --------------------------------------------------------------------------------------------------------

namespace tenon::runtime {

// What tenon_tensor_info points to.
struct Description {
  std::string name;
  std::vector<std::string> texts;
  std::vector<tenon_dim> dims;
  tenon_dtype dtype;
};

// A program with names that end in zero. Its contexts keep it.
struct NamedProgram {
  std::shared_ptr<const Program> program;
  std::string name;
  std::vector<Description> inputs;
  std::vector<Description> outputs;
  std::vector<std::string> symbols;
  std::vector<std::string> tasks;
};

}  // namespace tenon::runtime

using tenon::runtime::Description;
using tenon::runtime::NamedProgram;

struct tenon_program {
  std::shared_ptr<const NamedProgram> shared;
};

struct tenon_context {
  std::shared_ptr<const NamedProgram> owner;
  Context context;
};

namespace {

// ---- failure --------------------------------------------------------------------------------------------------------

// A text that is there also when there is no memory for another.
class LastError {
 public:
  void set(const char* text) noexcept {
    try {
      text_ = text;
    } catch (...) {
      text_.clear();
    }
  }
  const char* get() const { return text_.empty() ? "there is no memory" : text_.c_str(); }

 private:
  std::string text_;
};

thread_local LastError last_error;

tenon_status failed(tenon_status status, const char* text) noexcept {
  last_error.set(text);
  return status;
}

template <class Body>
tenon_status guarded(Body&& body) noexcept {
  try {
    body();
    return TENON_OK;
  } catch (const Error& error) {
    return failed(error.status(), error.message().c_str());
  } catch (const std::bad_alloc&) {
    return failed(TENON_OUT_OF_MEMORY, "there is no memory");
  } catch (const std::exception& error) {
    return failed(TENON_INTERNAL, error.what());
  }
}

void demand(bool condition, const char* what) {
  if (!condition) fail(TENON_INVALID_ARGUMENT, what);
}

void demand_below(size_t number, size_t count, const char* what) {
  if (number >= count) fail(TENON_INVALID_ARGUMENT, "there is no ", what, " ", number, ": there are ", count);
}

// ---- descriptions ---------------------------------------------------------------------------------------------------

Description describe(const Program& program, const TensorInfo& info) {
  const auto& graph = program.graph();
  const auto& slot = graph.slots[info.slot];
  Description result{std::string(info.name), {}, {}, slot.dtype};
  for (const auto& size : slot.shape) result.texts.push_back(expr_text(graph, size));
  for (size_t i = 0; i < slot.shape.size(); ++i) {
    const auto& first = graph.code[slot.shape[i].first()];
    const bool is_constant = slot.shape[i].count() == 1 && first.op() == tenon::format::ExprOp::Constant;
    result.dims.push_back({is_constant ? first.value() : -1, result.texts[i].c_str()});
  }
  return result;
}

std::shared_ptr<const NamedProgram> named(std::shared_ptr<const Program> program) {
  auto shared = std::make_shared<NamedProgram>();
  const auto& graph = program->graph();
  shared->name = graph.name;
  for (const TensorInfo& input : graph.inputs) shared->inputs.push_back(describe(*program, input));
  for (const TensorInfo& output : graph.outputs) shared->outputs.push_back(describe(*program, output));
  for (const auto& symbol : graph.symbols) shared->symbols.emplace_back(symbol.name);
  for (const auto& task : graph.tasks) shared->tasks.emplace_back(task.name);
  shared->program = std::move(program);
  return shared;
}

const NamedProgram& contents(const tenon_program* program) {
  demand(program != nullptr, "the program is null");
  return *program->shared;
}

void give_info(const std::vector<Description>& from, size_t number, const char* what, tenon_tensor_info* info) {
  demand(info != nullptr, "the place for the description is null");
  demand_below(number, from.size(), what);
  const Description& d = from[number];
  *info = {d.name.c_str(), d.dtype, static_cast<int32_t>(d.dims.size()), d.dims.data()};
}

void load(std::shared_ptr<const Container> container, const tenon_load_options* options, tenon_program** program) {
  const tenon::runtime::LoadOptions load_options{.native = options == nullptr || options->no_native == 0};
  *program = new tenon_program{named(load_program(std::move(container), load_options))};
}

void check_tensor(const tenon_tensor& tensor) {
  demand(tenon_dtype_size(tensor.dtype) != 0, "the tensor has an unknown dtype");
  demand(tensor.rank >= 0, "the tensor has a negative rank");
  demand(tensor.rank == 0 || tensor.shape != nullptr, "the tensor has no shape");
  int64_t elements = 1;
  for (int32_t i = 0; i < tensor.rank; ++i) {
    demand(tensor.shape[i] >= 0, "the tensor has a negative size");
    demand(!__builtin_mul_overflow(elements, tensor.shape[i], &elements), "the tensor is too large");
  }
  demand(elements == 0 || tensor.data != nullptr, "the tensor has no data");
}

}  // namespace

// ---- functions ------------------------------------------------------------------------------------------------------

const char* tenon_error() { return last_error.get(); }

const char* tenon_version() { return TENON_VERSION; }

tenon_status tenon_load_file(const char* path, const tenon_load_options* options, tenon_program** program) {
  return guarded([&] {
    demand(path != nullptr && program != nullptr, "tenon_load_file needs a path and a place for the program");
    try {
      load(std::make_shared<const Container>(Container::open(path)), options, program);
    } catch (const Error& error) {
      const std::string start = std::string(path) + ": ";
      throw Error(error.status(), (error.message().starts_with(start) ? "" : start) + error.message());
    }
  });
}

tenon_status tenon_load_memory(const void* bytes, size_t size, const tenon_load_options* options,
                               tenon_program** program) {
  return guarded([&] {
    demand(bytes != nullptr && program != nullptr, "tenon_load_memory needs bytes and a place for the program");
    load(std::make_shared<const Container>(Container::of_memory({static_cast<const std::byte*>(bytes), size})), options,
         program);
  });
}

void tenon_program_free(tenon_program* program) { delete program; }

const char* tenon_program_name(const tenon_program* program) {
  return program == nullptr ? "" : contents(program).name.c_str();
}

size_t tenon_input_count(const tenon_program* program) {
  return program == nullptr ? 0 : contents(program).inputs.size();
}

size_t tenon_output_count(const tenon_program* program) {
  return program == nullptr ? 0 : contents(program).outputs.size();
}

size_t tenon_symbol_count(const tenon_program* program) {
  return program == nullptr ? 0 : contents(program).symbols.size();
}

tenon_status tenon_input_info(const tenon_program* program, size_t input, tenon_tensor_info* info) {
  return guarded([&] { give_info(contents(program).inputs, input, "input", info); });
}

tenon_status tenon_output_info(const tenon_program* program, size_t output, tenon_tensor_info* info) {
  return guarded([&] { give_info(contents(program).outputs, output, "output", info); });
}

tenon_status tenon_symbol_info(const tenon_program* program, size_t symbol, tenon_symbol* info) {
  return guarded([&] {
    const NamedProgram& own = contents(program);
    demand(info != nullptr, "the place for the description is null");
    demand_below(symbol, own.symbols.size(), "symbol");
    const auto& from = own.program->graph().symbols[symbol];
    *info = {own.symbols[symbol].c_str(), from.low, from.high};
  });
}

tenon_status tenon_context_create(const tenon_program* program, const tenon_context_options* options,
                                  tenon_context** context) {
  return guarded([&] {
    demand(context != nullptr, "the place for the context is null");
    contents(program);
    tenon::runtime::ContextOptions own{.checks_memory = true};
    if (options != nullptr) {
      demand(options->threads >= 0 && options->budget >= 0, "threads and budget must not be negative");
      own.threads = options->threads;
      own.telemetry = options->telemetry != 0;
      if (options->budget > 0) own.budget = options->budget;
    }
    *context = new tenon_context{program->shared, Context(program->shared->program, own)};
  });
}

void tenon_context_free(tenon_context* context) { delete context; }

tenon_status tenon_set_input(tenon_context* context, size_t input, const tenon_tensor* tensor) {
  return guarded([&] {
    demand(context != nullptr && tensor != nullptr, "tenon_set_input needs a context and a tensor");
    demand_below(input, context->owner->inputs.size(), "input");
    check_tensor(*tensor);
    context->context.set_input(input, *tensor);
  });
}

tenon_status tenon_set_output(tenon_context* context, size_t output, const tenon_tensor* tensor) {
  return guarded([&] {
    demand(context != nullptr, "tenon_set_output needs a context");
    demand_below(output, context->owner->outputs.size(), "output");
    if (tensor != nullptr) check_tensor(*tensor);
    context->context.set_output(output, tensor ? *tensor : tenon_tensor{});
  });
}

tenon_status tenon_run(tenon_context* context) {
  return guarded([&] {
    demand(context != nullptr, "tenon_run needs a context");
    try {
      context->context.run();
    } catch (const Error& error) {
      const uint32_t task = context->context.failed_task();
      if (task == tenon::runtime::kNone) throw;
      throw Error(error.status(), context->owner->tasks[task] + ": " + error.message());
    }
  });
}

tenon_status tenon_get_output(const tenon_context* context, size_t output, tenon_tensor* tensor) {
  return guarded([&] {
    demand(context != nullptr && tensor != nullptr, "tenon_get_output needs a context and a place for the tensor");
    demand_below(output, context->owner->outputs.size(), "output");
    demand(context->context.has_run(), "there is no result: the context has not run");
    *tensor = context->context.output_tensor(output);
  });
}

tenon_status tenon_context_memory(const tenon_context* context, tenon_memory* memory) {
  return guarded([&] {
    demand(context != nullptr && memory != nullptr, "tenon_context_memory needs a context and a place for the numbers");
    const auto& allocator = context->context.allocator();
    const auto* const frame = context->context.frame();
    *memory = {allocator.used(), allocator.peak(), frame ? frame->arena_bytes : 0, frame ? frame->least_bytes : 0};
  });
}

size_t tenon_event_count(const tenon_context* context) {
  return context == nullptr ? 0 : context->context.events().size();
}

tenon_status tenon_get_event(const tenon_context* context, size_t number, tenon_event* event) {
  return guarded([&] {
    demand(context != nullptr && event != nullptr, "tenon_get_event needs a context and a place for the event");
    const auto events = context->context.events();
    demand_below(number, events.size(), "event");
    static constexpr const char* kKinds[] = {"kernel", "library", "host"};
    const auto& from = events[number];
    const auto& task = context->owner->program->graph().tasks[from.task];
    *event = {
        context->owner->tasks[from.task].c_str(),  kKinds[static_cast<int>(task.kind)],      from.start_ns, from.end_ns,
        context->context.bytes_of_task(from.task), context->context.flops_of_task(from.task)};
  });
}
