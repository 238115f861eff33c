// Programs on disk, so that a graph that was compiled once is not compiled again by another process.
// They lie beside the objects of kernels, under the same limit and with the same safety (codegen/cache.h).
//
// An entry has no weights: they come from the graph that is compiled, and are prepared anew. Its key is all that the
// rest depends on: the text of the graph with the data of its constants, which leaves share memory, the options, the
// compiler, the machine, and the schedules that were tuned. External calls are by number, so a program with such
// calls is kept as well, and runs them with the fallback of the process that loads it.
//
// A program with devices is kept with their code, by their names, options and versions. Claims are asked anew.
//
// Not kept: programs of other backends than `cpu` and plug-in devices, which may be anything.
#pragma once

#include <optional>
#include <string>

#include "codegen/cache.h"
#include "driver/module.h"
#include "program/history.h"
#include "program/program.h"

namespace tenon {

class ProgramCache {
 public:
  // `backend` is what the graph would be compiled by.
  ProgramCache(const Graph& graph, const ProgramOptions& options, const Backend& backend);

  // `module` is what the graph's stages made of it, with its segments. What is damaged is as good as nothing. So is an
  // entry that a bug of ours makes unusable, and a program that one keeps from being stored; then there is a warning.
  std::optional<Program> find(const Module& module, const ProgramOptions& options) const;
  void store(const Program& program, const ConstantHistory& history) const;

 private:
  std::optional<codegen::ObjectCache> cache_;  // none where the program cannot be kept
  std::string key_;
  mutable std::optional<std::string> unusable_;  // Why find() refused an entry. A bug if the graph compiles after all.
};

}  // namespace tenon
