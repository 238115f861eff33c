// What runs outside of Tenon's own kernels: calls that the fallback runs in PyTorch, and the segments of devices.
#include "ops/common.h"

namespace tenon::ops {
namespace {

// The gradient of a call is a call of the host, too. It takes the operands of the call, then the gradient of each
// floating result, and gives the gradient of each floating operand.
std::vector<Value> gradient_of_call(GradContext& c) {
  const auto is_differentiable = [](const TensorType& type) { return is_float(type.dtype); };
  if (c.integer("call") < 0) fail("{} has no gradient", c.string("target"));
  std::vector<Value> operands = c.operands();
  const Types results = parse_types(c.string("types"));
  for (size_t i = 0; i < results.size(); ++i) {
    if (is_differentiable(results[i])) operands.push_back(c.dout(i));
  }
  Types types;
  for (const Value& operand : c.operands()) {
    if (is_differentiable(operand.type())) types.push_back(operand.type());
  }
  const std::vector<Value> found = c.results("external", operands,
                                             {{"target", "gradient." + std::string(c.string("target"))},
                                              {"call", -1 - c.integer("call")},
                                              {"types", types_to_string(types)}});
  std::vector<Value> gradients;
  auto next = found.begin();
  for (const Value& operand : c.operands()) gradients.push_back(is_differentiable(operand.type()) ? *next++ : Value());
  return gradients;
}

const OpDef kExternal{
    .name = "external",
    .family = "external",
    .doc =
        "A call of something outside of Tenon, an ATen overload that the table cannot express. The fallback (PyTorch) "
        "runs it; without a fallback it is a run-time error. `types` are the types of the results, separated by "
        "semicolons. Its gradient is a call, too: it takes the operands and the gradients of the floating results, and "
        "gives the gradients of the floating operands.",
    .operands = std::vector<OperandDef>{{"xs", kAny, Arity::kVariadic}},
    .attrs = {{"target", AttrKind::kString, "what is called, as PyTorch spells it; gradient.TARGET for its gradient"},
              {"call", AttrKind::kInt,
               "which call of the model it is: the fallback knows the arguments that are not tensors. The gradient of "
               "call N is -1 - N."},
              {"types", AttrKind::kString, "the types of the results"}},
    .infer = [](InferContext& c) -> Types { return parse_types(c.string("types")); },
    .semantics = reference([](ReferenceContext& c) {
      fail("{} is not an op of Tenon, and there is no fallback here", c.string("target"));
    }),
    .gradient = gradient(gradient_of_call),
    .loops = LibraryTask{},
    .role = Role::kExternal,
    .peer = no_peer("it stands for any call"),
    .samples = Samples{},
};

const OpDef kSegment{
    .name = "segment",
    .family = "external",
    .doc =
        "A part of a model that a device runs as a whole. Partition puts it in the place of the nodes that the device "
        "claims; the module keeps these nodes as a graph of their own, whose inputs are the operands and whose outputs "
        "are the results. `types` are the types of the results, separated by semicolons.",
    .operands = std::vector<OperandDef>{{"xs", kAny, Arity::kVariadic}},
    .attrs = {{"device", AttrKind::kString, "the device that runs it, by name"},
              {"number", AttrKind::kInt, "which segment of the module it is"},
              {"types", AttrKind::kString, "the types of the results"}},
    .infer = [](InferContext& c) -> Types { return parse_types(c.string("types")); },
    .semantics = reference([](ReferenceContext& c) {
      fail("segment {} is for device {}, and this evaluator runs no device", c.integer("number"), c.string("device"));
    }),
    .gradient = NotDifferentiable{},
    .loops = LibraryTask{},
    .role = Role::kSegment,
    .peer = no_peer("it stands for any part of a model"),
    .samples = Samples{},
};

}  // namespace

OpRefs external_ops() { return {&kExternal, &kSegment}; }

}  // namespace tenon::ops
