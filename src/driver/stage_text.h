// The text of a module after a stage. It has everything but data: the weights of the model, which a parsed module takes
// from the model again.
//
//     stage groups
//     graph
//       graph mlp { ... }
//     groups
//       kernel(%x, %w) -> %y: contract %y
//
// `loops` and `schedules` add a block for each kernel, `code` its assembly. `tasks` and `memory` have the program
// (program/text.h). After `partition`, each segment of a device follows as a block with the same parts inside:
//
//     segment "npu:rate=2"
//       graph
//         ...
//       groups
//         ...
//
// A device that compiles graphs has no parts but the graph. Code of devices has no text: it is compiled again.
#pragma once

#include "driver/pipeline.h"

namespace tenon {

std::string stage_text(const Module& module, const Stage& stage, const ProgramOptions& options);

struct ParsedStage {
  const Stage* stage;
  Module module;
};

// `model` has the data of the leaves, by name: the graph as captured. Leaves that a pass made (weights with norms
// folded in) are computed again, by the passes up to the stage. `file` names the text in diagnostics.
Result<ParsedStage> parse_stage(std::string_view text, const Graph& model, const ProgramOptions& options,
                                const std::string& file = {});

}  // namespace tenon
