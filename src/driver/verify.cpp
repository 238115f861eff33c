#include "driver/verify.h"

#include "backends/device_backend.h"
#include "fusion/groups_text.h"
#include "program/run.h"

namespace tenon {
namespace {

Status verify_kernels(const Module& module, StageForm form) {
  return attempt([&] {
    for (const GroupKernel& kernel : module.kernels) {
      if (form >= StageForm::kSchedules && !kernel.schedule) fail("a kernel has no schedule");
      if (form >= StageForm::kCode && !kernel.code) fail("a kernel has no code");
      const loops::IR& loops = kernel.schedule ? kernel.schedule->tree.ir : kernel.loops;
      if (to_string(loops::parse(to_string(loops)).value()) != to_string(loops))
        fail("the text of loops is not theirs");
    }
  });
}

// The runtime checks the tables of a program when it takes them.
Status verify_program(const Program& program) {
  return attempt([&] { const ProgramRunner runner(program); });
}

Status verify_module(const Module& module, StageForm form) {
  switch (form) {
    case StageForm::kGraph:
      return verify(module.graph);
    case StageForm::kGroups:
      return verify_groups(module.graph, module.groups);
    case StageForm::kLoops:
    case StageForm::kSchedules:
    case StageForm::kCode:
      return verify_kernels(module, form);
    case StageForm::kProgram:
      return verify_program(module.program);
  }
  return Unit();
}

}  // namespace

void verify_stage(const Module& module, const Stage& stage) {
  for (const ModuleSegment& segment : module.segments) {
    if (stage.in_segments && graph_compiler(*segment.backend) == nullptr) verify_stage(*segment.module, stage);
  }
  const Status status = verify_module(module, stage.form);
  check(status.ok(), "stage {} left an invalid module: {}", stage.name, status.ok() ? "" : status.diagnostic().text());
}

}  // namespace tenon
