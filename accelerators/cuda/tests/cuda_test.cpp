// The device through its C interface. Without an argument the tests use a fake driver (fake_cuda.cpp); with
// TENON_CUDA_TESTS=gpu they use the GPU of this machine, and skip what only a fake can do.
#include "tenon/cuda.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "code.h"
#include "fake_cuda.h"
#include "tenon/device.h"

namespace tenon::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string beside(const std::string& name) {
  const char* const folder = std::getenv("TENON_CUDA_FOLDER");
  return std::string(folder == nullptr ? TENON_CUDA_FOLDER : folder) + "/" + name;
}

bool uses_gpu() {
  const char* const wanted = std::getenv("TENON_CUDA_TESTS");
  return wanted != nullptr && std::string(wanted) == "gpu";
}

void* library(const std::string& name) {
  void* const found = dlopen(beside(name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (found == nullptr) throw std::runtime_error(dlerror());
  return found;
}

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

const tenon_device_api& api() {
  static const tenon_device_api* const table =
      symbol<const tenon_device_api*(const tenon_host*)>(library("libtenon_cuda.so"), TENON_DEVICE_SYMBOL)(nullptr);
  return *table;
}

#define FAKE(name) (*symbol<decltype(name)>(library("libfake_cuda.so"), #name))
#define NEEDS_FAKE() \
  if (uses_gpu()) GTEST_SKIP() << "only a fake driver can do this"

struct Text {
  char bytes[4096] = "";
  tenon_text place{bytes, sizeof bytes};
  operator tenon_text*() { return &place; }
};

// Calls a function of the table. Returns the text of its failure, empty if there is none.
template <class Function, class... Arguments>
std::string call(Function function, Arguments... arguments) {
  Text text;
  const tenon_status status = function(arguments..., text);
  return status == TENON_OK ? "" : text.bytes[0] == 0 ? "a failure without a text" : text.bytes;
}

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!uses_gpu()) {
      setenv("TENON_CUDA_DRIVER", beside("libfake_cuda.so").c_str(), 1);
      setenv("TENON_CUBLASLT", beside("libfake_cuda.so").c_str(), 1);
      live_ = FAKE(fake_live)();
    }
  }
  void TearDown() override {
    close();
    if (uses_gpu()) return;
    FAKE(fake_repair)();
    FAKE(fake_set_devices)(1);
    EXPECT_EQ(FAKE(fake_live)(), live_) << "something was not freed";
  }

  tenon_device* open(const char* options = "") {
    EXPECT_EQ(call(api().open, options, &device_), "");
    return device_;
  }
  void close() {
    for (tenon_device_program* program : programs_) api().release(device_, program);
    programs_.clear();
    for (void* block : blocks_) api().free(device_, block);
    blocks_.clear();
    if (device_ != nullptr) api().release(device_, nullptr);
    device_ = nullptr;
  }

  tenon_device_program* load(const std::string& code) {
    kept_.push_back(std::make_unique<std::string>(code));
    tenon_device_program* program = nullptr;
    EXPECT_EQ(call(api().load, device_, static_cast<const void*>(kept_.back()->data()), code.size(), &program), "");
    if (program != nullptr) programs_.push_back(program);
    return program;
  }
  std::string load_failure(const std::string& code) {
    tenon_device_program* program = nullptr;
    const std::string failure = call(api().load, device_, static_cast<const void*>(code.data()), code.size(), &program);
    if (program != nullptr) api().release(device_, program);
    return failure;
  }
  // Of load(), or of the first launch, which has this many buffers and sizes of 0.
  std::string launch_failure(const std::string& code, size_t buffers, size_t sizes) {
    tenon_device_program* program = nullptr;
    std::string failure = call(api().load, device_, static_cast<const void*>(code.data()), code.size(), &program);
    if (program == nullptr) return failure;
    uint64_t ticket = 0;
    failure = submit_failure(program, std::vector<void*>(buffers, block(64)), std::vector<int64_t>(sizes), &ticket);
    if (failure.empty()) wait(ticket);
    api().release(device_, program);
    return failure;
  }

  void* block(uint64_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(call(api().allocate, device_, bytes, uint64_t{256}, &memory), "");
    if (memory != nullptr) blocks_.push_back(memory);
    return memory;
  }
  void free_block(void* memory) {
    std::erase(blocks_, memory);
    api().free(device_, memory);
  }

  template <class T>
  void* sent(const std::vector<T>& values) {
    void* const memory = block(values.size() * sizeof(T));
    wait(copy(memory, values.data(), values.size() * sizeof(T), true));
    return memory;
  }
  template <class T>
  std::vector<T> fetched(const void* memory, size_t count) {
    std::vector<T> values(count);
    wait(copy(values.data(), memory, count * sizeof(T), false));
    return values;
  }

  uint64_t copy(void* to, const void* from, uint64_t bytes, bool in) {
    uint64_t ticket = 0;
    EXPECT_EQ(call(api().copy, device_, to, from, bytes, static_cast<int>(in), &ticket), "");
    return ticket;
  }
  void wait(uint64_t ticket) { EXPECT_EQ(call(api().wait, device_, ticket), ""); }

  std::string submit_failure(tenon_device_program* program, std::vector<void*> buffers, std::vector<int64_t> sizes,
                             uint64_t* ticket, void* scratch = nullptr) {
    const tenon_launch launch{sizeof(tenon_launch), buffers.data(), buffers.size(),
                              sizes.data(),         sizes.size(),   scratch};
    return call(api().submit, device_, program, &launch, ticket);
  }
  uint64_t submit(tenon_device_program* program, std::vector<void*> buffers, std::vector<int64_t> sizes,
                  void* scratch = nullptr) {
    uint64_t ticket = 0;
    EXPECT_EQ(submit_failure(program, std::move(buffers), std::move(sizes), &ticket, scratch), "");
    return ticket;
  }

  tenon_device* device_ = nullptr;
  long live_ = 0;
  std::vector<tenon_device_program*> programs_;
  std::vector<void*> blocks_;
  std::vector<std::unique_ptr<std::string>> kept_;
};

