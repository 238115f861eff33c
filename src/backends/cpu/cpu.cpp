#include "backends/cpu/cpu.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "backends/native_kernel.h"
#include "codegen/codegen.h"
#include "codegen/objects.h"
#include "codegen/target.h"
#include "runtime/loader.h"
#include "runtime/thread_pool.h"
#include "schedule/default_schedule.h"
#include "support/runtime_call.h"

namespace tenon {
namespace {

using runtime::LoadedCode;

std::string llvm_text(const loops::IR& ir, const codegen::Target& target) {
  const loops::LoopTree tree(ir);
  const codegen::KernelSource source{&tree, ir.name()};
  return codegen::emit_llvm({&source, 1}, target);
}

// Kernels keep their object, to be written to files.
struct WithObject {
  std::shared_ptr<const std::string> object;
};

class CpuKernel : public NativeKernel, public WithObject {
 public:
  CpuKernel(const std::shared_ptr<const LoadedCode>& code, std::shared_ptr<const std::string> from, loops::IR ir,
            std::shared_ptr<const codegen::Target> target)
      : NativeKernel(code->function<std::remove_pointer_t<tenon_kernel>>(codegen::kObjectFunction), code,
                     std::move(ir)),
        WithObject{std::move(from)},
        target_(std::move(target)) {}

  std::string dump() const override { return llvm_text(ir(), *target_); }

 private:
  std::shared_ptr<const codegen::Target> target_;
};

int64_t cache_bytes(int name, int64_t otherwise) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

// ---- schedules that a search found ----------------------------------------------------------------------------------

struct BlockShape {
  int64_t rows;
  int64_t vectors;
};
// Blocks that the tuner tries, from flat to high. They fill the registers of AVX-512 or AVX2.
constexpr BlockShape kBlocks[] = {{4, 4},  {5, 4}, {6, 4}, {8, 3}, {9, 3}, {12, 2},
                                  {14, 2}, {4, 3}, {6, 2}, {4, 2}, {12, 1}};

// A kept schedule is for one CPU and one number of threads.
std::string schedule_key(const loops::IR& kernel) {
  const codegen::Target target = codegen::find_target("native");
  return fmt::format("schedule\n{} {}\n{} threads\n{}", codegen::level_of(target), target.features, thread_count(),
                     to_string(kernel));
}

// An entry that changes whenever a schedule is kept, so that programs compiled before are out of date.
constexpr std::string_view kKeptSchedules = "kept schedules";
std::string kept_schedules() {
  const auto cache = codegen::ObjectCache::from_environment();
  return cache ? cache->find(kKeptSchedules).value_or("") : "";
}

// Whether both kernels take the same arrays and sizes.
bool take_the_same(const loops::IR& a, const loops::IR& b) {
  const auto same_types = [&](const std::vector<loops::NodeRef>& of_a, const std::vector<loops::NodeRef>& of_b) {
    return std::ranges::equal(of_a, of_b, [&](auto x, auto y) { return a.type(x) == b.type(y); });
  };
  return a.size_symbols() == b.size_symbols() && same_types(a.reads(), b.reads()) && same_types(a.writes(), b.writes());
}

// Ignores an entry that this version cannot read or that belongs to another kernel.
std::optional<loops::LoopTree> kept_schedule(const loops::IR& kernel) {
  const auto cache = codegen::ObjectCache::from_environment();
  const std::optional<std::string> text = cache ? cache->find(schedule_key(kernel)) : std::nullopt;
  if (!text) return {};
  Result<loops::IR> ir = loops::parse(*text);
  if (!ir.ok() || !take_the_same(*ir, kernel)) return {};
  Result<loops::LoopTree> tree = attempt([&] { return loops::LoopTree(std::move(ir).value()); });
  return tree.ok() ? std::optional(std::move(tree).value()) : std::nullopt;
}

// A kernel that this machine cannot run.
class ForeignKernel : public Compiled, public WithObject {
 public:
  ForeignKernel(std::shared_ptr<const std::string> from, loops::IR ir, std::shared_ptr<const codegen::Target> target)
      : WithObject{std::move(from)}, ir_(std::move(ir)), target_(std::move(target)) {}

  void run(std::span<void* const>, std::span<const int64_t>, bool) const override {
    fail("kernel {} is compiled for {}, and this machine lacks {}", ir_.name(), target_->name,
         fmt::join(codegen::missing_here(*target_), ", "));
  }

  std::string dump() const override { return llvm_text(ir_, *target_); }

