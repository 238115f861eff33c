// Calls that no op of the table expresses: the fallback runs them in PyTorch.
#include "ops/common.h"
#include "support/cursor.h"

namespace tenon::ops {
namespace {

const OpDef kExternal{
    .name = "external",
    .family = "external",
    .doc =
        "A call of something outside of Tenon, an ATen overload that the table cannot express. The fallback (PyTorch) "
        "runs it; without a fallback it is a run-time error. `types` are the types of the results, separated by "
        "semicolons.",
    .operands = std::vector<OperandDef>{{"xs", kAny, Arity::kVariadic}},
    .attrs = {{"target", AttrKind::kString, "what is called, as PyTorch spells it"},
              {"call", AttrKind::kInt,
               "which call of the model it is: the fallback knows the arguments that are not tensors"},
              {"types", AttrKind::kString, "the types of the results"}},
    .infer = [](InferContext& c) -> Types {
      Types types;
      Cursor cursor(c.string("types"));
      while (!cursor.at_end()) {
        types.push_back(parse_type(cursor.until(";")).value());
        cursor.accept(";");
      }
      return types;
    },
    .semantics = reference([](ReferenceContext& c) {
      fail("{} is not an op of Tenon, and there is no fallback here", c.string("target"));
    }),
    .gradient = NotDifferentiable{},
    .loops = LibraryTask{},
    .role = Role::kExternal,
    .peer = no_peer("it stands for any call"),
    .samples = Samples{},
};

}  // namespace

OpRefs external_ops() { return {&kExternal}; }

}  // namespace tenon::ops
