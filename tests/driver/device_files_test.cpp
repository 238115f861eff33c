// Files with code for devices: which program a process takes, and what hostile ones can do.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>

#include "driver/pipeline.h"
#include "format/program_generated.h"
#include "graph/builder.h"
#include "program/artifact.h"
#include "program/run.h"
#include "runtime/artifact.h"
#include "runtime/error.h"
#include "tenon/device.h"
#include "tests/driver/support_loopback.h"
#include "tests/graph/support_values.h"
#include "tests/robustness/support_seal.h"

namespace tenon {
namespace {

using format::ProgramT;
using format::SectionKind;
using runtime::LoadOptions;
using test::Random;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

class DeviceFiles : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::load_loopback(); }
};

Tensor random(const std::string& type, uint64_t seed) {
  Random numbers(seed);
  return test::random_tensor(parse_type(type).value(), {}, {-1, 1}, numbers);
}

// relu(x @ w) + x, with x f32[N, 8], and a sum over runs
Graph model_graph() {
  Graph graph("model");
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", parse_type("f32[N, 8]").value()));
  const Value w = b.value(graph.add_parameter("w", parse_type("f32[8, 8]").value(), random("f32[8, 8]", 3)));
  const Value sum = b.value(graph.add_buffer("sum", parse_type("f32[8]").value(), random("f32[8]", 4)));
  const Value y = b.op("relu", {b.op("matmul", {x, w})}) + x;
  graph.add_update(sum.ref(), (sum + b.sum(y, {0})).ref());
  graph.set_outputs({b.op("tanh", {y}).ref(), y.ref()});
  return graph;
}

Program compiled(const std::vector<std::string>& devices) {
  return compile_program(model_graph(), {.devices = devices}).value();
}

Bytes file_with(const std::vector<std::vector<std::string>>& lists) {
  std::vector<Program> programs = {compiled({})};
  for (const auto& devices : lists) programs.push_back(compiled(devices));
  std::vector<const Program*> variants;
  for (const Program& program : programs) variants.push_back(&program);
  return artifact_bytes(variants).value();
}

std::shared_ptr<const runtime::LoadedProgram> load(const Bytes& file, const LoadOptions& options = {}) {
  return runtime::load_program(std::make_shared<const runtime::Container>(runtime::Container::of_memory(file)),
                               options);
}

std::string error_of(const Bytes& file, const LoadOptions& options = {}) {
  try {
    load(file, options);
  } catch (const runtime::StatusError& error) {
    return error.message();
  }
  return "";
}

std::vector<Tensor> results(const std::shared_ptr<const runtime::LoadedProgram>& program, int64_t rows) {
  runtime::Context context(program, {});
  std::vector<Tensor> all;
  for (uint64_t run = 0; run < 3; ++run) {
    const std::vector<Tensor> inputs = {random(fmt::format("f32[{}, 8]", rows), run)};
    for (const Tensor& output : run_context(context, program->graph(), inputs)) all.push_back(output.copy());
  }
  Tensor sum = Tensor::zeros(DType::kF32, {8});
  std::memcpy(sum.data(), context.states()->read(0), 8 * sizeof(float));
  all.push_back(sum);
  return all;
}

// The tables of the first program with devices, changed.
template <class Change>
Bytes changed(const Bytes& file, Change change, SectionKind kind = SectionKind::kDeviceProgram) {
  std::vector<golden::Piece> pieces = golden::pieces_of(file);
  const auto piece = std::ranges::find(pieces, static_cast<uint32_t>(kind),
                                       [](const golden::Piece& each) { return each.section.kind; });
  const std::unique_ptr<ProgramT> program(format::UnPackProgram(piece->bytes.data()));
  change(*program);
  flatbuffers::FlatBufferBuilder builder;
  format::FinishProgramBuffer(builder, format::CreateProgram(builder, program.get()));
  const auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  piece->bytes.assign(bytes.begin(), bytes.end());
  return golden::joined(pieces);
}

format::KernelCodeT& code_of_device(ProgramT& program) {
  return **std::ranges::find_if(program.kernels, [](const auto& kernel) { return !kernel->device.empty(); });
}

format::TaskT& task_of(ProgramT& program, format::TaskKind kind) {
  return **std::ranges::find(program.tasks, kind, [](const auto& task) { return task->kind; });
}

// ---- which program is taken -----------------------------------------------------------------------------------------

