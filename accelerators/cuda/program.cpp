#include "program.h"

#include <algorithm>
#include <limits>

#include "code.h"
#include "runtime/checked.h"
#include "runtime/expr.h"

namespace tenon::cuda {
namespace {

using format::cuda::ArgumentKind;
using runtime::checked_add;
using runtime::checked_mul;

constexpr size_t kMostPlans = 64;
constexpr int64_t kSharedWithoutAsking = 48 << 10;  // bytes that every kernel may have

int64_t bytes_of(format::DType dtype) { return dtype == format::DType::F64 ? 8 : dtype == format::DType::F32 ? 4 : 2; }

// The elements from the first to the last of a matrix of `rows` x `columns`, `batch` times.
int64_t extent(int64_t rows, int64_t columns, int64_t batch, const ProductForm::Matrix& strides) {
  return checked_add(checked_add(checked_mul(rows - 1, strides.row), checked_mul(batch - 1, strides.batch)), columns);
}

}  // namespace

// ---- plans ----------------------------------------------------------------------------------------------------------

// Evaluates the steps of a code for one set of sizes.
class Planner {
 public:
  Planner(Program& program, std::span<const int64_t> sizes)
      : program_(program), code_(program.code_), instructions_(instructions_of(code_)), sizes_(sizes) {}

  Plan plan() {
    plan_.scratch = value(*code_.scratch());
    if (plan_.scratch < 0) fail(TENON_BAD_FILE, "a launch needs ", plan_.scratch, " bytes of scratch");
    for (const format::cuda::Step* step : *code_.steps()) {
      if (step->kernel() != nullptr) add(*step->kernel());
      if (step->matmul() != nullptr) add(*step->matmul());
    }
    return std::move(plan_);
  }

 private:
  int64_t value(const format::Expr& expr) const { return runtime::evaluate(expr, instructions_, sizes_); }

  int64_t bytes_at(uint32_t buffer) const {
    return buffer == Place::kScratch ? plan_.scratch : value(*code_.buffers()->Get(buffer));
  }

  // `bytes` from there on lie in the buffer.
  Place place(const format::cuda::Address& at, int64_t bytes) const {
    const int64_t offset = value(at.offset()), size = bytes_at(at.buffer());
    if (offset < 0 || checked_add(offset, bytes) > size)
      fail(TENON_BAD_FILE, "a step uses bytes ", offset, " to ", offset + bytes, " of a buffer of ", size);
    return {at.buffer(), offset};
  }

  // ---- kernels ----

  void add(const format::cuda::Kernel& kernel) {
    const Limits& limits = program_.gpu_.limits();
    Program::Entry& entry = program_.entries_.find(kernel.entry()->string_view())->second;
    const int64_t blocks = value(*kernel.grid());
    if (blocks == 0) return;
    const int64_t threads = value(*kernel.block()), shared = kernel.shared() == nullptr ? 0 : value(*kernel.shared());
    check_limit(kernel, "blocks", blocks, limits.blocks);
    check_limit(kernel, "threads of a block", threads, std::min(limits.threads, entry.threads));
    if (shared != 0) check_limit(kernel, "bytes of shared memory", shared, limits.shared_bytes);
    allow(entry, shared);
    KernelLaunch launch{.entry = kernel.entry()->c_str(),
                        .function = entry.function,
                        .blocks = static_cast<unsigned>(blocks),
                        .threads = static_cast<unsigned>(threads),
                        .shared_bytes = static_cast<unsigned>(shared)};
    if (kernel.arguments() != nullptr) {
      for (const format::cuda::Argument* each : *kernel.arguments()) launch.arguments.push_back(argument(*each));
    }
    plan_.steps.emplace_back(std::move(launch));
  }

  static void check_limit(const format::cuda::Kernel& kernel, const char* what, int64_t count, int64_t most) {
    if (count < 1 || count > most)
      fail(TENON_RUN_FAILED, "kernel ", kernel.entry()->c_str(), " needs ", count, " ", what, "; this GPU runs 1 to ",
           most);
  }