std::vector<float> counting(size_t count, float first = 0) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

// ---- launches -------------------------------------------------------------------------------------------------------

TEST_F(Cuda, DescribesItself) {
  tenon_device_info info{.size = sizeof info};
  ASSERT_EQ(call(api().describe, "", &info), "");
  EXPECT_STREQ(info.name, "cuda");
  EXPECT_EQ(info.alignment, 256u);
  EXPECT_GE(info.memory, uint64_t{1} << 30);
  ASSERT_EQ(call(api().describe, "memory=4096", &info), "");
  EXPECT_EQ(info.memory, 4096u);
}

TEST_F(Cuda, RunsAKernelForEverySize) {
  open();
  tenon_device_program* const add = load(add_code());
  for (const size_t count : {size_t{1}, size_t{127}, size_t{128}, size_t{1000}, size_t{100'000}}) {
    void *const x = sent(counting(count)), *const y = sent(counting(count, 10)), *const out = block(count * 4);
    wait(submit(add, {x, y, out}, {static_cast<int64_t>(count)}));
    const std::vector<float> sums = fetched<float>(out, count);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(sums[i], 10 + 2 * static_cast<float>(i)) << i << " of " << count;
  }
}

TEST_F(Cuda, AnEmptyGridRunsNothing) {
  open();
  tenon_device_program* const add = load(add_code());
  void* const x = sent(counting(4));
  wait(submit(add, {x, x, x}, {0}));
  EXPECT_THAT(fetched<float>(x, 4), ElementsAre(0, 1, 2, 3));
}

TEST_F(Cuda, LaunchesFollowEachOtherWithoutAWait) {
  open();
  tenon_device_program* const add = load(add_code());
  void *const x = sent(counting(1000)), *const sum = sent(std::vector<float>(1000, 0.0f));
  uint64_t last = 0;
  for (int i = 0; i < 20; ++i) last = submit(add, {sum, x, sum}, {1000});
  wait(last);
  EXPECT_EQ(fetched<float>(sum, 1000)[7], 140);
}

TEST_F(Cuda, StepsShareScratch) {
  open();
  for (const int64_t given : {0, 4096}) {
    CodeBuilder code(1);
    for (int i = 0; i < 2; ++i) code.buffer(code.size_times(0, 4));
    code.scratch(code.size_times(0, 4), given);
    using Code = CodeBuilder;
    code.kernel("test_add", code.blocks(0, 128), code.number(128),
                {Code::buffer_argument(0, code.number(0)), Code::buffer_argument(0, code.number(0)),
                 Code::scratch_argument(code.number(0)), Code::number_argument(code.size(0))});
    code.kernel("test_add", code.blocks(0, 128), code.number(128),
                {Code::scratch_argument(code.number(0)), Code::buffer_argument(0, code.number(0)),
                 Code::buffer_argument(1, code.number(0)), Code::number_argument(code.size(0))});
    tenon_device_program* const program = load(code.bytes());
    void *const x = sent(counting(3000)), *const out = block(12000), *const scratch = block(4096);
    for (const int64_t count : {1000, 3000}) {  // 3000 numbers do not fit the given scratch
      wait(submit(program, {x, out}, {count}, given == 0 ? nullptr : scratch));
      EXPECT_EQ(fetched<float>(out, static_cast<size_t>(count)).back(), 3 * static_cast<float>(count - 1));
    }
  }
}

// ---- failures of kernels --------------------------------------------------------------------------------------------

TEST_F(Cuda, TellsAtTheWaitWhichIndexIsOutOfRange) {
  open();
  tenon_device_program* const gather = load(gather_code());
  void *const x = sent(counting(10)), *const out = sent(counting(3));
  void *const good = sent(std::vector<int64_t>{3, 9, 0}), *const bad = sent(std::vector<int64_t>{1, 10, 2}),
              *const negative = sent(std::vector<int64_t>{1, -1, 2});
  const uint64_t first = submit(gather, {x, bad, out}, {3, 10});
  const uint64_t second = submit(gather, {x, good, out}, {3, 10});
  const uint64_t third = submit(gather, {x, negative, out}, {3, 10});
  EXPECT_EQ(call(api().wait, device_, third), "%rows_of_x: index -1 is out of range for a size of 10");
  EXPECT_EQ(call(api().wait, device_, first), "%rows_of_x: index 10 is out of range for a size of 10");
  wait(second);
  wait(submit(gather, {x, good, out}, {3, 10}));
  EXPECT_THAT(fetched<float>(out, 3), ElementsAre(3, 9, 0));
}

TEST_F(Cuda, RecordsOfErrorsAreUsedAgain) {
  open();
  tenon_device_program* const gather = load(gather_code());
  void *const x = sent(counting(10)), *const out = sent(counting(1)), *const good = sent(std::vector<int64_t>{3}),
              *const bad = sent(std::vector<int64_t>{11});
  std::vector<uint64_t> failing;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t ticket = submit(gather, {x, i % 1000 == 0 ? bad : good, out}, {1, 10});
    if (i % 1000 == 0) failing.push_back(ticket);
  }
  for (uint64_t ticket : failing) EXPECT_THAT(call(api().wait, device_, ticket), HasSubstr("index 11 is out of range"));
  wait(submit(gather, {x, good, out}, {1, 10}));
}

TEST_F(Cuda, AFailingGpuIsAnError) {
  NEEDS_FAKE();
  open();
  tenon_device_program* const add = load(add_code());
  void* const x = sent(counting(4));
  FAKE(fake_break_on)("test_add");
  const uint64_t ticket = submit(add, {x, x, x}, {4});
  EXPECT_EQ(call(api().wait, device_, ticket),
            "cannot finish what runs on the GPU: a fake text (CUDA_ERROR_LAUNCH_FAILED, 719)");
  uint64_t next = 0;
  EXPECT_THAT(submit_failure(add, {x, x, x}, {4}, &next), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
  FAKE(fake_repair)();
}

TEST_F(Cuda, ADriverThatIsGoneHarmsNobody) {
  NEEDS_FAKE();
  constexpr int kDeinitialized = 4;
  open();
  void* const x = block(4);
  wait(submit(load(add_code()), {x, x, x}, {1}));
  blocks_.clear();
  FAKE(fake_fail)("cuCtxPushCurrent_v2", kDeinitialized, 0);
  api().release(device_, programs_.back());
  programs_.clear();
  FAKE(fake_fail)("cuCtxPushCurrent_v2", kDeinitialized, 0);
  api().release(device_, nullptr);
  device_ = nullptr;
  live_ = FAKE(fake_live)();  // what the driver took with it
}

TEST_F(Cuda, ChecksNameTheStepThatFails) {
  NEEDS_FAKE();
  open("checks");
  tenon_device_program* const add = load(add_code());
  void* const x = sent(counting(4));
  FAKE(fake_break_on)("test_add");
  uint64_t ticket = 0;
  EXPECT_THAT(submit_failure(add, {x, x, x}, {4}, &ticket), HasSubstr("test_add fails: a fake text"));
  FAKE(fake_repair)();
}

// ---- products -------------------------------------------------------------------------------------------------------

struct ProductCase {
  bool transpose_a, transpose_b, has_bias;
  format::cuda::Epilogue epilogue;
  int64_t m, n, k, batch;
};

std::string product_code(const ProductCase& it, format::DType dtype, bool shares_b) {
  const int64_t size = dtype == format::DType::F32 ? 4 : 2;
  CodeBuilder code(1);  // m
  const auto kept = [](format::Expr expr) { return std::make_unique<format::Expr>(expr); };
  code.buffer(code.size_times(0, it.k * it.batch * size)).buffer(code.number(it.k * it.n * it.batch * size));
  code.buffer(code.number(it.n * size)).buffer(code.size_times(0, it.n * it.batch * size));
  format::cuda::MatmulT product;
  product.m = kept(code.size(0)), product.n = kept(code.number(it.n)), product.k = kept(code.number(it.k));
  product.batch = kept(code.number(it.batch));
  product.operand = product.result = dtype;
  product.transpose_a = it.transpose_a, product.transpose_b = it.transpose_b;
  const auto at = [&](uint32_t buffer) { return std::make_unique<format::cuda::Address>(buffer, code.number(0)); };
  product.a = at(0), product.b = at(1), product.d = at(3);
  if (it.has_bias) product.bias = at(2);
  product.a_row = kept(it.transpose_a ? code.size(0) : code.number(it.k));
  product.b_row = kept(code.number(it.transpose_b ? it.k : it.n));
  product.d_row = kept(code.number(it.n));
  product.a_batch = kept(code.size_times(0, it.k));
  product.b_batch = kept(code.number(shares_b ? 0 : it.k * it.n));
  product.d_batch = kept(code.size_times(0, it.n));
  product.alpha = 0.5;
  product.epilogue = it.epilogue;
  return code.matmul(std::move(product)).bytes();
}

double expected(const ProductCase& it, bool shares_b, const std::vector<float>& a, const std::vector<float>& b,
                const std::vector<float>& bias, int64_t batch, int64_t row, int64_t column) {
  double sum = 0;
  for (int64_t k = 0; k < it.k; ++k) {
    const int64_t i = batch * it.m * it.k + (it.transpose_a ? k * it.m + row : row * it.k + k);
    const int64_t j = (shares_b ? 0 : batch * it.k * it.n) + (it.transpose_b ? column * it.k + k : k * it.n + column);
    sum += static_cast<double>(a[static_cast<size_t>(i)]) * static_cast<double>(b[static_cast<size_t>(j)]);
  }
  sum = 0.5 * sum + (it.has_bias ? static_cast<double>(bias[static_cast<size_t>(column)]) : 0);
  if (it.epilogue == format::cuda::Epilogue::Relu) return std::max(sum, 0.0);
  if (it.epilogue == format::cuda::Epilogue::Nothing) return sum;
  return sum * 0.5 * (1 + std::tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
}

uint16_t to_brain(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_brain(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

std::vector<float> random_numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)  // exact in bf16
    values.push_back(from_brain(to_brain(std::uniform_real_distribution<float>(-1, 1)(random))));
  return values;
}

TEST_F(Cuda, MultipliesMatrices) {
  using format::cuda::Epilogue;
  open();
  const ProductCase cases[] = {
      {false, false, false, Epilogue::Nothing, 5, 7, 3, 1},   {true, false, false, Epilogue::Nothing, 8, 16, 24, 1},
      {false, true, true, Epilogue::Nothing, 33, 40, 64, 1},  {true, true, true, Epilogue::Relu, 16, 8, 32, 1},
      {false, true, true, Epilogue::Gelu, 64, 48, 16, 1},     {false, false, false, Epilogue::Nothing, 9, 8, 16, 4},
      {false, false, false, Epilogue::Relu, 128, 64, 256, 1},
  };
  for (const ProductCase& it : cases) {
    for (const bool shares_b : {false, true}) {
      const std::vector<float> a = random_numbers(it.m * it.k * it.batch, 1), bias = random_numbers(it.n, 3);
      const std::vector<float> b = random_numbers(it.k * it.n * it.batch, 2);
      tenon_device_program* const program = load(product_code(it, format::DType::F32, shares_b));
      void* const d = block(static_cast<uint64_t>(it.m * it.n * it.batch) * 4);
      wait(submit(program, {sent(a), sent(b), sent(bias), d}, {it.m}));
      const std::vector<float> result = fetched<float>(d, static_cast<size_t>(it.m * it.n * it.batch));
      for (size_t i = 0; i < result.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const double value = expected(it, shares_b, a, b, bias, at / it.n / it.m, at / it.n % it.m, at % it.n);
        ASSERT_NEAR(result[i], value, 1e-4) << "element " << i << " of " << it.m << " x " << it.n << " x " << it.k;
      }
    }
  }
}

TEST_F(Cuda, MultipliesMatricesOfBf16) {
  using format::cuda::Epilogue;
  open();
  const ProductCase it{false, true, true, Epilogue::Nothing, 32, 64, 128, 1};
  const std::vector<float> a = random_numbers(it.m * it.k, 1), b = random_numbers(it.k * it.n, 2),
                           bias = random_numbers(it.n, 3);
  const auto narrow = [](const std::vector<float>& values) {
    std::vector<uint16_t> result(values.size());
    std::ranges::transform(values, result.begin(), to_brain);
    return result;
  };
  tenon_device_program* const program = load(product_code(it, format::DType::BF16, false));
  void* const d = block(static_cast<uint64_t>(it.m * it.n) * 2);
  wait(submit(program, {sent(narrow(a)), sent(narrow(b)), sent(narrow(bias)), d}, {it.m}));
  const std::vector<uint16_t> result = fetched<uint16_t>(d, static_cast<size_t>(it.m * it.n));
  for (size_t i = 0; i < result.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const double value = expected(it, false, a, b, bias, 0, at / it.n, at % it.n);
    ASSERT_NEAR(from_brain(result[i]), value, 0.02 + 0.01 * std::abs(value)) << i;
  }
}

TEST_F(Cuda, ASumOfNoProductsIsZero) {
  open();
  const ProductCase it{false, false, false, format::cuda::Epilogue::Nothing, 4, 8, 0, 1};
  tenon_device_program* const program = load(product_code(it, format::DType::F32, false));
  void *const nothing = block(4), *const d = sent(counting(32));
  wait(submit(program, {nothing, nothing, nothing, d}, {4}));
  EXPECT_THAT(fetched<float>(d, 32), testing::Each(0.0f));
}

TEST_F(Cuda, AsksForAdviceOncePerForm) {
  NEEDS_FAKE();
  open();
  const ProductCase it{false, false, false, format::cuda::Epilogue::Nothing, 4, 8, 16, 1};
  tenon_device_program* const program = load(product_code(it, format::DType::F32, false));
  tenon_device_program* const same = load(product_code(it, format::DType::F32, false));
  void* const x = block(4096);
  const long before = FAKE(fake_advice)(), products = FAKE(fake_products)();
  for (int i = 0; i < 5; ++i) {
    submit(program, {x, x, x, x}, {4});
    wait(submit(same, {x, x, x, x}, {4}));
  }
  EXPECT_EQ(FAKE(fake_advice)() - before, 1);
  EXPECT_EQ(FAKE(fake_products)() - products, 10);
}

TEST_F(Cuda, SaysWhereCublasltWasLookedFor) {
  NEEDS_FAKE();
  setenv("TENON_CUBLASLT", "/nowhere/libcublasLt.so", 1);
  open();
  const ProductCase it{false, false, false, format::cuda::Epilogue::Nothing, 4, 8, 16, 1};
  tenon_device_program* const program = load(product_code(it, format::DType::F32, false));
  void* const x = block(4096);
  uint64_t ticket = 0;
  EXPECT_THAT(
      submit_failure(program, {x, x, x, x}, {4}, &ticket),
      testing::AllOf(HasSubstr("need cuBLASLt of CUDA 12 or 13"), HasSubstr("looked for /nowhere/libcublasLt.so")));
}

// ---- streams --------------------------------------------------------------------------------------------------------

struct Streams {
  Streams() {
    void* const driver = uses_gpu() ? dlopen("libcuda.so.1", RTLD_NOW) : library("libfake_cuda.so");
    create = symbol<int(void**, unsigned)>(driver, "cuStreamCreate");
    destroy = symbol<int(void*)>(driver, "cuStreamDestroy_v2");
    push = symbol<int(void*)>(driver, "cuCtxPushCurrent_v2");
    pop = symbol<int(void**)>(driver, "cuCtxPopCurrent_v2");
    retain = symbol<int(void**, int)>(driver, "cuDevicePrimaryCtxRetain");
    release = symbol<int(int)>(driver, "cuDevicePrimaryCtxRelease_v2");
    use = symbol<void(void*)>(library("libtenon_cuda.so"), "tenon_cuda_use_stream");
    use_own = symbol<void()>(library("libtenon_cuda.so"), "tenon_cuda_use_own_stream");
    retain(&context, 0);
    push(context);
    create(&stream, 1);  // in no order with the default stream
  }
  ~Streams() {
    use_own();
    destroy(stream);
    void* popped;
    pop(&popped);
    release(0);
  }
  int (*create)(void**, unsigned);
  int (*destroy)(void*);
  int (*push)(void*);
  int (*pop)(void**);
  int (*retain)(void**, int);
  int (*release)(int);
  void (*use)(void*);
  void (*use_own)();
  void *stream = nullptr, *context = nullptr;
};

TEST_F(Cuda, CommandsKeepTheirOrderAcrossStreams) {
  open();
  tenon_device_program* const add = load(add_code());
  constexpr int64_t kCount = 1 << 20;
  void *const x = sent(std::vector<float>(kCount, 1)), *const sum = sent(std::vector<float>(kCount, 0));
  {
    Streams streams;
    for (int i = 0; i < 50; ++i) {
      i % 2 == 0 ? streams.use(streams.stream) : i % 3 == 0 ? streams.use(nullptr) : streams.use_own();
      submit(add, {sum, x, sum}, {kCount});
    }
    streams.use_own();
    EXPECT_EQ(fetched<float>(sum, kCount).back(), 50);
  }
  close();
}

TEST_F(Cuda, AGraphRunsWhatWasCaptured) {
  NEEDS_FAKE();
  open();
  tenon_device_program *const add = load(add_code()), *const gather = load(gather_code());
  void *const x = sent(counting(10)), *const sum = sent(std::vector<float>(10, 0));
  void *const index = sent(std::vector<int64_t>{3, 9, 0}), *const out = sent(counting(3));
  {
    Streams streams;
    streams.use(streams.stream);
    wait(submit(add, {sum, x, sum}, {10}));  // so that all is there
    wait(submit(gather, {x, index, out}, {3, 10}));
    FAKE(fake_capture)(streams.stream, true);
    EXPECT_EQ(submit(add, {sum, x, sum}, {10}), 0u) << "there is nothing to wait for";
    EXPECT_EQ(submit(gather, {x, index, out}, {3, 10}), 0u);
    uint64_t ticket = 0;
    float value = 0;
    EXPECT_EQ(call(api().copy, device_, x, static_cast<const void*>(&value), uint64_t{4}, 1, &ticket),
              "a copy between the host and the GPU cannot be part of a CUDA graph");
    FAKE(fake_capture)(streams.stream, false);
    const auto check = symbol<tenon_status(tenon_text*)>(library("libtenon_cuda.so"), "tenon_cuda_check_graphs");
    for (int i = 0; i < 3; ++i) FAKE(fake_replay)(streams.stream);
    EXPECT_EQ(call(check), "");
    EXPECT_EQ(fetched<float>(sum, 10)[2], 8) << "once, and three times by the graph";
    const std::vector<int64_t> bad = {3, 12, 0};
    wait(copy(index, bad.data(), 24, true));
    FAKE(fake_replay)(streams.stream);
    EXPECT_EQ(call(check), "%rows_of_x: index 12 is out of range for a size of 10");
    EXPECT_EQ(call(check), "") << "it is told once";
  }
  close();
}

TEST_F(Cuda, RecordsNoEventsOnOneStream) {
  NEEDS_FAKE();
  open();
  tenon_device_program* const add = load(add_code());
  void* const x = sent(counting(4));
  const long before = FAKE(fake_recorded_events)();
  for (int i = 0; i < 100; ++i) submit(add, {x, x, x}, {4});
  EXPECT_EQ(FAKE(fake_recorded_events)(), before);
}

// ---- copies and memory ----------------------------------------------------------------------------------------------

TEST_F(Cuda, CopiesOfEverySizeArrive) {
  open();
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{1} << 18, (size_t{1} << 18) + 1, size_t{1} << 21}) {
    std::vector<float> values = counting(count);
    void* const memory = sent(values);
    EXPECT_EQ(fetched<float>(memory, count), values) << count;
    free_block(memory);
  }
}

TEST_F(Cuda, MoreCopiesThanThereIsPinnedMemoryFor) {
  open();
  std::vector<std::vector<float>> values;
  std::vector<void*> memory;
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 100; ++i) {
    values.push_back(counting(100, static_cast<float>(i)));
    memory.push_back(block(400));
    tickets.push_back(copy(memory.back(), values.back().data(), 400, true));
  }
  std::vector<std::vector<float>> back(100, std::vector<float>(100));
  for (size_t i = 0; i < 100; ++i) tickets.push_back(copy(back[i].data(), memory[i], 400, false));
  for (uint64_t ticket : tickets) wait(ticket);
  EXPECT_EQ(back, values);
}

