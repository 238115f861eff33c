#include "training/file.h"

#include "codegen/target.h"
#include "driver/pipeline.h"
#include "graph/builder.h"
#include "program/artifact.h"

namespace tenon {
namespace {

// The update, which also clears the gradients: a caller of the file has no other way to clear them.
Graph clearing_update(const LocalTrainingInstance& trainer) {
  Graph graph = trainer.graphs().update;
  Builder builder(graph);
  for (const std::string& name : trainer.trained()) {
    const ValueRef gradient = graph.leaf_named(gradient_name(name))->value;
    const TensorType& type = graph.type(gradient);
    graph.add_update(gradient, builder.full(0.0, type.shape, type.dtype).ref());
  }
  return graph;
}

class FileMaker {
 public:
  FileMaker(LocalTrainingInstance& trainer, const std::vector<std::string>& cpus) : trainer_(trainer), cpus_(cpus) {}

  TrainingFile run() {
    if (trainer_.options().accumulate == 1) {
      add("step", trainer_.step_program());
    } else {
      add("part", trainer_.part_program());
      add("update", keep(clearing_update(trainer_), "native"));
    }
    add("evaluate", trainer_.evaluate_program());
    add("predict", trainer_.predict_program());
    return std::move(file_);
  }

 private:
  void add(std::string name, const Program& program) {
    TrainingFile::Entry entry{std::move(name), {}};
    for (const std::string& cpu : cpus_) {
      const auto level = [](const std::string& name) { return codegen::level_of(codegen::find_target(name)); };
      const bool is_there = !program.uses_devices() && level(cpu) == level(program.cpu);
      entry.variants.push_back(is_there ? &program : &keep(*program.source, cpu, program.fallback));
    }
    if (program.uses_devices()) entry.variants.push_back(&program);
    file_.entries.push_back(std::move(entry));
  }

  const Program& keep(const Graph& graph, const std::string& cpu, const FallbackFn& fallback = {}) {
    Program program = compile_program(graph, {.cpu = cpu, .freeze = false, .fallback = fallback}).value();
    file_.compiled.push_back(std::make_unique<Program>(std::move(program)));
    return *file_.compiled.back();
  }

  LocalTrainingInstance& trainer_;
  const std::vector<std::string>& cpus_;
  TrainingFile file_;
};

Notes notes_of(const TrainingOptions& options) {
  return {{"loss", to_string(options.loss)},
          {"optimizer", to_string(options.optimizer)},
          {"accumulate", std::to_string(options.accumulate)}};
}

}  // namespace

TrainingFile training_file(LocalTrainingInstance& trainer, const std::vector<std::string>& cpus) {
  check(!cpus.empty(), "a training for no CPU");
  const auto held = trainer.use();
  return FileMaker(trainer, cpus).run();
}

Status write_training(const std::string& path, const LocalTrainingInstance& trainer, const TrainingFile& file,
                      const CallNotes& calls) {
  return attempt([&] {
    const auto held = trainer.use();
    trainer.states();  // the file has the values that devices hold
    std::vector<ProgramEntry> entries;
    for (const TrainingFile::Entry& entry : file.entries) {
      const bool is_inference = entry.name == "evaluate" || entry.name == "predict";
      entries.push_back({entry.name, entry.variants, is_inference ? calls.inference : calls.training});
    }
    entries[0].notes.merge(notes_of(trainer.options()));
    write_artifact(path, entries).value();
  });
}

Status write_training(const std::string& path, LocalTrainingInstance& trainer, const std::vector<std::string>& cpus,
                      const CallNotes& calls) {
  return attempt([&] {
    const auto held = trainer.use();
    write_training(path, trainer, training_file(trainer, cpus), calls).value();
  });
}

}  // namespace tenon