 private:
  loops::IR ir_;
  std::shared_ptr<const codegen::Target> target_;
};

struct CpuBackend : Backend {
  explicit CpuBackend(std::string cpu) : Backend("cpu"), cpu_(std::move(cpu)) {}
  std::string doc() const override { return "machine code by LLVM, with vectors and threads"; }
  int hardware_requirement() const override { return kCpu; }
  loops::LoopTree schedule(const loops::IR& kernel) const override {
    if (cpu_ == "native") {
      if (std::optional<loops::LoopTree> kept = kept_schedule(kernel)) return *std::move(kept);
    }
    return default_schedule(kernel, machine_of(cpu_));
  }
  std::vector<loops::LoopTree> variants(const loops::IR& kernel) const override {
    std::vector<loops::LoopTree> trees;
    for (const auto& [rows, vectors] : kBlocks) {
      Machine machine = machine_of(cpu_);
      if (!machine.holds_block(rows, vectors)) continue;
      machine.block_rows = rows;
      machine.block_vectors = vectors;
      trees.push_back(default_schedule(kernel, machine));
    }
    return trees;
  }
  bool keep(const loops::IR& kernel, const loops::LoopTree& schedule) const override {
    const auto cache = codegen::ObjectCache::from_environment();
    if (!cache) return false;
    const std::string key = schedule_key(kernel), text = to_string(schedule.ir);
    return cache->store(key, text) && cache->store(kKeptSchedules, digest(kept_schedules() + key + text).hex());
  }
  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override {
    const loops::LoopTree* const trees[] = {&tree};
    return std::move(compile_cpu(trees, {.cpu = cpu_})[0]);
  }
  std::vector<std::unique_ptr<Compiled>> compile_all_impl(
      std::span<const loops::LoopTree* const> trees) const override {
    return compile_cpu(trees, {.cpu = cpu_});
  }
  const std::string& cpu() const { return cpu_; }

 private:
  std::string cpu_;
};

// Kernels with the same object share the loaded code.
std::vector<std::unique_ptr<Compiled>> load(std::span<const KernelObject> kernels,
                                            const std::shared_ptr<const codegen::Target>& target) {
  const bool runs = codegen::runs_here(*target);
  std::map<const std::string*, std::shared_ptr<const LoadedCode>> loaded;
  std::vector<std::unique_ptr<Compiled>> result;
  for (const auto& [tree, object] : kernels) {
    if (!runs) {
      result.push_back(std::make_unique<ForeignKernel>(object, tree->ir, target));
      continue;
    }
    std::shared_ptr<const LoadedCode>& code = loaded[object.get()];
    if (!code) code = call_runtime([&] { return LoadedCode::load(*object, tree->ir.name()); });
    result.push_back(std::make_unique<CpuKernel>(code, object, tree->ir, target));
  }
  return result;
}

const RegisterBackend kRegistration(std::make_shared<CpuBackend>("native"));

}  // namespace

Machine machine_of(std::string_view cpu) {
  Machine machine = codegen::machine_of(codegen::find_target(cpu));
  machine.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, machine.l1_bytes);
  machine.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, machine.l2_bytes);
  machine.l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, machine.l3_bytes);
  machine.threads = thread_count();
  return machine;
}

std::vector<std::unique_ptr<Compiled>> compile_cpu(std::span<const loops::LoopTree* const> trees,
                                                   const CpuOptions& options) {
  const auto target = std::make_shared<const codegen::Target>(codegen::find_target(options.cpu));
  const auto cache = options.use_cache ? codegen::ObjectCache::from_environment() : std::nullopt;
  codegen::Objects objects = codegen::compile_objects(trees, *target, cache ? &*cache : nullptr);
  std::vector<std::shared_ptr<const std::string>> files;
  for (std::string& object : objects.objects) files.push_back(std::make_shared<const std::string>(std::move(object)));
  std::vector<KernelObject> kernels;
  for (size_t i = 0; i < trees.size(); ++i) kernels.push_back({trees[i], files[objects.of_tree[i]]});
  return load(kernels, target);
}

std::vector<std::unique_ptr<Compiled>> load_cpu(std::span<const KernelObject> kernels, const std::string& cpu) {
  return load(kernels, std::make_shared<const codegen::Target>(codegen::find_target(cpu)));
}

std::string cpu_identity(const Backend& backend) {
  const auto* const own = dynamic_cast<const CpuBackend*>(&backend);
  if (!own) return "";
  const codegen::Target target = codegen::find_target(own->cpu());
  const Machine machine = machine_of(own->cpu());
  return fmt::format("{} {} {} {}\ncaches {} {} {}, {} threads\nschedules {}", target.triple, target.cpu, target.tuning,
                     target.features, machine.l1_bytes, machine.l2_bytes, machine.l3_bytes, machine.threads,
                     own->cpu() == "native" ? kept_schedules() : "");
}

std::shared_ptr<const Backend> cpu_backend(std::string cpu) {
  codegen::find_target(cpu);  // throws an Error for an unknown name
  return std::make_shared<CpuBackend>(std::move(cpu));
}

std::string_view object_of(const Compiled& kernel) {
  const auto* const with = dynamic_cast<const WithObject*>(&kernel);
  return with ? std::string_view(*with->object) : std::string_view();
}

}  // namespace tenon