  void allow(Program::Entry& entry, int64_t shared) {
    if (shared <= std::max(kSharedWithoutAsking, entry.shared_bytes)) return;
    const Driver& driver = program_.gpu_.driver();
    driver.check(driver.set_function(entry.function, kDynamicSharedBytes, static_cast<int>(shared)),
                 "set aside shared memory");
    entry.shared_bytes = shared;
  }

  KernelLaunch::Argument argument(const format::cuda::Argument& it) {
    if (it.kind() == ArgumentKind::Errors) {
      plan_.may_fail = true;
      return {it.kind(), 0, 0};
    }
    const int64_t number = value(it.value());
    const bool is_address = it.kind() != ArgumentKind::Number;
    const int64_t size = is_address ? bytes_at(it.kind() == ArgumentKind::Scratch ? Place::kScratch : it.item()) : 0;
    if (is_address && (number < 0 || number > size))
      fail(TENON_BAD_FILE, "a kernel is given byte ", number, " of a buffer of ", size);
    return {it.kind(), it.item(), number};
  }

  // ---- products ----

  void add(const format::cuda::Matmul& it) {
    ProductForm form{.m = value(*it.m()),
                     .n = value(*it.n()),
                     .k = value(*it.k()),
                     .batch = value(*it.batch()),
                     .operand = it.operand(),
                     .result = it.result(),
                     .transpose_a = it.transpose_a(),
                     .transpose_b = it.transpose_b(),
                     .has_bias = it.bias() != nullptr,
                     .epilogue = it.epilogue(),
                     .a = {value(*it.a_row()), value(*it.a_batch())},
                     .b = {value(*it.b_row()), value(*it.b_batch())},
                     .d = {value(*it.d_row()), value(*it.d_batch())},
                     .alignment = kAlignment};
    check_sizes(form);
    if (form.m == 0 || form.n == 0 || form.batch == 0) return;
    const int64_t operand = bytes_of(form.operand), result = bytes_of(form.result);
    const int64_t d_bytes = checked_mul(extent(form.m, form.n, form.batch, form.d), result);
    ProductLaunch launch{.d = place(*it.d(), d_bytes), .bias = {}, .alpha = it.alpha()};
    if (form.k == 0) return add_zeros(form, launch.d, d_bytes);
    launch.a = place(*it.a(), checked_mul(operand, form.transpose_a ? extent(form.k, form.m, form.batch, form.a)
                                                                    : extent(form.m, form.k, form.batch, form.a)));
    launch.b = place(*it.b(), checked_mul(operand, form.transpose_b ? extent(form.n, form.k, form.batch, form.b)
                                                                    : extent(form.k, form.n, form.batch, form.b)));
    if (it.bias() != nullptr) launch.bias = place(*it.bias(), checked_mul(form.n, result));
    for (const Place& at : {launch.a, launch.b, launch.d, launch.bias}) {
      while (at.offset % form.alignment != 0) form.alignment /= 2;
    }
    launch.product = program_.gpu_.products().find(form);
    plan_.steps.emplace_back(std::move(launch));
  }

  static void check_sizes(const ProductForm& form) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    for (int64_t size : {form.m, form.n, form.k, form.batch}) {
      if (size < 0 || size > kMost) fail(TENON_RUN_FAILED, "cuBLASLt multiplies no matrices with a size of ", size);
    }
    for (const ProductForm::Matrix& matrix : {form.a, form.b, form.d}) {
      if (matrix.row < 0 || matrix.batch < 0)
        fail(TENON_BAD_FILE, "a matrix has strides of ", matrix.row, " and ", matrix.batch, " elements");
    }
  }

