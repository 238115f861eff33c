// The table of functions of include/tenon/aten_compiler.h: imports and devices. Programs are in program.cpp.
#include "tenon/aten_compiler.h"

#include <unistd.h>

#include "graph/runtime_dtype.h"
#include "lazy/import.h"
#include "runtime/device.h"
#include "support/runtime_call.h"

namespace tenon {

const AtenTensor& tensor_at(const tenon_import& import, int64_t number) {
  const bool is_there = number >= 0 && static_cast<size_t>(number) < import.tensors.size();
  if (!is_there) fail("there is no tensor {} in this import: it has {}", number, import.tensors.size());
  return import.tensors[static_cast<size_t>(number)];
}

namespace {

// ---- arguments ------------------------------------------------------------------------------------------------------

DType dtype_of(int64_t code) {
  if (code < TENON_F64 || code > TENON_BOOL) fail("{} is no dtype", code);
  return static_cast<DType>(code);
}

AtenArg argument_from(const tenon_import& import, const tenon_aten_arg& arg) {
  switch (arg.kind) {
    case TENON_ARG_NONE:
      return None{};
    case TENON_ARG_BOOL:
      return arg.integer != 0;
    case TENON_ARG_INTEGER:
      return arg.integer;
    case TENON_ARG_REAL:
      return arg.real;
    case TENON_ARG_TEXT:
      return std::string(arg.text);
    case TENON_ARG_DTYPE:
      return dtype_of(arg.integer);
    case TENON_ARG_TENSOR:
      return tensor_at(import, arg.integer);
    case TENON_ARG_SETTING:
      return AtenSetting{arg.text};
    case TENON_ARG_LIST:
      break;
    default:
      fail("{} is no kind of argument", arg.kind);
  }
  AtenArg::List items;
  for (int64_t i = 0; i < arg.integer; ++i) items.push_back(argument_from(import, arg.items[i]));
  return items;
}

int64_t add_tensor(tenon_import& import, const AtenTensor& tensor) {
  import.tensors.push_back(tensor);
  return static_cast<int64_t>(import.tensors.size() - 1);
}

tenon_aten_arg answer(tenon_import& import, const AtenArg& argument) {
  tenon_aten_arg arg = {};
  if (const auto* tensor = argument.get<AtenTensor>(); tensor != nullptr && tensor->value) {
    arg.kind = TENON_ARG_TENSOR;
    arg.integer = add_tensor(import, *tensor);
  } else if (const auto* list = argument.get<AtenArg::List>()) {
    std::vector<tenon_aten_arg> items;
    for (const AtenArg& item : *list) items.push_back(answer(import, item));
    const auto& kept = import.lists.emplace_back(std::move(items));
    arg.kind = TENON_ARG_LIST;
    arg.integer = static_cast<int64_t>(kept.size());
    arg.items = kept.data();
  } else if (const auto* flag = argument.get<bool>()) {
    arg.kind = TENON_ARG_BOOL;
    arg.integer = *flag ? 1 : 0;
  } else if (const auto* number = argument.get<double>()) {
    arg.kind = TENON_ARG_REAL;
    arg.real = *number;
  } else if (const auto* size = argument.get<Expr>(); size != nullptr && size->is_constant()) {
    arg.kind = TENON_ARG_INTEGER;
    arg.integer = size->constant();
  } else if (!argument.is_none()) {
    fail("a call gave {}, which is neither a tensor nor a number", to_string(argument));
  }
  return arg;
}

int64_t number_of(tenon_import& import, const AtenArg& added) { return add_tensor(import, *added.get<AtenTensor>()); }

AtenRequest request_from(const tenon_import& import, const tenon_aten_call& call) {
  AtenRequest request{.target = call.target, .returns_list = call.result_count > 0};
  for (uint64_t i = 0; i < call.arg_count; ++i) request.positional.push_back(argument_from(import, call.args[i]));
  for (uint64_t i = 0; i < call.named_count; ++i) {
    request.named.emplace_back(call.named[i].name, argument_from(import, call.named[i].value));
  }
  if (call.external_because != nullptr) request.external_because = call.external_because;
  if (call.result_count > 0) request.results.emplace();
  for (uint64_t i = 0; i < call.result_count; ++i) request.results->emplace_back(type_of(call.results[i]));
  return request;
}

// ---- imports --------------------------------------------------------------------------------------------------------

tenon_status import_new(tenon_import** import, tenon_text* error) {
  return guarded(error, TENON_INTERNAL, [&] { *import = new tenon_import; });
}

void import_free(tenon_import* import) { delete import; }

tenon_status import_input(tenon_import* import, const tenon_tensor* type, int64_t is_number, int64_t* tensor,
                          tenon_text* error) {
  return guarded(error, TENON_INVALID_ARGUMENT, [&] {
    const TensorType known = type_of(*type);
    const std::string name = "p" + std::to_string(import->input_count++);
    Importer& importer = import->importer;
    *tensor = number_of(*import, is_number != 0 ? importer.number(name, known.dtype) : importer.input(name, known));
  });
}

tenon_status import_constant(tenon_import* import, const tenon_tensor* data, int64_t* tensor, tenon_text* error) {
  return guarded(error, TENON_INVALID_ARGUMENT,
                 [&] { *tensor = number_of(*import, import->importer.constant(borrowed(*data, {}).copy())); });
}

tenon_status import_key(tenon_import* import, int64_t tensor, tenon_text* error) {
  return guarded(error, TENON_INVALID_ARGUMENT, [&] { import->importer.set_key(tensor_at(*import, tensor)); });
}

tenon_status import_call(tenon_import* import, const tenon_aten_call* call, const tenon_aten_arg** result,
                         tenon_text* error) {
  return guarded(error, TENON_UNSUPPORTED, [&] {
    const size_t before = import->importer.external_count();
    const AtenArg given = import->importer.call(request_from(*import, *call));
    if (import->importer.external_count() > before) import->result_counts.push_back(call->result_count);
    import->lists.clear();
    import->result = answer(*import, given);
    *result = &import->result;
  });
}

tenon_status import_tensor(const tenon_import* import, int64_t tensor, tenon_imported_tensor* facts,
                           tenon_text* error) {
  return guarded(error, TENON_INVALID_ARGUMENT, [&] {
    const AtenTensor& known = tensor_at(*import, tensor);
    import->shape.clear();
    for (const Expr& size : known.value.shape()) {
      import->shape.push_back(size.is_constant() ? size.constant() : -1);
    }
    facts->dtype = code_of(known.value.dtype());
    facts->rank = static_cast<int32_t>(import->shape.size());
    facts->shape = import->shape.data();
    facts->variable = known.variable;
    facts->is_number = known.is_number ? 1 : 0;
  });
}

tenon_status import_compile(tenon_import* import, const tenon_compile_request* request, tenon_aten_program** program,
                            tenon_text* error) {
  return guarded(error, TENON_UNSUPPORTED, [&] { *program = compile_import(*import, *request).release(); });
}

void each_overload(void* user_data, void (*take)(void* user_data, const char* overload)) {
  for (const auto& [name, entry] : aten_table().entries()) take(user_data, name.c_str());
}

// ---- devices --------------------------------------------------------------------------------------------------------

std::vector<std::string_view> plugins() {
  return call_runtime([] { return runtime::device_names(); });
}

uint64_t device_count() {
  uint64_t count = 1;
  guarded(nullptr, TENON_INTERNAL, [&] { count += plugins().size(); });  // a plug-in that cannot be loaded is none
  return count;
}

const char* device_name(uint64_t device) {
  if (device == 0) return "cpu";
  const char* name = nullptr;
  guarded(nullptr, TENON_INTERNAL, [&] {
    const auto names = plugins();
    if (device <= names.size()) name = names[device - 1].data();
  });
  return name;
}

int64_t pages_to_bytes(int name) {
  const int64_t pages = ::sysconf(name);
  return pages < 0 ? 0 : pages * ::sysconf(_SC_PAGESIZE);
}

tenon_status device_facts(uint64_t device, tenon_device_facts* facts, tenon_text* error) {
  return guarded(error, TENON_INVALID_ARGUMENT, [&] {
    if (device == 0) {
      *facts = {facts->size, "cpu", pages_to_bytes(_SC_PHYS_PAGES), pages_to_bytes(_SC_AVPHYS_PAGES), -1};
      return;
    }
    const auto names = plugins();
    if (device > names.size()) fail("there is no device {}: there are {}", device, names.size() + 1);
    const std::string_view name = names[device - 1];
    const auto open = call_runtime([&] { return runtime::open_device(name); });
    const int64_t total = open->info().memory, used = open->used();
    *facts = {facts->size, name.data(), total, total == 0 ? 0 : total - used, used};
  });
}

// ---- programs -------------------------------------------------------------------------------------------------------

void program_facts(const tenon_aten_program* program, tenon_program_facts* facts) {
  *facts = {facts->size, program->program.inputs.size(), program->results.size(), program->places.data(),
            program->takes_key ? 1 : 0};
}

tenon_status program_run(const tenon_aten_program* program, const tenon_tensor* inputs, uint64_t input_count,
                         tenon_owned_tensor* results, uint64_t result_count, tenon_text* error) {
  return guarded(error, TENON_RUN_FAILED,
                 [&] { run_program(*program, std::span(inputs, input_count), std::span(results, result_count)); });
}

const char* program_text(const tenon_aten_program* program) {
  const char* text = "";
  guarded(nullptr, TENON_INTERNAL, [&] { text = text_of(*program).c_str(); });
  return text;
}

void program_free_memory(const tenon_aten_program* program) { program->program.free_memory(); }

void program_free(tenon_aten_program* program) { delete program; }

}  // namespace
}  // namespace tenon

const tenon_aten_compiler* tenon_aten_compiler_v1() {
  static const tenon_aten_compiler table = {
      .size = sizeof(tenon_aten_compiler),
      .each_overload = tenon::each_overload,
      .device_count = tenon::device_count,
      .device_name = tenon::device_name,
      .device_facts = tenon::device_facts,
      .import_new = tenon::import_new,
      .import_free = tenon::import_free,
      .import_input = tenon::import_input,
      .import_constant = tenon::import_constant,
      .import_key = tenon::import_key,
      .import_call = tenon::import_call,
      .import_tensor = tenon::import_tensor,
      .import_compile = tenon::import_compile,
      .program_facts = tenon::program_facts,
      .program_run = tenon::program_run,
      .program_text = tenon::program_text,
      .program_free_memory = tenon::program_free_memory,
      .program_free = tenon::program_free,
  };
  return &table;
}