TEST_F(Cuda, AFreedBlockIsGivenOutAgain) {
  NEEDS_FAKE();
  open();
  void* const first = block(1000);
  free_block(first);
  const long before = FAKE(fake_allocations)();
  EXPECT_EQ(block(1020), first);
  EXPECT_EQ(FAKE(fake_allocations)(), before);
  EXPECT_NE(block(1020), first);
}

TEST_F(Cuda, AFullGpuSaysHowMuchIsFree) {
  NEEDS_FAKE();
  open();
  FAKE(fake_fail)("cuMemAlloc_v2", 2, 0);
  void* memory = nullptr;
  EXPECT_EQ(call(api().allocate, device_, uint64_t{1000}, uint64_t{256}, &memory),
            "the GPU has no room for 1024 bytes more: 12345 of its 1073741824 bytes are free");
}

TEST_F(Cuda, WhatIsKeptForLaterMakesRoom) {
  NEEDS_FAKE();
  open();
  free_block(block(1 << 20));
  const long live = FAKE(fake_live)();
  FAKE(fake_fail)("cuMemAlloc_v2", 2, 0);
  EXPECT_NE(block(100), nullptr);
  EXPECT_EQ(FAKE(fake_live)(), live) << "the large block is freed, the small one is new";
}

// ---- loading --------------------------------------------------------------------------------------------------------

