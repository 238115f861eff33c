// The C interface. Nothing is thrown past it: each function that can fail is a body inside of `guarded`.
#include "runtime/api.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "runtime/artifact.h"
#include "runtime/checkpoint.h"
#include "runtime/error.h"
#include "runtime/shared.h"
#include "tenon/tenon.h"

using tenon::runtime::check_tensor;
using tenon::runtime::Container;
using tenon::runtime::Context;
using tenon::runtime::demand;
using tenon::runtime::demand_below;
using tenon::runtime::Description;
using tenon::runtime::fail;
using tenon::runtime::guarded;
using tenon::runtime::LoadedProgram;
using tenon::runtime::NamedProgram;
using tenon::runtime::new_shared;
using tenon::runtime::StateInfo;
using tenon::runtime::States;
using tenon::runtime::StatusError;
using tenon::runtime::TensorInfo;
using tenon::runtime::with_path;

// ---- objects --------------------------------------------------------------------------------------------------------

using Entries = std::vector<std::shared_ptr<const NamedProgram>>;

struct tenon_states {
  std::shared_ptr<States> states;
  std::vector<Description> infos;
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

}  // namespace

namespace tenon::runtime {

// One for all bodies: where they are caught is code too.
tenon_status guarded_call(void (*call)(const void* body), const void* body) noexcept {
  try {
    call(body);
    return TENON_OK;
  } catch (const StatusError& error) {
    return failed(error.status(), error.message().c_str());
  } catch (const std::bad_alloc&) {
    return failed(TENON_OUT_OF_MEMORY, "there is no memory");
  } catch (const std::exception& error) {
    return failed(TENON_INTERNAL, error.what());
  } catch (...) {
    return failed(TENON_INTERNAL, "a function of the host threw an object that is not a std::exception");
  }
}

void demand(bool condition, const char* what) {
  if (!condition) fail(TENON_INVALID_ARGUMENT, what);
}

void demand_below(size_t number, size_t count, const char* what) {
  if (number >= count) fail(TENON_INVALID_ARGUMENT, "there is no ", what, " ", number, ": there are ", count);
}

namespace {

// Offsets in bytes fit 64 bits with room to spare.
void check_reach(const tenon_tensor& tensor) {
  int64_t reach = 0;
  for (int32_t i = 0; tensor.strides != nullptr && i < tensor.rank; ++i) {
    const int64_t stride = tensor.strides[i];
    int64_t part = 0;
    const bool fits = stride != INT64_MIN && !__builtin_mul_overflow(tensor.shape[i] - 1, std::abs(stride), &part) &&
                      !__builtin_add_overflow(reach, part, &reach) && reach < INT64_MAX / 64;
    demand(fits, "the tensor's strides are too large");
  }
}

}  // namespace

void check_tensor(const tenon_tensor& tensor) {
  demand(tenon_dtype_size(tensor.dtype) != 0, "the tensor has an unknown dtype");
  demand(tensor.rank >= 0, "the tensor has a negative rank");
  demand(tensor.rank == 0 || tensor.shape != nullptr, "the tensor has no shape");
  int64_t elements = 1;
  for (int32_t i = 0; i < tensor.rank; ++i) {
    demand(tensor.shape[i] >= 0, "the tensor has a negative size");
    demand(!__builtin_mul_overflow(elements, tensor.shape[i], &elements), "the tensor is too large");
  }
  if (elements == 0) return;
  demand(tensor.data != nullptr, "the tensor has no data");
  demand(reinterpret_cast<uintptr_t>(tensor.data) % tenon_dtype_size(tensor.dtype) == 0,
         "the tensor's data is not aligned to its elements");
  check_reach(tensor);
}

Description describe(const LoadedProgram& program, std::string name, uint32_t number) {
  const auto& graph = program.graph();
  const auto& slot = graph.slots[number];
  Description result{std::move(name), {}, {}, slot.dtype};
  for (const auto& size : slot.shape) result.texts.push_back(expr_text(graph, size));
  for (size_t i = 0; i < slot.shape.size(); ++i) {
    const auto& first = graph.code[slot.shape[i].first()];
    const bool is_constant = slot.shape[i].count() == 1 && first.op() == format::ExprOp::Constant;
    result.dims.push_back({is_constant ? first.value() : -1, result.texts[i].c_str()});
  }
  return result;
}

}  // namespace tenon::runtime