TEST_F(DeviceFiles, RunOnTheDeviceThatIsThereOrOnTheCpu) {
  const Bytes file = file_with({{"loopback:ops=matmul+relu"}});
  const auto device = load(file), cpu = load(file, {.device = "cpu"}), portable = load(file, {.native = false});
  ASSERT_EQ(device->graph().spaces.size(), 1U);
  EXPECT_EQ(device->graph().spaces[0].identity, "loopback 1");
  EXPECT_TRUE(cpu->graph().spaces.empty());
  EXPECT_TRUE(portable->graph().spaces.empty());
  for (const int64_t rows : {1, 5}) {
    const std::vector<Tensor> expected = results(cpu, rows);
    for (const auto& program : {device, portable}) {
      const std::vector<Tensor> actual = results(program, rows);
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(test::close(actual[i], expected[i])) << i;
    }
  }
}

TEST_F(DeviceFiles, TheFirstThatFitsIsTaken) {
  const Bytes file = file_with({{"loopback:ops=relu"}, {"loopback"}});
  EXPECT_EQ(load(file)->graph().spaces[0].device, "loopback:ops=relu");
  const Bytes without = changed(file, [](ProgramT& program) { program.spaces[0]->identity = "loopback 2"; });
  EXPECT_EQ(load(without)->graph().spaces[0].device, "loopback");
}

TEST_F(DeviceFiles, DevicesThatDoNotFitLeaveTheCpu) {
  const Bytes file = file_with({{"loopback"}});
  const Bytes other = changed(file, [](ProgramT& program) { program.spaces[0]->identity = "loopback 0.9"; });
  const Bytes absent = changed(file, [](ProgramT& program) {
    program.spaces[0]->device = "npu:rate=2";
    program.spaces[0]->identity = "npu 3";
  });
  const Bytes broken = changed(file, [](ProgramT& program) { program.spaces[0]->device = "loopback:volts=9"; });
  for (const Bytes& each : {other, absent, broken}) EXPECT_TRUE(load(each)->graph().spaces.empty());
  EXPECT_THAT(error_of(other, {.device = "loopback"}), HasSubstr("for loopback 0.9: the device here is loopback 1"));
  EXPECT_THAT(error_of(absent, {.device = "npu"}), HasSubstr("for npu 3: device npu is not loaded"));
  EXPECT_THAT(error_of(absent, {.device = "loopback"}), HasSubstr("for npu 3: it does not use loopback"));
  EXPECT_THAT(error_of(broken, {.device = "loopback"}), HasSubstr("the options are claim, ops"));
  EXPECT_THAT(error_of(file_with({}), {.device = "npu"}), HasSubstr("it has code for CPUs only"));
}

TEST_F(DeviceFiles, OptionsOfTheCallerTakeThePlaceOfThoseInTheFile) {
  const Bytes file =
      changed(file_with({{"loopback"}}), [](ProgramT& program) { program.spaces[0]->device = "loopback:volts=9"; });
  const auto program = load(file, {.device = "loopback:delay=1"});
  EXPECT_EQ(program->device(1), runtime::open_device("loopback:delay=1"));
}

TEST_F(DeviceFiles, NoCodeOfTheFileMeansNoCodeOfDevices) {
  EXPECT_THAT(error_of(file_with({{"loopback"}}), {.native = false, .device = "loopback"}),
              HasSubstr("device loopback runs code of the file, which is off"));
}

TEST_F(DeviceFiles, TheCInterfaceTakesADevice) {
  const Bytes file = file_with({{"loopback"}});
  tenon_program* program = nullptr;
  const tenon_load_options options{.device = "npu"};
  EXPECT_EQ(tenon_load_memory(file.data(), file.size(), &options, &program), TENON_INVALID_ARGUMENT);
  EXPECT_THAT(tenon_error(), HasSubstr("no program of the file runs on npu here"));
  const tenon_load_options cpu{.device = "cpu"};
  ASSERT_EQ(tenon_load_memory(file.data(), file.size(), &cpu, &program), TENON_OK) << tenon_error();
  tenon_program_free(program);
}

TEST_F(DeviceFiles, EntriesWithoutNodesForADeviceRunOnTheCpu) {
  const Program step = compiled({}), device = compiled({"loopback"}), other = compiled({});
  const Bytes file = artifact_bytes(std::vector<ProgramEntry>{{"step", {&step, &device}}, {"eval", {&other}}}).value();
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(file));
  for (const std::string_view wanted : {"", "loopback"}) {
    const auto entries = runtime::load_entries(container, {.device = wanted});
    EXPECT_EQ(entries[0].program->graph().spaces.size(), 1U);
    EXPECT_TRUE(entries[1].program->graph().spaces.empty());
  }
}

