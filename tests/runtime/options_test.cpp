// Options as programs pass them that were compiled against another version of tenon.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tenon/tenon.h"

namespace {

using testing::HasSubstr;

constexpr const char* kModel = "tests/golden/1.0/mlp.tenon";

// The next version's struct: ours, and one member more.
template <class Options>
struct Newer {
  Options known;
  int64_t added = 0;
};

template <class Options>
Newer<Options> newer(Options known, int64_t added) {
  known.size = sizeof(Newer<Options>);
  return {known, added};
}

struct FreeProgram {
  void operator()(tenon_program* program) const { tenon_program_free(program); }
};
using Program = std::unique_ptr<tenon_program, FreeProgram>;

Program load() {
  tenon_program* program = nullptr;
  EXPECT_EQ(tenon_load_file(kModel, nullptr, &program), TENON_OK) << tenon_error();
  return Program(program);
}

// Loading with these options; a program that comes of it is freed.
template <class Options>
tenon_status load_with(const Options& options) {
  tenon_program* program = nullptr;
  const tenon_status status = tenon_load_file(kModel, reinterpret_cast<const tenon_load_options*>(&options), &program);
  tenon_program_free(program);
  return status;
}

template <class Options>
tenon_status create_with(const Program& program, const Options& options, size_t* events = nullptr) {
  tenon_context* context = nullptr;
  const auto* given = reinterpret_cast<const tenon_context_options*>(&options);
  const tenon_status status = tenon_context_create(program.get(), given, &context);
  if (status == TENON_OK && events != nullptr) {
    float pixels[32] = {};
    const int64_t shape[] = {2, 16};
    const tenon_tensor input = {pixels, TENON_F32, 2, shape, nullptr};
    EXPECT_EQ(tenon_set_input(context, 0, &input), TENON_OK) << tenon_error();
    EXPECT_EQ(tenon_run(context), TENON_OK) << tenon_error();
    *events = tenon_event_count(context);
  }
  tenon_context_free(context);
  return status;
}

TEST(Options, HaveNoPadding) {
  EXPECT_EQ(sizeof(tenon_load_options), 3 * sizeof(int64_t));
  EXPECT_EQ(sizeof(tenon_states_options), 2 * sizeof(int64_t));
  EXPECT_EQ(sizeof(tenon_context_options), 7 * sizeof(int64_t));
  EXPECT_EQ(sizeof(tenon_executor), 3 * sizeof(int64_t));
}

TEST(Options, SayTheirSizeByThemselvesInCpp) {
  EXPECT_EQ(tenon_load_options{}.size, sizeof(tenon_load_options));
  EXPECT_EQ(tenon_context_options{.threads = 1}.size, sizeof(tenon_context_options));
}

TEST(Options, OfAnOlderProgramTakeTheDefaultsForTheRest) {
  const Program program = load();
  // As if budget and telemetry came later: what lies behind the struct is somebody else's memory.
  struct {
    size_t size = sizeof(size_t) + sizeof(int64_t);
    int64_t threads = 1;
    int64_t others[2] = {-1, -1};
  } older;
  size_t events = 0;
  EXPECT_EQ(create_with(program, older, &events), TENON_OK) << tenon_error();
  EXPECT_EQ(events, 0u);
  older.threads = -1;  // what is inside of the size is read
  EXPECT_EQ(create_with(program, older), TENON_INVALID_ARGUMENT);

  const struct {
    size_t size = sizeof(size_t);
    int64_t others = -1;
  } first;
  EXPECT_EQ(load_with(first), TENON_OK) << tenon_error();
  tenon_states* states = nullptr;
  EXPECT_EQ(tenon_states_create(program.get(), reinterpret_cast<const tenon_states_options*>(&first), &states),
            TENON_OK);
  tenon_states_free(states);
}

TEST(Options, OfANewerProgramWorkWhereWhatIsNewIsZero) {
  const Program program = load();
  EXPECT_EQ(load_with(newer(tenon_load_options{.no_native = 1}, 0)), TENON_OK) << tenon_error();
  size_t events = 0;
  EXPECT_EQ(create_with(program, newer(tenon_context_options{.telemetry = 1}, 0), &events), TENON_OK) << tenon_error();
  EXPECT_GT(events, 0u);
}

TEST(Options, OfANewerProgramThatAreUnknownAreAnError) {
  const Program program = load();
  EXPECT_EQ(create_with(program, newer(tenon_context_options{}, 1 << 8)), TENON_UNSUPPORTED);
  EXPECT_THAT(tenon_error(), HasSubstr("byte 57 of the tenon_context_options is set, but Tenon "));
  EXPECT_THAT(tenon_error(), HasSubstr(" knows 56 bytes of them"));
  EXPECT_EQ(load_with(newer(tenon_load_options{}, 1)), TENON_UNSUPPORTED);
}

TEST(Options, WithoutASizeAreAnError) {
  const Program program = load();
  tenon_context_options options{.threads = 1};
  options.size = 0;
  EXPECT_EQ(create_with(program, options), TENON_INVALID_ARGUMENT);
  EXPECT_STREQ(tenon_error(), "the size of the options is 0; set it to sizeof(tenon_context_options)");
}

TEST(Options, AnExecutorNeedsItsFunction) {
  const Program program = load();
  const tenon_executor nothing = {};
  EXPECT_EQ(create_with(program, tenon_context_options{.executor = &nothing}), TENON_INVALID_ARGUMENT);
  EXPECT_STREQ(tenon_error(), "the executor's function `parallel` is null");
  const auto unknown = newer(tenon_executor{}, 1);
  EXPECT_EQ(create_with(program, tenon_context_options{.executor = &unknown.known}), TENON_UNSUPPORTED);
  EXPECT_THAT(tenon_error(), HasSubstr("byte 24 of the tenon_executor is set"));
}

}  // namespace