namespace {

// ---- options --------------------------------------------------------------------------------------------------------

// Copies as much of the caller's struct as both sides know. The rest of ours keeps its defaults; a member of theirs
// that we do not know must be zero.
void copy_options(const void* from, void* to, size_t known, const char* type) {
  size_t size = 0;
  std::memcpy(&size, from, sizeof size);
  if (size < sizeof size) {
    fail(TENON_INVALID_ARGUMENT, "the size of the options is ", size, "; set it to sizeof(", type, ")");
  }
  const auto* const bytes = static_cast<const unsigned char*>(from);
  for (size_t i = known; i < size; ++i) {
    if (bytes[i] == 0) continue;
    fail(TENON_UNSUPPORTED, "byte ", i, " of the ", type, " is set, but Tenon " TENON_VERSION " knows ", known,
         " bytes of them; leave newer options at 0, or use a newer library");
  }
  std::memcpy(to, from, std::min(size, known));
}

template <class Options>
Options options_of(const Options* given, const char* type) {
  Options options{};
  if (given != nullptr) copy_options(given, &options, sizeof options, type);
  return options;
}

// ---- descriptions ---------------------------------------------------------------------------------------------------

Description describe(const StateInfo& info) {
  Description result{info.name, {}, {}, info.dtype};
  for (const int64_t size : info.shape) result.texts.push_back(tenon::runtime::text_of(size));
  for (size_t i = 0; i < info.shape.size(); ++i) result.dims.push_back({info.shape[i], result.texts[i].c_str()});
  return result;
}

std::shared_ptr<const NamedProgram> named(std::string entry, std::shared_ptr<const LoadedProgram> program) {
  auto shared = new_shared<NamedProgram>();
  shared->entry = std::move(entry);
  const auto& graph = program->graph();
  shared->name = graph.name;
  for (const TensorInfo& input : graph.inputs)
    shared->inputs.push_back(tenon::runtime::describe(*program, std::string(input.name), input.slot));
  for (const TensorInfo& output : graph.outputs)
    shared->outputs.push_back(tenon::runtime::describe(*program, std::string(output.name), output.slot));
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

void load(const std::shared_ptr<const Container>& container, const tenon_load_options& options,
          tenon_program** program) {
  const tenon::runtime::LoadOptions load_options{.native = options.no_native == 0,
                                                 .device = options.device == nullptr ? "" : options.device};
  auto entries = new_shared<Entries>();
  for (auto& [name, entry] : load_entries(container, load_options)) entries->push_back(named(name, std::move(entry)));
  *program = new tenon_program{.entries = entries, .shared = entries->front()};
}

// ---- states ---------------------------------------------------------------------------------------------------------

tenon_states* make_states(std::shared_ptr<States> states) {
  auto made = std::make_unique<tenon_states>();
  for (const StateInfo& info : states->all()) made->infos.push_back(describe(info));
  made->states = std::move(states);
  return made.release();
}

States& contents(tenon_states* states) {
  demand(states != nullptr, "the states are null");
  return *states->states;
}

// While nobody else uses them.
template <class Body>
tenon_status with_states(tenon_states* states, Body body) {
  return guarded([&] {
    const States::Use use(contents(states));
    body(*states->states);
  });
}

tenon_executor executor_of(const tenon_executor* given) {
  const tenon_executor executor = options_of(given, "tenon_executor");
  demand(given == nullptr || executor.parallel != nullptr, "the executor's function `parallel` is null");
  return executor;
}

void create_context(const tenon_program* program, const tenon_context_options* options, std::shared_ptr<States> states,
                    tenon_context** context) {
  demand(context != nullptr, "the place for the context is null");
  contents(program);
  const tenon_context_options given = options_of(options, "tenon_context_options");
  demand(given.threads >= 0 && given.budget >= 0, "threads and budget must not be negative");
  tenon::runtime::ContextOptions own{.threads = given.threads,
                                     .executor = executor_of(given.executor),
                                     .telemetry = given.telemetry != 0,
                                     .checks_memory = true};
  if (given.budget > 0) own.budget = given.budget;
  demand(given.device_budgets != nullptr || given.device_budget_count == 0, "the budgets of devices are null");
  for (uint64_t i = 0; i < given.device_budget_count; ++i) {
    const tenon_device_budget& each = given.device_budgets[i];
    demand(each.device != nullptr && each.bytes >= 0, "a budget needs a device, and must not be negative");
    own.device_budgets.emplace_back(each.device, each.bytes);
  }
  *context = new tenon_context{program->shared, Context(program->shared->program, own, std::move(states))};
}

}  // namespace

// ---- functions ------------------------------------------------------------------------------------------------------

const char* tenon_error() { return last_error.get(); }

const char* tenon_version() { return TENON_VERSION; }

tenon_status tenon_load_file(const char* path, const tenon_load_options* options, tenon_program** program) {
  return guarded([=] {
    demand(path != nullptr && program != nullptr, "tenon_load_file needs a path and a place for the program");
    const tenon_load_options given = options_of(options, "tenon_load_options");
    with_path(path, [&] { load(new_shared<const Container>(Container::open(path)), given, program); });
  });
}

tenon_status tenon_load_memory(const void* bytes, size_t size, const tenon_load_options* options,
                               tenon_program** program) {
  return guarded([=] {
    demand(bytes != nullptr && program != nullptr, "tenon_load_memory needs bytes and a place for the program");
    load(new_shared<const Container>(Container::of_memory({static_cast<const std::byte*>(bytes), size})),
         options_of(options, "tenon_load_options"), program);
  });
}

void tenon_program_free(tenon_program* program) { delete program; }

const char* tenon_program_name(const tenon_program* program) {
  return program == nullptr ? "" : contents(program).name.c_str();
}

size_t tenon_entry_count(const tenon_program* program) { return program == nullptr ? 0 : program->entries->size(); }

const char* tenon_entry_name(const tenon_program* program, size_t entry) {
  return entry < tenon_entry_count(program) ? (*program->entries)[entry]->entry.c_str() : "";
}

tenon_status tenon_program_entry(const tenon_program* program, const char* name, tenon_program** entry) {
  return guarded([=] {
    contents(program);
    demand(name != nullptr && entry != nullptr, "tenon_program_entry needs a name and a place for the program");
    std::string names;
    for (const auto& each : *program->entries) {
      if (each->entry == name) {
        *entry = new tenon_program{.entries = program->entries, .shared = each};
        return;
      }
      names += (names.empty() ? "" : ", ") + each->entry;
    }
    fail(TENON_INVALID_ARGUMENT, "the file has no entry '", name, "'; its entries are ", names);
  });
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
  return guarded([=] { give_info(contents(program).inputs, input, "input", info); });
}

tenon_status tenon_output_info(const tenon_program* program, size_t output, tenon_tensor_info* info) {
  return guarded([=] { give_info(contents(program).outputs, output, "output", info); });
}

tenon_status tenon_symbol_info(const tenon_program* program, size_t symbol, tenon_symbol* info) {
  return guarded([=] {
    const NamedProgram& own = contents(program);
    demand(info != nullptr, "the place for the description is null");
    demand_below(symbol, own.symbols.size(), "symbol");
    const auto& from = own.program->graph().symbols[symbol];
    *info = {own.symbols[symbol].c_str(), from.low, from.high};
  });
}

tenon_status tenon_context_create(const tenon_program* program, const tenon_context_options* options,
                                  tenon_context** context) {
  return guarded([=] { create_context(program, options, nullptr, context); });
}

tenon_status tenon_context_create_with(const tenon_program* program, const tenon_context_options* options,
                                       tenon_states* states, tenon_context** context) {
  return guarded([=] {
    contents(states);
    create_context(program, options, states->states, context);
  });
}

void tenon_context_free(tenon_context* context) { delete context; }

tenon_status tenon_set_input(tenon_context* context, size_t input, const tenon_tensor* tensor) {
  return guarded([=] {
    demand(context != nullptr && tensor != nullptr, "tenon_set_input needs a context and a tensor");
    demand_below(input, context->owner->inputs.size(), "input");
    check_tensor(*tensor);
    context->context.set_input(input, *tensor);
  });
}

tenon_status tenon_set_output(tenon_context* context, size_t output, const tenon_tensor* tensor) {
  return guarded([=] {
    demand(context != nullptr, "tenon_set_output needs a context");
    demand_below(output, context->owner->outputs.size(), "output");
    if (tensor != nullptr) check_tensor(*tensor);
    context->context.set_output(output, tensor ? *tensor : tenon_tensor{});
  });
}

tenon_status tenon_set_seed(tenon_context* context, int64_t seed) {
  return guarded([=] {
    demand(context != nullptr, "tenon_set_seed needs a context");
    context->context.set_seed(seed);
  });
}

tenon_status tenon_run(tenon_context* context) {
  return guarded([=] {
    demand(context != nullptr, "tenon_run needs a context");
    try {
      context->context.run();
    } catch (const StatusError& error) {
      const uint32_t task = context->context.failed_task();
      if (task == tenon::runtime::kNone) throw;
      throw StatusError(error.status(), context->owner->tasks[task] + ": " + error.message());
    }
  });
}

tenon_status tenon_get_output(const tenon_context* context, size_t output, tenon_tensor* tensor) {
  return guarded([=] {
    demand(context != nullptr && tensor != nullptr, "tenon_get_output needs a context and a place for the tensor");
    demand_below(output, context->owner->outputs.size(), "output");
    demand(context->context.has_run(), "there is no result: the context has not run");
    demand(!context->context.is_on_device(output), "the result is on a device: read it by tenon_device_tensor_read");
    *tensor = context->context.output_tensor(output);
  });
}

tenon_status tenon_context_memory(const tenon_context* context, tenon_memory* memory) {
  return guarded([=] {
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
  return guarded([=] {
    demand(context != nullptr && event != nullptr, "tenon_get_event needs a context and a place for the event");
    const auto events = context->context.events();
    demand_below(number, events.size(), "event");
    const auto& from = events[number];
    const auto& task = context->owner->program->graph().tasks[from.task];
    *event = {
        context->owner->tasks[from.task].c_str(),  tenon::runtime::name_of(task.kind),       from.start_ns, from.end_ns,
        context->context.bytes_of_task(from.task), context->context.flops_of_task(from.task)};
  });
}

// ---- calls ----

tenon_status tenon_register_call(const char* name, tenon_call_function function, void* user_data) {
  return guarded([=] {
    demand(name != nullptr && *name != 0, "tenon_register_call needs a name");
    tenon::runtime::register_call(name, {function, user_data});
  });
}

// ---- states ----

tenon_status tenon_states_create(const tenon_program* program, const tenon_states_options* options,
                                 tenon_states** states) {
  return guarded([=] {
    contents(program);
    demand(states != nullptr, "the place for the states is null");
    const int64_t budget = options_of(options, "tenon_states_options").budget;
    demand(budget >= 0, "a budget must not be negative");
    tenon::runtime::Programs programs;
    for (const auto& entry : *program->entries) programs.push_back(entry->program);
    auto allocator = new_shared<tenon::runtime::Allocator>(budget > 0 ? budget : tenon::runtime::kNoBudget);
    *states = make_states(new_shared<States>(std::move(programs), std::move(allocator)));
  });
}

tenon_status tenon_context_states(const tenon_context* context, tenon_states** states) {
  return guarded([=] {
    demand(context != nullptr && states != nullptr, "tenon_context_states needs a context and a place for its states");
    *states = make_states(context->context.states());
  });
}

void tenon_states_free(tenon_states* states) { delete states; }

size_t tenon_state_count(const tenon_states* states) { return states == nullptr ? 0 : states->infos.size(); }

tenon_status tenon_state_info(const tenon_states* states, size_t state, tenon_tensor_info* info) {
  return guarded([=] {
    demand(states != nullptr, "the states are null");
    give_info(states->infos, state, "state", info);
  });
}

tenon_status tenon_find_state(const tenon_states* states, const char* name, size_t* state) {
  return guarded([=] {
    demand(states != nullptr && name != nullptr && state != nullptr, "tenon_find_state needs states, a name, a place");
    *state = states->states->find(name);
    if (*state == states->infos.size()) fail(TENON_INVALID_ARGUMENT, "there is no state '", name, "'");
  });
}

tenon_status tenon_get_state(tenon_states* states, size_t state, tenon_tensor* tensor) {
  return with_states(states, [=](States& own) {
    demand(tensor != nullptr, "the place for the tensor is null");
    demand_below(state, own.all().size(), "state");
    const StateInfo& info = own.all()[state];
    *tensor = {own.read(state), info.dtype, static_cast<int32_t>(info.shape.size()), info.shape.data(), nullptr};
  });
}

tenon_status tenon_set_state(tenon_states* states, size_t state, const tenon_tensor* tensor) {
  return with_states(states, [=](States& own) {
    demand(tensor != nullptr, "the tensor is null");
    demand_below(state, own.all().size(), "state");
    check_tensor(*tensor);
    own.set(state, *tensor);
  });
}

tenon_status tenon_states_reset(tenon_states* states) {
  return with_states(states, [](States& own) { own.reset(); });
}

tenon_status tenon_set_note(tenon_states* states, const char* key, const char* value) {
  return with_states(states, [=](States& own) {
    demand(key != nullptr && *key != 0, "a note needs a key");
    if (value != nullptr)
      own.notes().insert_or_assign(key, value);
    else
      own.notes().erase(key);
  });
}

size_t tenon_note_count(const tenon_states* states) { return states == nullptr ? 0 : states->states->notes().size(); }

tenon_status tenon_get_note(tenon_states* states, size_t note, tenon_note* place) {
  return with_states(states, [=](States& own) {
    demand(place != nullptr, "the place for the note is null");
    demand_below(note, own.notes().size(), "note");
    const auto& [key, value] = *std::next(own.notes().begin(), static_cast<std::ptrdiff_t>(note));
    *place = {key.c_str(), value.c_str()};
  });
}

tenon_status tenon_states_save(tenon_states* states, const char* path) {
  return guarded([=] {
    demand(path != nullptr, "the path is null");
    save_states(contents(states), path);
  });
}

tenon_status tenon_states_load(tenon_states* states, const char* path) {
  return guarded([=] {
    demand(path != nullptr, "the path is null");
    load_states(contents(states), path);
  });
}

tenon_status tenon_states_export(tenon_states* states, const char* path) {
  return guarded([=] {
    demand(path != nullptr, "the path is null");
    export_states(contents(states), path);
  });
}

int64_t tenon_states_bytes(const tenon_states* states) {
  int64_t bytes = 0;
  for (size_t i = 0; i < tenon_state_count(states); ++i) bytes += states->states->all()[i].bytes;
  return bytes;
}