TEST_F(Cuda, RefusesDamagedCode) {
  open();
  const std::string code = gather_code();
  EXPECT_EQ(load_failure(""), "these bytes are no code for CUDA");
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = code;
    const size_t at = random() % damaged.size();
    damaged[at] = static_cast<char>(random());
    if (i % 5 == 0) damaged.resize(random() % damaged.size());
    const std::string failure = load_failure(damaged);
    refused += !failure.empty();
  }
  EXPECT_GT(refused, 400);
}

TEST_F(Cuda, RefusesNumbersThatAreNotThere) {
  open();
  const auto failure = [&](auto change) {
    CodeBuilder code(1);
    code.buffer(code.size_times(0, 4));
    code.kernel("test_add", code.number(1), code.number(128),
                {CodeBuilder::buffer_argument(0, code.number(0)), CodeBuilder::buffer_argument(0, code.number(0)),
                 CodeBuilder::buffer_argument(0, code.number(0)), CodeBuilder::number_argument(code.size(0))});
    change(code);
    return launch_failure(code.bytes(), 1, 1);
  };
  EXPECT_EQ(failure([](CodeBuilder&) {}), "");
  EXPECT_EQ(failure([](CodeBuilder& code) { code.tables().version = 2; }),
            "the code for CUDA has version 2; this library knows 1");
  EXPECT_THAT(failure([](CodeBuilder& code) { code.buffer({9999, 1}); }), HasSubstr("does not fit the table"));
  EXPECT_THAT(failure([](CodeBuilder& code) { code.buffer(code.size(1)); }), HasSubstr("names symbol 1"));
  EXPECT_THAT(failure([](CodeBuilder& code) { code.tables().steps[0]->kernel->arguments.pop_back(); }),
              HasSubstr("kernel test_add is given 3 arguments"));
  EXPECT_THAT(failure([](CodeBuilder& code) {
                code.tables().steps[0]->kernel->arguments[0] = CodeBuilder::buffer_argument(1, code.number(0));
              }),
              HasSubstr("names buffer 1, and there are 1"));
  EXPECT_THAT(failure([](CodeBuilder& code) { code.tables().steps[0]->kernel->entry = "test_sub"; }),
              HasSubstr("has no kernel test_sub"));
  EXPECT_THAT(failure([](CodeBuilder& code) { code.tables().ptx.clear(); }), HasSubstr("no PTX"));
  EXPECT_THAT(failure([](CodeBuilder& code) { code.tables().ptx = "nonsense"; }),
              HasSubstr("the driver cannot compile the kernels of a program"));
  EXPECT_THAT(failure([](CodeBuilder& code) {
                code.tables().steps[0]->matmul = nullptr, code.tables().steps[0]->kernel = nullptr;
              }),
              HasSubstr("neither a kernel nor a product"));
}

