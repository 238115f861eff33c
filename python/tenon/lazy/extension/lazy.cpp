// tenon/lazy.h for C++ programs: links libtorch and Tenon::compiler.
#include "tenon/lazy.h"

#include "backend.h"

namespace tenon::lazy {

void init() { lazy_device::start(*tenon_aten_compiler_v1()); }

void InitTenonBackend() { init(); }

bool is_initialized() { return lazy_device::is_in_charge(); }

void mark_step(bool wait) {
  for (const torch::lazy::BackendDevice& device : lazy_device::backend().GetBackendDevices()) {
    torch::lazy::LazyGraphExecutor::Get()->SyncLiveTensorsGraph(&device, {}, wait);
    torch::lazy::LazyGraphExecutor::Get()->MarkStep(device);
  }
  if (const std::string failure = lazy_device::LastFailure::get().take(); !failure.empty()) {
    throw std::runtime_error(failure);
  }
}

void sync() {
  mark_step(/*wait=*/true);
  torch::lazy::LazyGraphExecutor::Get()->WaitDeviceOps({});
}

std::vector<std::string> devices() {
  lazy_device::backend();
  return lazy_device::device_names();
}

MemoryInfo memory_info(int64_t device) {
  return lazy_device::backend().GetMemoryInfo("lazy:" + std::to_string(device));
}

Metrics metrics() { return lazy_device::MetricsLog::get().metrics(); }

void reset_metrics() { lazy_device::MetricsLog::get().reset(); }

std::string to_string(const Metrics& metrics) { return lazy_device::table_of(metrics); }

std::string explain() {
  const auto last = lazy_device::LastGraph::get().graph();
  return last ? last->text() : std::string();
}

}  // namespace tenon::lazy
