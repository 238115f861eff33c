// Calls of library functions as a file may make them. What they compute is tested by tests/graph/library_call_test.
#include "runtime/library.h"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>

#include "graph/library_call.h"
#include "runtime/error.h"
#include "runtime/services.h"
#include "runtime/thread_pool.h"

namespace tenon::runtime {
namespace {

using ::testing::HasSubstr;

// A tensor in memory of exactly its size, so that a sanitizer sees what goes past it.
class Owned {
 public:
  Owned(tenon_dtype dtype, std::vector<int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
    for (const int64_t size : shape_) count_ *= static_cast<size_t>(size);
    data_ = std::make_unique<std::byte[]>(count_ * tenon_dtype_size(dtype));
  }
  TensorView view() const { return {dtype_, shape_, count_ == 0 ? nullptr : data_.get()}; }
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_.get()), count_};
  }

 private:
  tenon_dtype dtype_;
  std::vector<int64_t> shape_;
  size_t count_ = 1;
  std::unique_ptr<std::byte[]> data_;
};

struct Type {
  tenon_dtype dtype;
  std::vector<int64_t> shape;
};

struct Arguments {
  std::vector<Type> inputs;
  std::vector<Type> outputs;
  std::vector<int64_t> numbers = {};
};

struct Made {
  tenon_dtype dtype = TENON_I64;
  std::optional<Owned> tensor;
};

TensorView make(void* context, size_t, std::span<const int64_t> shape) {
  auto& made = *static_cast<Made*>(context);
  return made.tensor.emplace(made.dtype, std::vector<int64_t>(shape.begin(), shape.end())).view();
}

// Nothing, or what went wrong. Inputs are zeros.
std::optional<StatusError> error_of(std::string_view name, const Arguments& arguments,
                                    const tenon_services* services = tenon_default_services(),
                                    std::string_view text = "is bad", tenon_dtype made_dtype = TENON_I64) {
  std::vector<Owned> owned;
  std::vector<TensorView> inputs, outputs;
  for (const auto& [dtype, shape] : arguments.inputs) inputs.push_back(owned.emplace_back(dtype, shape).view());
  for (const auto& [dtype, shape] : arguments.outputs) outputs.push_back(owned.emplace_back(dtype, shape).view());
  // The views' shapes are in `owned`, which has grown.
  for (size_t i = 0; i < owned.size(); ++i) {
    (i < inputs.size() ? inputs[i] : outputs[i - inputs.size()]) = owned[i].view();
  }
  Made made{made_dtype, {}};
  LibraryCall call{inputs, outputs, arguments.numbers, text, services, make, &made};
  try {
    run(*find_library_function(name), call);
    return {};
  } catch (const StatusError& error) {
    return error;
  }
}

// A good call of each function.
struct Good {
  std::string_view name;
  Arguments arguments;
};

