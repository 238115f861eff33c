#include "gpu.h"

#include <algorithm>
#include <charconv>
#include <semaphore>
#include <thread>

namespace tenon::cuda {
namespace {

DeviceNumber device_of(const Driver& driver, int number) {
  const int count = count_devices(driver);
  if (number >= count)
    fail(TENON_INVALID_ARGUMENT, "there is no GPU ", number, ": the driver shows ", count, ", from number 0 on");
  DeviceNumber device = 0;
  driver.check(driver.device(&device, number), "open the GPU");
  return device;
}

template <class Number>
bool reads(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0;
}

void read_option(std::string_view text, Options& options) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  if (equals == std::string_view::npos && reads(text, options.device)) return;
  if (name == "device" && reads(value, options.device)) return;
  if (name == "memory" && reads(value, options.memory)) return;
  if (text == "checks") {
    options.checks = true;
    return;
  }
  fail(TENON_INVALID_ARGUMENT, "device cuda has no option '", text,
       "'; the options are the number of a GPU (device=0), memory=BYTES and checks");
}

constexpr size_t kLogBytes = 8192;
enum : int { kErrorLog = 5, kErrorLogBytes = 6 };

}  // namespace

Options options_from(std::string_view text) {
  Options options;
  while (!text.empty()) {
    const std::string_view option = text.substr(0, text.find(','));
    text.remove_prefix(option.size() + (option.size() < text.size()));
    read_option(option, options);
  }
  return options;
}

uint64_t memory_of_device(const Options& options) {
  try {
    const Driver& driver = find_driver();
    size_t bytes = 0;
    driver.check(driver.device_memory(&bytes, device_of(driver, options.device)), "ask for the memory of the GPU");
    return options.memory > 0 && options.memory < bytes ? options.memory : bytes;
  } catch (const StatusError&) {  // open() says why
    return options.memory;
  }
}

// ---- modules --------------------------------------------------------------------------------------------------------

namespace {

Module compiled(const Driver& driver, const std::string& ptx) {
  std::string log(kLogBytes, '\0');
  int options[] = {kErrorLog, kErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  Module module = nullptr;
  const Result result = driver.load_module(&module, ptx.c_str(), 2, options, values);
  if (result == kSuccess) return module;
  log.resize(std::min(log.size(), log.find('\0')));
  while (log.ends_with('\n')) log.pop_back();
  fail(result == kOutOfMemory ? TENON_OUT_OF_MEMORY : TENON_UNSUPPORTED,
       "the driver cannot compile the kernels of a program: ", driver.describe(result), log.empty() ? "" : "\n", log);
}

// As many at a time as there are CPUs.
std::counting_semaphore<>& compilers() {
  static auto& free = *new std::counting_semaphore<>(std::max(1u, std::thread::hardware_concurrency()));  // NOLINT
  return free;
}

}  // namespace

LoadedModule::LoadedModule(const Driver& driver, Context context, const std::string& ptx) : driver_(driver) {
  const auto compile = [&driver, context, ptx] {
    compilers().acquire();
    const struct Release {
      ~Release() { compilers().release(); }
    } release_at_end;
    const Current current(driver, context);
    return compiled(driver, ptx);
  };
  module_ = std::async(std::launch::async, compile).share();
}

LoadedModule::~LoadedModule() {
  try {
    driver_.unload_module(module_.get());
  } catch (const StatusError&) {  // there is none
  }
}

std::shared_ptr<const LoadedModule> Gpu::load(const std::string& ptx) {
  std::erase_if(modules_, [](const auto& known) { return known.second.expired(); });
  if (const auto known = modules_.find(ptx); known != modules_.end()) return known->second.lock();
  const auto module = std::make_shared<const LoadedModule>(driver_, context_, ptx);
  modules_.emplace(ptx, module);
  return module;
}

// ---- the GPU --------------------------------------------------------------------------------------------------------

int Gpu::attribute(int which) const {
  int value = 0;
  driver_.check(driver_.device_attribute(&value, which, device_), "ask for the limits of the GPU");
  return value;
}

Gpu::Gpu(const Options& options)
    : options_(options), driver_(find_driver()), device_(device_of(driver_, options.device)) {
  limits_ = {.architecture = 10 * attribute(kComputeMajor) + attribute(kComputeMinor),
             .threads = attribute(kMaxThreads),
             .blocks = attribute(kMaxGridX),
             .shared_bytes = attribute(kMaxSharedBytes)};
  driver_.check(driver_.retain_context(&context_, device_), "use the GPU");
  try {
    const Current current(driver_, context_);
    memory_ = std::make_unique<Memory>(driver_);
    queue_ = std::make_unique<Queue>(driver_);
  } catch (...) {
    driver_.release_context(device_);
    throw;
  }
}

// At the end of a process the driver may be gone before the last device: then all that it made is gone, too.
Gpu::~Gpu() {
  if (driver_.push_context(context_) != kSuccess) {
    static_cast<void>(queue_.release());
    static_cast<void>(products_.release());
    static_cast<void>(memory_.release());
    return;
  }
  queue_.reset();
  products_.reset();
  memory_.reset();
  Context popped;
  driver_.pop_context(&popped);
  driver_.release_context(device_);
}

Products& Gpu::products() {
  if (!products_) products_ = std::make_unique<Products>();
  return *products_;
}

// A block that was too small is free for commands that come later, in their order. A CUDA graph may use it at any time.
Address Gpu::grown(Block& block, uint64_t bytes) {
  if (bytes <= block.bytes) return block.memory;
  if (block.memory != 0 && !queue_->has_captured()) memory_->free(block.memory);
  if (queue_->has_captured()) bytes = std::max(bytes, 2 * block.bytes);  // seldom, because nothing is freed
  block = {};
  block = {memory_->allocate(bytes), bytes};
  return block.memory;
}

Address Gpu::scratch(uint64_t bytes) { return grown(scratch_, bytes); }
Address Gpu::workspace() { return grown(workspace_, Products::kWorkspace); }

}  // namespace tenon::cuda