  // A sum of no products.
  void add_zeros(const ProductForm& form, const Place& to, int64_t bytes) {
    const bool is_dense = form.d.row == form.n && (form.batch == 1 || form.d.batch == checked_mul(form.m, form.n));
    if (!is_dense || form.has_bias)
      fail(TENON_UNSUPPORTED, "device cuda computes no sums of 0 products with a bias, or in a part of a tensor");
    plan_.steps.emplace_back(FillLaunch{to, static_cast<uint64_t>(bytes)});
  }

  Program& program_;
  const format::cuda::Code& code_;
  std::span<const format::Instruction> instructions_;
  std::span<const int64_t> sizes_;
  Plan plan_;
};

// ---- launches -------------------------------------------------------------------------------------------------------

namespace {

// Gives the steps of a plan to the GPU.
class Launcher {
 public:
  Launcher(Gpu& gpu, const tenon_launch& launch, Address scratch, const Queue::Command& command, Parameters& parameters)
      : gpu_(gpu), launch_(launch), scratch_(scratch), command_(command), parameters_(parameters) {}

  void operator()(const KernelLaunch& kernel) {
    auto& [values, addresses] = parameters_;
    values.clear();
    for (const KernelLaunch::Argument& argument : kernel.arguments) values.push_back(value_of(argument));
    addresses.clear();
    for (uint64_t& value : values) addresses.push_back(&value);
    const LaunchConfig config{.grid = {kernel.blocks, 1, 1},
                              .block = {kernel.threads, 1, 1},
                              .shared_bytes = kernel.shared_bytes,
                              .stream = command_.stream};
    const Result result = gpu_.driver().launch(&config, kernel.function, addresses.data(), nullptr);
    if (result != kSuccess)
      fail(TENON_RUN_FAILED, "kernel ", kernel.entry, " cannot start: ", gpu_.driver().describe(result));
    finish(kernel.entry);
  }

  void operator()(const ProductLaunch& product) {
    const ProductAddresses at{address(product.a), address(product.b), address(product.d), address(product.bias)};
    gpu_.products().run(*product.product, at, product.alpha, gpu_.workspace(), command_.stream);
    finish("a product of cuBLASLt");
  }

  void operator()(const FillLaunch& fill) {
    gpu_.driver().check(gpu_.driver().fill8(address(fill.to), 0, fill.bytes, command_.stream),
                        "fill memory with zeros");
  }

 private:
  Address address(const Place& place) const {
    const Address base =
        place.buffer == Place::kScratch ? scratch_ : reinterpret_cast<Address>(launch_.buffers[place.buffer]);
    return base + static_cast<uint64_t>(place.offset);
  }

  uint64_t value_of(const KernelLaunch::Argument& argument) const {
    switch (argument.kind) {
      case ArgumentKind::Buffer:
        return address({argument.item, argument.value});
      case ArgumentKind::Scratch:
        return address({Place::kScratch, argument.value});
      case ArgumentKind::Number:
        return static_cast<uint64_t>(argument.value);
      case ArgumentKind::Errors:
        return command_.errors;
    }
    return 0;
  }

  void finish(const char* step) const {
    if (!gpu_.options().checks) return;
    const Result result = gpu_.driver().finish_stream(command_.stream);
    if (result != kSuccess) fail(TENON_RUN_FAILED, step, " fails: ", gpu_.driver().describe(result));
  }

  Gpu& gpu_;
  const tenon_launch& launch_;
  Address scratch_;
  const Queue::Command& command_;
  Parameters& parameters_;
};

}  // namespace

uint64_t Program::launch(const tenon_launch& launch) {
  if (launch.buffer_count != code_.buffers()->size() || launch.size_count != code_.sizes())
    fail(TENON_INVALID_ARGUMENT, "a launch has ", launch.buffer_count, " buffers and ", launch.size_count,
         " sizes; its code takes ", code_.buffers()->size(), " and ", code_.sizes());
  const std::shared_ptr<const Plan> plan = plan_for({launch.sizes, launch.size_count});
  const bool is_given = plan->scratch <= code_.given_scratch() && launch.scratch != nullptr;
  const Address scratch = is_given || plan->scratch == 0 ? reinterpret_cast<Address>(launch.scratch)
                                                         : gpu_.scratch(static_cast<uint64_t>(plan->scratch));
  const Queue::Command command = gpu_.queue().begin(plan->may_fail ? names_ : nullptr);
  Launcher launcher(gpu_, launch, scratch, command, parameters_);
  for (const auto& step : plan->steps) std::visit(launcher, step);
  gpu_.queue().end(command);
  return command.ticket;
}