TEST_F(Cuda, TellsWhatTheDriversCompilerSays) {
  NEEDS_FAKE();
  open();
  CodeBuilder code(0);
  code.kernel("test_add", code.number(1), code.number(1), {}).tables().ptx = "nonsense";
  EXPECT_EQ(launch_failure(code.bytes(), 0, 0),
            "the driver cannot compile the kernels of a program: a fake text (CUDA_ERROR_INVALID_PTX, 218)\n"
            "ptxas fatal : line 1: no version");
}

TEST_F(Cuda, RefusesLaunchesPastTheLimits) {
  open();
  const auto failure = [&](int64_t grid, int64_t block, int64_t offset) {
    CodeBuilder code(1);
    code.buffer(code.size_times(0, 4));
    code.kernel("test_add", code.number(grid), code.number(block),
                {CodeBuilder::buffer_argument(0, code.number(offset)), CodeBuilder::buffer_argument(0, code.number(0)),
                 CodeBuilder::buffer_argument(0, code.number(0)), CodeBuilder::number_argument(code.size(0))});
    uint64_t ticket = 0;
    return submit_failure(load(code.bytes()), {this->block(64)}, {16}, &ticket);
  };
  EXPECT_EQ(failure(1, 32, 0), "");
  EXPECT_THAT(failure(1, 2048, 0), HasSubstr("needs 2048 threads of a block"));
  EXPECT_THAT(failure(-1, 32, 0), HasSubstr("needs -1 blocks"));
  EXPECT_THAT(failure(int64_t{1} << 40, 32, 0), HasSubstr("blocks; this GPU runs 1 to 2147483647"));
  EXPECT_THAT(failure(1, 32, 65), HasSubstr("byte 65 of a buffer of 64"));
  uint64_t ticket = 0;
  EXPECT_THAT(submit_failure(load(add_code()), {block(4)}, {1}, &ticket),
              HasSubstr("1 buffers and 1 sizes; its code takes 3 and 1"));
}

