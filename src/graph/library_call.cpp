#include "graph/library_call.h"

#include <optional>
#include <utility>

#include "graph/runtime_dtype.h"
#include "runtime/library.h"
#include "runtime/services.h"
#include "support/runtime_call.h"

namespace tenon {
namespace {

using runtime::TensorView;

TensorView view_of(const Tensor& tensor) { return {code_of(tensor.dtype()), tensor.shape(), tensor.data()}; }

// An attribute as a number, if it is one.
std::optional<Expr> number_of(AttrKind kind, const Attr& attr) {
  switch (kind) {
    case AttrKind::kBool:
      return Expr(std::get<bool>(attr) ? 1 : 0);
    case AttrKind::kInt:
      return Expr(std::get<int64_t>(attr));
    case AttrKind::kExpr:
      return std::get<Expr>(attr);
    case AttrKind::kSymbol:
      return std::get<Expr>(attr).is_constant() ? std::get<Expr>(attr) : Expr(runtime::kAnyCount);
    default:
      return {};
  }
}

TensorView make_output(void* context, size_t output, std::span<const int64_t> shape) {
  auto& c = *static_cast<ReferenceContext*>(context);
  c.allocate(output, DType::kI64, {shape.begin(), shape.end()});
  return view_of(c.out(output));
}

}  // namespace

std::vector<Expr> library_numbers(const OpDef& op, std::span<const Attr> attrs) {
  std::vector<Expr> numbers;
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (std::optional<Expr> number = number_of(op.attrs[i].kind, attrs[i])) numbers.push_back(*std::move(number));
  }
  return numbers;
}

std::string library_text(const OpDef& op, std::span<const Attr> attrs) {
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (op.attrs[i].kind == AttrKind::kString) return std::get<std::string>(attrs[i]);
  }
  return {};
}

bool has_library_function(const OpDef& op) { return runtime::find_library_function(op.name.get()) != nullptr; }

void run_library_function(ReferenceContext& c) {
  const runtime::LibraryFunction* const function = runtime::find_library_function(c.op().name.get());
  check(function != nullptr, "the runtime has no function {}", c.op().name.get());
  std::vector<Tensor> tensors;
  std::vector<TensorView> inputs, outputs;
  for (size_t i = 0; i < c.operand_count(); ++i) tensors.push_back(c.in(i).contiguous());
  for (const Tensor& tensor : tensors) inputs.push_back(view_of(tensor));
  for (size_t i = 0; i < c.op().results.size(); ++i) outputs.push_back(view_of(c.out(i)));
  std::vector<Attr> attrs;
  for (const AttrDef& attr : c.op().attrs) attrs.push_back(c.attr(attr.name));
  std::vector<int64_t> numbers;
  for (const Expr& number : library_numbers(c.op(), attrs)) numbers.push_back(number.constant());
  const std::string text = library_text(c.op(), attrs);
  runtime::LibraryCall call{inputs, outputs, numbers, text, tenon_default_services(), make_output, &c};
  call_runtime([&] { runtime::run(*function, call); });
}

}  // namespace tenon