std::shared_ptr<const Plan> Program::plan_for(std::span<const int64_t> sizes) {
  if (last_ && std::ranges::equal(sizes, ages_.front())) return last_;
  const std::vector<int64_t> key(sizes.begin(), sizes.end());
  if (const auto known = plans_.find(key); known != plans_.end()) {
    ages_.splice(ages_.begin(), ages_, known->second.age);
    return last_ = known->second.plan;
  }
  if (module_ && entries_.empty()) find_entries();
  auto plan = std::make_shared<const Plan>(Planner(*this, sizes).plan());
  if (plans_.size() == kMostPlans) {
    plans_.erase(ages_.back());
    ages_.pop_back();
  }
  ages_.push_front(key);
  plans_.emplace(key, Kept{plan, ages_.begin()});
  return last_ = plan;
}

// ---- loading --------------------------------------------------------------------------------------------------------

Program::Program(Gpu& gpu, std::span<const std::byte> code) : gpu_(gpu), code_(verified(code)) {
  const Limits& limits = gpu.limits();
  if (static_cast<int64_t>(code_.architecture()) > limits.architecture)
    fail(TENON_UNSUPPORTED, "the code needs a GPU of compute capability ", code_.architecture() / 10, ".",
         code_.architecture() % 10, " or newer; this one has ", limits.architecture / 10, ".",
         limits.architecture % 10);
  auto names = std::make_shared<std::vector<std::string>>();
  if (code_.nodes() != nullptr) {
    for (const flatbuffers::String* name : *code_.nodes()) names->push_back(name->str());
  }
  names_ = std::move(names);
  if (has_kernels()) module_ = gpu_.load(code_.ptx()->str());
}

bool Program::has_kernels() const {
  return std::ranges::any_of(*code_.steps(), [](const format::cuda::Step* step) { return step->kernel() != nullptr; });
}

// When the first plan is made.
void Program::find_entries() {
  const Driver& driver = gpu_.driver();
  for (const format::cuda::Step* step : *code_.steps()) {
    if (step->kernel() == nullptr) continue;
    const char* const name = step->kernel()->entry()->c_str();
    if (!entries_.contains(name)) {
      Function function = nullptr;
      int threads = 0;
      if (driver.find_function(&function, module_->get(), name) != kSuccess)
        fail(TENON_BAD_FILE, "the PTX of a program has no kernel ", name);
      driver.check(driver.function_attribute(&threads, kThreadsOfFunction, function), "ask for the limits of a kernel");
      entries_.emplace(name, Entry{function, threads, 0});
    }
    check_parameters(entries_.find(name)->second.function, *step->kernel());
  }
}

// The driver reads as many arguments as the kernel has parameters, whatever it is given.
void Program::check_parameters(Function function, const format::cuda::Kernel& kernel) const {
  const size_t given = kernel.arguments() == nullptr ? 0 : kernel.arguments()->size();
  size_t count = 0, offset = 0, bytes = 0;
  while (count <= given && gpu_.driver().parameter(function, count, &offset, &bytes) == kSuccess &&
         bytes == sizeof(uint64_t))
    ++count;
  if (count != given || gpu_.driver().parameter(function, count, &offset, &bytes) == kSuccess)
    fail(TENON_BAD_FILE, "kernel ", kernel.entry()->c_str(), " is given ", given,
         " arguments of 8 bytes, which are not its parameters");
}

}  // namespace tenon::cuda