// ---- what is written ------------------------------------------------------------------------------------------------

TEST_F(DeviceFiles, WeightsAreThereOnce) {
  const auto weights = [](const Bytes& file) {
    return runtime::Container::of_memory(file).find(SectionKind::kWeights)->bytes.size();
  };
  EXPECT_EQ(weights(file_with({{"loopback"}})), weights(file_with({})));
}

TEST_F(DeviceFiles, BackendsWithoutCodeAreNamed) {
  const Program cpu = compiled({}), other = compiled({"interpreter"});
  EXPECT_THAT(artifact_bytes({&cpu, &other}).diagnostic().message,
              HasSubstr("cannot be saved: backend interpreter compiled"));
}

TEST_F(DeviceFiles, CodeOfTheHostIsForThisCpuOnly) {
  EXPECT_THAT(compile_program(model_graph(), {.devices = {"loopback"}, .cpu = "x86-64-v2"}).diagnostic().message,
              HasSubstr("device loopback runs code for this CPU"));
}

// ---- hostile files --------------------------------------------------------------------------------------------------

TEST_F(DeviceFiles, TablesThatContradictThemselvesAreRefused) {
  const Bytes file = file_with({{"loopback:ops=matmul"}});
  const auto error = [&](auto change) { return error_of(changed(file, change)); };
  EXPECT_THAT(error([](ProgramT& p) { code_of_device(p).space = 0; }), HasSubstr("for space 0, but there are 1"));
  EXPECT_THAT(error([](ProgramT& p) { code_of_device(p).space = 7; }), HasSubstr("for space 7, but there are 1"));
  EXPECT_THAT(error([](ProgramT& p) { code_of_device(p).scratch = -1; }), HasSubstr("bytes of scratch"));
  EXPECT_THAT(error([](ProgramT& p) { code_of_device(p).device.resize(3); }), HasSubstr("is cut off"));
  EXPECT_THAT(error([](ProgramT& p) { p.spaces.clear(); }), HasSubstr("space 1, but there are 0"));
  EXPECT_THAT(error([](ProgramT& p) {
                std::swap(task_of(p, format::TaskKind::Device).kernel, task_of(p, format::TaskKind::Kernel).kernel);
              }),
              HasSubstr("and its slots are in"));
  EXPECT_THAT(error([](ProgramT& p) { task_of(p, format::TaskKind::Device).kernel = 99; }),
              HasSubstr("runs kernel 99"));
  EXPECT_THAT(error([](ProgramT& p) {
                const auto constant = std::ranges::find_if(p.slots, [](const auto& slot) {
                  return slot->space == 1 && slot->kind == format::SlotKind::Constant;
                });
                (*constant)->shape.push_back((*constant)->shape[0]);  // the device would be given foreign memory
              }),
              HasSubstr("bytes of the weights"));
}

TEST_F(DeviceFiles, ProgramsForTheCpuHaveNoDevices) {
  const Bytes file = file_with({{"loopback"}});
  std::vector<golden::Piece> pieces = golden::pieces_of(file), plain;
  for (golden::Piece& piece : pieces) {
    const auto kind = static_cast<SectionKind>(piece.section.kind);
    if (kind == SectionKind::kProgram || kind == SectionKind::kNative || kind == SectionKind::kDeviceNative) continue;
    if (kind == SectionKind::kDeviceProgram) piece.section.kind = static_cast<uint32_t>(SectionKind::kProgram);
    plain.push_back(piece);
  }
  EXPECT_THAT(error_of(golden::joined(plain)), HasSubstr("for space 1, but there are 0"));
}

TEST_F(DeviceFiles, FilesAreVerifiedWithoutTheirDevices) {
  const Bytes file = changed(file_with({{"loopback"}}), [](ProgramT& program) { program.spaces[0]->device = "npu"; });
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(file));
  const runtime::ProgramSections sections{.program = container->find(SectionKind::kDeviceProgram, "0"),
                                          .native = container->find(SectionKind::kDeviceNative, "0"),
                                          .devices = {nullptr}};
  EXPECT_EQ(runtime::load_sections(container, sections, {})->graph().spaces.size(), 1U);
  EXPECT_THROW(runtime::load_sections(container, {.program = sections.program}, {}), runtime::StatusError);
}

}  // namespace
}  // namespace tenon