TEST_F(Cuda, ProductsStayInsideOfTheirBuffers) {
  open();
  CodeBuilder code(0);
  code.buffer(code.number(64));
  const auto number = [&](int64_t value) { return std::make_unique<format::Expr>(code.number(value)); };
  const auto product = [&](int64_t row, int64_t offset) {
    format::cuda::MatmulT it;
    it.m = number(4), it.n = number(4), it.k = number(4), it.batch = number(1);
    it.operand = it.result = format::DType::F32;
    for (auto* at : {&it.a, &it.b, &it.d}) *at = std::make_unique<format::cuda::Address>(0, code.number(0));
    it.d = std::make_unique<format::cuda::Address>(0, code.number(offset));
    for (auto* each : {&it.a_row, &it.b_row, &it.d_row, &it.a_batch, &it.b_batch, &it.d_batch}) *each = number(4);
    it.d_row = number(row);
    return it;
  };
  for (const auto& [row, offset] : {std::pair<int64_t, int64_t>{5, 0}, {4, 4}, {4, -4}}) {
    code.tables().steps.clear();
    code.matmul(product(row, offset));
    uint64_t ticket = 0;
    EXPECT_THAT(submit_failure(load(code.bytes()), {block(64)}, {}, &ticket), HasSubstr("of a buffer of 64"));
  }
}