const Good kGood[] = {
    {"sort", {{{TENON_F32, {3, 4}}}, {{TENON_F32, {3, 4}}, {TENON_I64, {3, 4}}}, {-1, 1}}},
    {"argsort", {{{TENON_I8, {3, 4}}}, {{TENON_I64, {3, 4}}}, {0, 0}}},
    {"topk", {{{TENON_F16, {3, 4}}}, {{TENON_F16, {3, 2}}, {TENON_I64, {3, 2}}}, {2, 1, 1, 1}}},
    {"kthvalue", {{{TENON_BOOL, {3, 4}}}, {{TENON_BOOL, {4}}, {TENON_I64, {4}}}, {2, 0, 0}}},
    {"nonzero", {{{TENON_F64, {3, 4}}}, {{TENON_I64, {}}}, {kAnyCount}}},
    {"searchsorted", {{{TENON_F16, {2, 4}}, {TENON_F16, {2, 3}}}, {{TENON_I64, {2, 3}}}, {1}}},
    {"bincount", {{{TENON_I32, {3}}}, {{TENON_I64, {}}}, {2, 2}}},
    {"grouped_matmul",
     {{{TENON_BF16, {5, 3}}, {TENON_BF16, {2, 4, 3}}, {TENON_I32, {2}}}, {{TENON_BF16, {5, 4}}}, {1}}},
    {"grouped_outer", {{{TENON_F64, {5, 3}}, {TENON_F64, {5, 4}}, {TENON_I64, {2}}}, {{TENON_F64, {2, 3, 4}}}}},
    {"philox", {{{TENON_I64, {2}}}, {{TENON_I64, {5, 2}}}}},
    {"uniform", {{{TENON_I64, {2}}}, {{TENON_BF16, {5}}}}},
    {"randint", {{{TENON_I64, {2}}}, {{TENON_F16, {5}}}, {-3, 8}}},
    {"randperm", {{{TENON_I64, {2}}}, {{TENON_I32, {9}}}, {9}}},
    {"cholesky", {{{TENON_F32, {2, 3, 3}}}, {{TENON_F32, {2, 3, 3}}, {TENON_I32, {2}}}}},
    {"lu", {{{TENON_F32, {2, 3, 5}}}, {{TENON_F32, {2, 3, 5}}, {TENON_I32, {2, 3}}, {TENON_I32, {2}}}}},
    {"triangular_solve", {{{TENON_F64, {3, 3}}, {TENON_F64, {3, 2}}}, {{TENON_F64, {3, 2}}}, {1, 1}}},
    {"geqrf", {{{TENON_F64, {4, 3}}}, {{TENON_F64, {4, 3}}, {TENON_F64, {3}}}}},
    {"householder_product", {{{TENON_F64, {4, 3}}, {TENON_F64, {2}}}, {{TENON_F64, {4, 3}}}}},
    {"eigh", {{{TENON_F32, {2, 3, 3}}}, {{TENON_F32, {2, 3}}, {TENON_F32, {2, 3, 3}}}}},
    {"svd", {{{TENON_F32, {4, 3}}}, {{TENON_F32, {4, 3}}, {TENON_F32, {3}}, {TENON_F32, {3, 3}}}}},
    {"matrix_exp", {{{TENON_F32, {3, 3}}}, {{TENON_F32, {3, 3}}}}},
    {"require_zero", {{{TENON_U8, {5}}, {TENON_I32, {2}}}, {{TENON_U8, {5}}}}},
    {"pivots_to_permutation", {{{TENON_I32, {2, 0}}}, {{TENON_I64, {2, 4}}}, {4}}},
};

TEST(Library, AGoodCallRuns) {
  EXPECT_EQ(std::size(kGood), library_functions().size());
  for (const auto& [name, arguments] : kGood) {
    const auto error = error_of(name, arguments);
    EXPECT_FALSE(error) << error->what();
  }
}

TEST(Library, RecordsOfTheOpTableSayTheSame) {
  for (const LibraryFunction& function : library_functions()) {
    const OpDef& op = op_named(function.name);
    std::vector<Attr> attrs;
    size_t numbers = 0, texts = 0;
    for (const AttrDef& attr : op.attrs) {
      const bool is_number = attr.kind == AttrKind::kBool || attr.kind == AttrKind::kInt ||
                             attr.kind == AttrKind::kExpr || attr.kind == AttrKind::kSymbol;
      numbers += is_number;
      texts += attr.kind == AttrKind::kString;
    }
    EXPECT_EQ(op.operands.get().size(), function.inputs) << std::string_view(function.name);
    EXPECT_EQ(op.results.size(), function.outputs) << std::string_view(function.name);
    EXPECT_EQ(numbers, function.numbers) << std::string_view(function.name);
    EXPECT_EQ(texts, function.takes_text ? 1u : 0u) << std::string_view(function.name);
  }
  EXPECT_EQ(find_library_function("relu"), nullptr);
}

TEST(Library, AttributesBecomeNumbers) {
  const auto attrs_of = [](std::string_view op, NamedAttrs named) {
    return complete_attrs(op_named(op), std::move(named));
  };
  const auto numbers = [&](std::string_view op, NamedAttrs named) {
    return library_numbers(op_named(op), attrs_of(op, std::move(named)));
  };
  EXPECT_EQ(numbers("topk", {{"k", Expr(Symbol("N"))}, {"largest", false}}),
            (std::vector<Expr>{Expr(Symbol("N")), -1, 0, 1}));
  EXPECT_EQ(numbers("nonzero", {{"count", Expr(Symbol("K"))}}), std::vector<Expr>{kAnyCount});
  EXPECT_EQ(numbers("nonzero", {{"count", Expr(7)}}), std::vector<Expr>{7});
  EXPECT_EQ(numbers("randint", {{"high", Expr(9)}, {"shape", std::vector<Expr>{3, 4}}}), (std::vector<Expr>{0, 9}));
  EXPECT_EQ(library_text(op_named("require_zero"), attrs_of("require_zero", {{"message", std::string("is odd")}})),
            "is odd");
}

