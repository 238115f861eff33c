#include "codegen/objects.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <optional>
#include <unordered_map>

#include "codegen/codegen.h"
#include "codegen/version.h"
#include "loops/key.h"
#include "runtime/thread_pool.h"
#include "support/interrupt.h"

namespace tenon::codegen {
namespace {

struct Job {
  const loops::LoopTree* tree;
  std::string key;
  std::optional<std::string> object = {};
  std::exception_ptr failure = {};
};

class ObjectBatch {
 public:
  ObjectBatch(const Target& target, const ObjectCache* cache) : target_(target), cache_(cache) {}

  size_t add(const loops::LoopTree& tree) {
    std::string key = object_key(tree, target_);
    const auto [found, is_new] = jobs_by_key_.try_emplace(key, jobs_.size());
    if (is_new) jobs_.push_back({&tree, std::move(key)});
    return found->second;
  }

  std::vector<std::string> finish() {
    for (Job& job : jobs_) {
      if (cache_) job.object = cache_->find(job.key);
      if (!job.object) missing_.push_back(&job);
    }
    parallel_for(
        0, static_cast<int64_t>(missing_.size()),
        [](void* batch, int64_t begin, int64_t end) -> int64_t {
          for (int64_t i = begin; i < end; ++i) static_cast<ObjectBatch*>(batch)->compile(i);
          return 0;
        },
        this);
    for (const Job& job : jobs_) {
      if (job.failure) std::rethrow_exception(job.failure);
    }
    std::vector<std::string> objects;
    for (Job& job : jobs_) objects.push_back(std::move(*job.object));
    return objects;
  }

 private:
  void compile(int64_t i) noexcept {
    if (is_interrupted_) return;
    Job& job = *missing_[static_cast<size_t>(i)];
    try {
      check_interrupt();
    } catch (...) {
      is_interrupted_ = true;
      job.failure = std::current_exception();
      return;
    }
    try {
      const KernelSource source{job.tree, kObjectFunction};
      job.object = emit_object({&source, 1}, target_);
      if (cache_) cache_->store(job.key, *job.object);
    } catch (...) {
      job.failure = std::current_exception();
    }
  }

  const Target& target_;
  const ObjectCache* cache_;
  std::vector<Job> jobs_;
  std::vector<Job*> missing_;
  std::unordered_map<std::string, size_t> jobs_by_key_;
  std::atomic<bool> is_interrupted_ = false;  // jobs that have not started are skipped
};

}  // namespace

std::string object_key(const loops::LoopTree& tree, const Target& target) {
  return fmt::format("{}\n{} {} {} {} {}\n{}", compiler_version(), target.triple, target.cpu, target.tuning,
                     target.features, target.sve_bits, loops::key_of(tree.ir));
}

Objects compile_objects(std::span<const loops::LoopTree* const> trees, const Target& target, const ObjectCache* cache) {
  ObjectBatch batch(target, cache);
  Objects result;
  for (const loops::LoopTree* tree : trees) result.of_tree.push_back(batch.add(*tree));
  result.objects = batch.finish();
  return result;
}

}  // namespace tenon::codegen