TEST_F(Cuda, KeepsABoundedNumberOfPlans) {
  open();
  tenon_device_program* const add = load(add_code());
  void* const x = sent(counting(1000));
  for (int round = 0; round < 2; ++round) {
    for (int64_t count = 1; count < 300; ++count) submit(add, {x, x, x}, {0});
  }
  wait(submit(add, {x, x, x}, {1}));
}

// ---- times ----------------------------------------------------------------------------------------------------------

TEST_F(Cuda, TellsWhenCommandsRan) {
  open();
  tenon_device_program* const add = load(add_code());
  void* const x = sent(counting(1 << 20));
  std::vector<tenon_device_event> events(16);
  uint64_t count = 0;
  ASSERT_EQ(call(api().events, device_, events.data(), uint64_t{16}, &count), "");
  EXPECT_EQ(count, 0u) << "times are taken from now on";
  const uint64_t first = submit(add, {x, x, x}, {1 << 20}), second = submit(add, {x, x, x}, {1 << 20});
  wait(second);
  ASSERT_EQ(call(api().events, device_, events.data(), uint64_t{16}, &count), "");
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(events[0].ticket, first);
  EXPECT_EQ(events[1].ticket, second);
  EXPECT_LT(events[0].begin_ns, events[0].end_ns);
  EXPECT_LE(events[0].end_ns, events[1].begin_ns + 1000);
}