// ---- calls that break the rules -------------------------------------------------------------------------------------

void expect_bad(std::string_view name, const Arguments& arguments, const std::string& what) {
  const auto error = error_of(name, arguments);
  ASSERT_TRUE(error) << name << " with " << what;
  EXPECT_TRUE(error->status() == TENON_BAD_FILE || error->status() == TENON_RUN_FAILED) << error->what();
}

// Of which an output says nothing about the others: its shape, or its dtype, is for the caller to choose.
bool is_free(std::string_view name, std::string_view what) {
  if (name == "randint" || find_library_function(name)->makes_output) return true;
  return what == "shape" ? name == "philox" || name == "uniform" : name == "randperm";
}

TEST(Library, AnotherNumberOfArgumentsIsRefused) {
  for (const auto& [name, arguments] : kGood) {
    for (auto member : {&Arguments::inputs, &Arguments::outputs}) {
      Arguments fewer = arguments, more = arguments;
      (fewer.*member).pop_back();
      (more.*member).push_back((more.*member).back());
      expect_bad(name, fewer, "too few tensors");
      expect_bad(name, more, "too many tensors");
    }
    Arguments more = arguments;
    more.numbers.push_back(0);
    expect_bad(name, more, "too many numbers");
  }
}

TEST(Library, AnotherDtypeOfOneTensorIsRefused) {
  for (const auto& [name, arguments] : kGood) {
    for (size_t i = 0; i < arguments.outputs.size(); ++i) {
      Arguments changed = arguments;
      changed.outputs[i].dtype = changed.outputs[i].dtype == TENON_I16 ? TENON_U8 : TENON_I16;
      if (!is_free(name, "dtype")) expect_bad(name, changed, "another dtype of an output");
    }
    for (const int dtype : {10, 15}) {  // the enumeration holds 4 bits
      Arguments changed = arguments;
      changed.inputs[0].dtype = static_cast<tenon_dtype>(dtype);
      changed.inputs[0].shape.assign(changed.inputs[0].shape.size(), 0);
      expect_bad(name, changed, "an unknown dtype");
    }
  }
}

TEST(Library, AnotherShapeOfOneTensorIsRefused) {
  for (const auto& [name, arguments] : kGood) {
    for (size_t i = 0; i < arguments.outputs.size(); ++i) {
      if (is_free(name, "shape")) continue;
      for (size_t dim = 0; dim < arguments.outputs[i].shape.size(); ++dim) {
        for (const int64_t by : {-1, 1}) {
          Arguments changed = arguments;
          changed.outputs[i].shape[dim] += by;
          expect_bad(name, changed, "another size of an output");
        }
      }
      Arguments changed = arguments;
      changed.outputs[i].shape.push_back(1);
      expect_bad(name, changed, "another rank of an output");
    }
    if (arguments.inputs[0].shape == std::vector<int64_t>{2}) {
      Arguments changed = arguments;
      changed.inputs[0].shape = {1};
      expect_bad(name, changed, "half a key");
    }
  }
}

TEST(Library, NumbersOutOfRangeAreRefused) {
  for (const auto& [name, arguments] : kGood) {
    for (size_t i = 0; i < arguments.numbers.size(); ++i) {
      if (name == "randint" || (name == "topk" && i == 3)) continue;
      for (const int64_t number : {INT64_MIN, INT64_MAX, int64_t{-100}, int64_t{100}}) {
        Arguments changed = arguments;
        changed.numbers[i] = number;
        expect_bad(name, changed, text_of("number ", i, " = ", number));
      }
    }
  }
  const auto randint = [](int64_t low, int64_t high) {
    return error_of("randint", {{{TENON_I64, {2}}}, {{TENON_I64, {5}}}, {low, high}});
  };
  EXPECT_TRUE(randint(3, 3));
  EXPECT_TRUE(randint(INT64_MIN, INT64_MAX));
  EXPECT_FALSE(randint(INT64_MIN, -1));
  EXPECT_FALSE(randint(INT64_MAX - 1, INT64_MAX));
}

// Sizes and memory that a tensor cannot have, in views without memory.
TEST(Library, SizesThatCannotBeAreRefused) {
  const std::vector<int64_t> shapes[] = {{-1}, {INT64_MIN, 2}, {1 << 30, 1 << 30}, {0, INT64_MAX, INT64_MAX}, {3}};
  for (const std::vector<int64_t>& shape : shapes) {
    const TensorView x{TENON_F32, shape, nullptr};
    TensorView outputs[] = {x, {TENON_I64, shape, nullptr}};
    const int64_t numbers[] = {0, 0};
    LibraryCall call{{&x, 1}, outputs, numbers, "", tenon_default_services()};
    EXPECT_THROW(run(*find_library_function("sort"), call), StatusError) << text_of(shape[0]);
  }
}

