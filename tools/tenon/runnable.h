// Models that are ready to run: compiled in this process, or loaded from an artifact (.tenon).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bind.h"
#include "graph/tensor.h"
#include "model.h"
#include "program/program.h"
#include "runtime/container.h"
#include "runtime/context.h"
#include "runtime/states.h"
#include "symbolic/expr.h"

namespace tenon::cli {

bool is_artifact(const std::string& path);

// The file, verified. Throws an Error that names it.
std::shared_ptr<const runtime::Container> open_artifact(const std::string& path);
// The graph of an entry, or of the first. Throws an Error.
Graph graph_of(const std::string& path, const std::shared_ptr<const runtime::Container>& container,
               std::string_view entry = {});

// How a file is loaded.
struct FileOptions {
  bool native = true;       // false: nothing of the file is made executable
  std::string entry = {};   // empty: the first
  bool runs = true;         // false: to look at it; calls of the host may be absent
  std::string device = {};  // runtime::LoadOptions::device
};
// The device of --device, for a file. Throws an Error where there are more.
std::string device_of_file(const ModelOptions& options);

class Runnable {
 public:
  // One of its entries. Where the file has no code for this CPU, says so on standard error and compiles its graphs.
  static Runnable load(const std::string& path, const FileOptions& options);
  // All of them, in the order of the file.
  static std::vector<Runnable> load_entries(const std::string& path, const FileOptions& options);
  static Runnable compile(const Graph& graph, const ProgramOptions& options = {});

  const runtime::TaskGraph& graph() const { return program().graph(); }
  const runtime::LoadedProgram& program() const;
  const std::shared_ptr<const runtime::LoadedProgram>& loaded() const { return loaded_; }    // null of no artifact
  const Program* compiled() const { return compiled_.get(); }                                // null of an artifact
  const std::shared_ptr<const runtime::Container>& container() const { return container_; }  // null of no artifact
  const std::string& entry() const { return entry_; }                                        // of an artifact

  std::vector<InputInfo> inputs() const;
  // Given by arguments (see load_inputs); what is drawn at random from `seed` needs none.
  std::vector<Tensor> load_inputs(const std::vector<std::string>& arguments, int64_t seed) const;
  // Numbers of no meaning, for the sizes. Throws an Error that names a symbol without one.
  std::vector<Tensor> random_inputs(const symbolic::Bindings& sizes, int64_t seed) const;
  // The values of the symbols that inputs tell, in the graph's order; the same error.
  std::vector<int64_t> symbol_values(const symbolic::Bindings& sizes) const;

  // Over states of its own, or of an artifact over these.
  std::unique_ptr<runtime::Context> make_context(const runtime::ContextOptions& options,
                                                 std::shared_ptr<runtime::States> states = {}) const;
  // Throws an Error, with the task's name and place in the model where it is a task's.
  std::vector<Tensor> run(runtime::Context& context, const std::vector<Tensor>& inputs) const;

 private:
  template <class Load>
  auto load_or_recompile(const std::string& path, const FileOptions& options, Load load);
  size_t input_count() const;

  std::shared_ptr<const runtime::Container> container_;
  std::string entry_;
  std::shared_ptr<const std::vector<std::byte>> recompiled_;
  std::shared_ptr<const runtime::LoadedProgram> loaded_;
  std::shared_ptr<const Program> compiled_;
};

// What the entries of an artifact share, as it is in the file.
std::shared_ptr<runtime::States> make_states(const std::vector<Runnable>& entries);
// Values from a checkpoint. Throws an Error that names the file, where it is damaged or of another model.
void load_checkpoint(runtime::States& states, const std::string& path);

}  // namespace tenon::cli