// ---- machines that lack something -----------------------------------------------------------------------------------

std::string open_failure(const char* options = "") {
  tenon_device* device = nullptr;
  const std::string failure = call(api().open, options, &device);
  if (device != nullptr) api().release(device, nullptr);
  return failure;
}

TEST_F(Cuda, SaysWhatTheMachineLacks) {
  NEEDS_FAKE();
  setenv("TENON_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  EXPECT_THAT(open_failure(),
              HasSubstr("this machine has no driver for NVIDIA GPUs: /nowhere/libcuda.so.1 cannot be opened"));
  tenon_device_info info{.size = sizeof info};
  EXPECT_EQ(call(api().describe, "", &info), "") << "a device can be described without its hardware";
  setenv("TENON_CUDA_DRIVER", "libm.so.6", 1);
  EXPECT_THAT(open_failure(), HasSubstr("has no cuInit: install a driver for CUDA 12.4 or newer"));
}

TEST_F(Cuda, SaysWhichDriverIsNeeded) {
  NEEDS_FAKE();
  // The driver is asked once in a process: by another path it is another one.
  setenv("TENON_CUDA_DRIVER", (beside("") + "./libfake_cuda.so").c_str(), 1);
  setenv("FAKE_CUDA_VERSION", "11080", 1);
  EXPECT_EQ(open_failure(),
            "the driver of the GPU is for CUDA 11.8; Tenon needs one for CUDA 12.4 or newer (550 or newer)");
  unsetenv("FAKE_CUDA_VERSION");
}

TEST_F(Cuda, SaysThatThereIsNoGpu) {
  NEEDS_FAKE();
  FAKE(fake_set_devices)(0);
  EXPECT_EQ(open_failure(), "the driver finds no GPU");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(open_failure(),
            "the driver finds no GPU: CUDA_VISIBLE_DEVICES is '', which leaves none; unset it to use them");
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(Cuda, SaysWhichOptionsThereAre) {
  EXPECT_THAT(open_failure("7"), HasSubstr("there is no GPU 7: the driver shows"));
  EXPECT_THAT(open_failure("speed=2"), HasSubstr("device cuda has no option 'speed=2'; the options are"));
}

TEST_F(Cuda, EveryFailureWhileOpeningIsAnError) {
  NEEDS_FAKE();
  for (const char* function : {"cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuEventCreate", "cuMemHostAlloc"}) {
    FAKE(fake_fail)(function, 999, 0);
    EXPECT_THAT(open_failure(), HasSubstr("CUDA_ERROR_UNKNOWN")) << function;
  }
}

}  // namespace
}  // namespace tenon::cuda