// Each tensor has memory of exactly its size: a sanitizer sees a call that leaves it.
TEST(Library, ChangedCallsStayInTheirMemory) {
  std::mt19937 random(1);
  int64_t refused = 0, ran = 0;
  for (int round = 0; round < 20000; ++round) {
    auto [name, arguments] = kGood[random() % std::size(kGood)];
    for (auto member : {&Arguments::inputs, &Arguments::outputs}) {
      for (auto& [dtype, shape] : arguments.*member) {
        if (random() % 4 == 0) dtype = static_cast<tenon_dtype>(random() % 10);
        for (int64_t& size : shape) size = random() % 4 == 0 ? static_cast<int64_t>(random() % 6) : size;
        if (random() % 16 == 0) shape.push_back(static_cast<int64_t>(random() % 3));
        if (random() % 16 == 0 && !shape.empty()) shape.pop_back();
      }
    }
    for (int64_t& number : arguments.numbers) {
      if (random() % 4 == 0) number = static_cast<int64_t>(random() % 9) - 3;
    }
    ++(error_of(name, arguments) ? refused : ran);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(ran, 1000);
}

TEST(Library, AMadeOutputMustBeWhatWasAskedFor) {
  const Arguments arguments = {{{TENON_F64, {3, 4}}}, {{TENON_I64, {}}}, {kAnyCount}};
  EXPECT_TRUE(error_of("nonzero", arguments, tenon_default_services(), "", TENON_I32));
}

// ---- the model's own errors -----------------------------------------------------------------------------------------

TEST(Library, TheModelsErrorsAreNamed) {
  const auto expect = [](std::string_view name, const Arguments& arguments, const char* message) {
    const auto error = error_of(name, arguments);
    ASSERT_TRUE(error) << name;
    EXPECT_EQ(error->status(), TENON_RUN_FAILED) << error->what();
    EXPECT_THAT(error->message(), HasSubstr(message));
  };
  expect("nonzero", {{{TENON_F64, {3, 4}}}, {{TENON_I64, {}}}, {2}}, "0 elements are not zero, where 2 are expected");
  expect("topk", {{{TENON_F32, {4}}}, {{TENON_F32, {5}}, {TENON_I64, {5}}}, {5, 0, 1, 1}}, "k = 5 is not in [0, 4]");
  expect("bincount", {{{TENON_I64, {3}}}, {{TENON_I64, {}}}, {0, 2}}, "there are 1 counts, where 2 are expected");
  expect("pivots_to_permutation", {{{TENON_I32, {2}}}, {{TENON_I64, {2}}}, {2}}, "a pivot is not in [1, 2]");
}

TEST(Library, RequireZeroNamesTheFirst) {
  const Owned x(TENON_F32, {4}), info(TENON_I32, {3}), out(TENON_F32, {4});
  info.as<int32_t>()[1] = 7;
  const TensorView inputs[] = {x.view(), info.view()};
  TensorView outputs[] = {out.view()};
  LibraryCall call{inputs, outputs, {}, "is singular", tenon_default_services()};
  try {
    run(*find_library_function("require_zero"), call);
    FAIL();
  } catch (const StatusError& error) {
    EXPECT_EQ(error.message(), "matrix 1 of the batch is singular (info = 7)");
  }
}

// How many counts there are is for the data to say: it may not be true.
TEST(Library, IntegersThatCannotBeCountedAreNamed) {
  const auto error_with = [](int64_t integer) -> std::string {
    const Owned x(TENON_I64, {3});
    x.as<int64_t>()[1] = integer;
    const TensorView inputs[] = {x.view()};
    TensorView outputs[] = {{TENON_I64, {}, nullptr}};
    const int64_t numbers[] = {0, kAnyCount};
    Made made;
    LibraryCall call{inputs, outputs, numbers, "", tenon_default_services(), make, &made};
    try {
      run(*find_library_function("bincount"), call);
      return "";
    } catch (const StatusError& error) {
      return error.message();
    }
  };
  EXPECT_EQ(error_with(5), "");
  EXPECT_THAT(error_with(-5), HasSubstr("-5 is among the integers: they must not be negative"));
  EXPECT_THAT(error_with(INT64_MIN), HasSubstr("must not be negative"));
  EXPECT_THAT(error_with(INT64_MAX), HasSubstr("9223372036854775807 is too large"));
}

TEST(Library, NaNDoesNotConverge) {
  const Owned x(TENON_F64, {2, 2, 2}), values(TENON_F64, {2, 2}), vectors(TENON_F64, {2, 2, 2});
  x.as<double>()[4] = NAN;
  const TensorView inputs[] = {x.view()};
  TensorView outputs[] = {values.view(), vectors.view()};
  LibraryCall call{inputs, outputs, {}, "", tenon_default_services()};
  try {
    run(*find_library_function("eigh"), call);
    FAIL();
  } catch (const StatusError& error) {
    EXPECT_EQ(error.status(), TENON_RUN_FAILED);
    EXPECT_THAT(error.message(), HasSubstr("matrix 1 of the batch has NaN"));
  }
}

// Services without memory.
constexpr tenon_services kPoor = {
    .parallel_for = [](const tenon_services*, int64_t begin, int64_t end, tenon_stretch stretch,
                       void* context) { return stretch(context, begin, end); },
    .allocate = [](const tenon_services*, int64_t) -> void* { return nullptr; },
    .release = [](const tenon_services*, void*) {},
};

TEST(Library, WithoutScratchNothingHappens) {
  size_t refused = 0;
  for (const auto& [name, arguments] : kGood) {
    const auto error = error_of(name, arguments, &kPoor);
    if (!error) continue;
    EXPECT_EQ(error->status(), TENON_OUT_OF_MEMORY) << error->what();
    ++refused;
  }
  EXPECT_GE(refused, 10u);
}

// ---- scratch --------------------------------------------------------------------------------------------------------

// Counts the most bytes that a call holds at a time.
class Counter : public tenon_services {
 public:
  Counter() : tenon_services{tenon_default_services()->parallel_for, allocate, release} {}
  int64_t most() const { return most_; }

 private:
  static void* allocate(const tenon_services* services, int64_t bytes) {
    Counter& self = of(services);
    void* const memory = tenon_default_services()->allocate(tenon_default_services(), bytes);
    const std::lock_guard lock(self.mutex_);
    self.blocks_[memory] = bytes;
    self.most_ = std::max(self.most_, self.held_ += bytes);
    return memory;
  }
  static void release(const tenon_services* services, void* memory) {
    Counter& self = of(services);
    {
      const std::lock_guard lock(self.mutex_);
      self.held_ -= self.blocks_[memory];
      self.blocks_.erase(memory);
    }
    tenon_default_services()->release(tenon_default_services(), memory);
  }
  static Counter& of(const tenon_services* services) {
    return *const_cast<Counter*>(static_cast<const Counter*>(services));
  }

  std::mutex mutex_;
  std::map<void*, int64_t> blocks_;
  int64_t held_ = 0, most_ = 0;
};

// Worth several threads: many lines, few long lines, batches of matrices.
const Good kLarge[] = {
    {"sort", {{{TENON_F32, {2, 3000, 3}}}, {{TENON_F32, {2, 3000, 3}}, {TENON_I64, {2, 3000, 3}}}, {1, 0}}},
    {"sort", {{{TENON_F64, {200, 150}}}, {{TENON_F64, {200, 150}}, {TENON_I64, {200, 150}}}, {-1, 0}}},
    {"argsort", {{{TENON_BF16, {70000}}}, {{TENON_I64, {70000}}}, {0, 0}}},
    {"topk", {{{TENON_F32, {300, 100}}}, {{TENON_F32, {300, 7}}, {TENON_I64, {300, 7}}}, {7, 1, 1, 1}}},
    {"topk", {{{TENON_I64, {90000}}}, {{TENON_I64, {20}}, {TENON_I64, {20}}}, {20, 0, 0, 1}}},
    {"topk", {{{TENON_F32, {90000}}}, {{TENON_F32, {90000}}, {TENON_I64, {90000}}}, {90000, 0, 0, 1}}},
    {"kthvalue", {{{TENON_F64, {50, 1000}}}, {{TENON_F64, {50}}, {TENON_I64, {50}}}, {500, 1, 0}}},
    {"grouped_matmul",
     {{{TENON_BF16, {500, 40}}, {TENON_BF16, {3, 30, 40}}, {TENON_I32, {3}}}, {{TENON_BF16, {500, 30}}}, {1}}},
    {"randint", {{{TENON_I64, {2}}}, {{TENON_F16, {50000}}}, {-3, 8}}},
    {"randperm", {{{TENON_I64, {2}}}, {{TENON_I32, {70000}}}, {70000}}},
    {"randperm", {{{TENON_I64, {2}}}, {{TENON_I64, {300}}}, {300}}},
    {"cholesky", {{{TENON_F32, {5, 30, 30}}}, {{TENON_F32, {5, 30, 30}}, {TENON_I32, {5}}}}},
    {"lu", {{{TENON_F32, {5, 40, 30}}}, {{TENON_F32, {5, 40, 30}}, {TENON_I32, {5, 30}}, {TENON_I32, {5}}}}},
    {"triangular_solve", {{{TENON_F64, {5, 30, 30}}, {TENON_F64, {5, 30, 20}}}, {{TENON_F64, {5, 30, 20}}}, {1, 1}}},
    {"geqrf", {{{TENON_F64, {5, 40, 30}}}, {{TENON_F64, {5, 40, 30}}, {TENON_F64, {5, 30}}}}},
    {"householder_product", {{{TENON_F64, {5, 40, 30}}, {TENON_F64, {5, 20}}}, {{TENON_F64, {5, 40, 30}}}}},
    {"eigh", {{{TENON_F32, {5, 30, 30}}}, {{TENON_F32, {5, 30}}, {TENON_F32, {5, 30, 30}}}}},
    {"svd", {{{TENON_F32, {5, 30, 40}}}, {{TENON_F32, {5, 30, 30}}, {TENON_F32, {5, 30}}, {TENON_F32, {5, 30, 40}}}}},
    {"matrix_exp", {{{TENON_F32, {5, 30, 30}}}, {{TENON_F32, {5, 30, 30}}}}},
};

int64_t bound_of(const Good& good, int64_t threads) {
  std::vector<TensorView> inputs, outputs;
  for (const auto& [dtype, shape] : good.arguments.inputs) inputs.push_back({dtype, shape, nullptr});
  for (const auto& [dtype, shape] : good.arguments.outputs) outputs.push_back({dtype, shape, nullptr});
  const LibraryCall call{inputs, outputs, good.arguments.numbers, "", nullptr};
  return scratch_of(*find_library_function(good.name), call, threads);
}

// On one thread they take it to the byte. On several, some may have nothing to do; and the tiles of groups without rows
// have room that is counted, but not taken.
TEST(Library, FunctionsTakeNoMoreScratchThanTheySay) {
  size_t takes_some = 0;
  for (const auto& table : {std::span<const Good>(kGood), std::span<const Good>(kLarge)}) {
    for (const Good& good : table) {
      for (const int64_t threads : {1, 2, 5}) {
        const ThreadCount count(threads);
        Counter counter;
        EXPECT_FALSE(error_of(good.name, good.arguments, &counter));
        const int64_t bound = bound_of(good, threads);
        EXPECT_LE(counter.most(), bound) << good.name << " on " << threads;
        const bool is_exact = threads == 1 && !good.name.starts_with("grouped") && good.name != "randperm";
        if (is_exact) EXPECT_EQ(counter.most(), bound) << good.name;
        takes_some += counter.most() > 0;
      }
    }
  }
  EXPECT_GT(takes_some, 60u);
}

// Keys of 64 bits that many neighbours have half of in common: the line is sorted twice, then as wide entries.
TEST(Library, ALineOfLongKeysTakesItsScratch) {
  constexpr int64_t kLength = 70000;
  const Owned x(TENON_I64, {kLength}), indices(TENON_I64, {kLength});
  for (size_t i = 0; i < kLength; ++i) x.as<int64_t>()[i] = static_cast<int64_t>(i % 2) << 62 | static_cast<int64_t>(i);
  const TensorView inputs[] = {x.view()};
  TensorView outputs[] = {indices.view()};
  const int64_t numbers[] = {0, 0};
  for (const int64_t threads : {1, 3}) {
    const ThreadCount count(threads);
    Counter counter;
    LibraryCall call{inputs, outputs, numbers, "", &counter};
    run(*find_library_function("argsort"), call);
    EXPECT_EQ(counter.most(), scratch_of(*find_library_function("argsort"), call, threads));
    EXPECT_EQ(indices.as<int64_t>()[kLength / 2], 1);
  }
}

}  // namespace
}  // namespace tenon::runtime
