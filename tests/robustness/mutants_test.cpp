// Artifacts that are well-formed, with checksums that are right, of which fields say something else: slots, roots,
// kinds, sizes, expressions, stretches of the weights, lists of tasks. The verifier refuses them, or they run in memory
// of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "format/kernel_generated.h"
#include "format/program_generated.h"
#include "tests/robustness/support_golden.h"
#include "tests/robustness/support_seal.h"

namespace tenon::golden {
namespace {

constexpr int kMutants = 10'000;  // of those that are accepted

using format::ProgramT;
using format::portable::KernelT;

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }
  bool one_in(size_t count) { return below(count) == 0; }

  void change(ProgramT& program) {
    collect(program);
    change_one();
  }
  void change(KernelT& kernel) {
    collect(kernel);
    change_one();
  }

 private:
  // A number somewhere in the tables.
  struct Place {
    void* memory;
    size_t bytes;
  };

  template <class T>
  void number(T& field) {
    numbers_.push_back({&field, sizeof field});
  }
  // Structs of numbers: as words of four bytes, and of eight where they begin at a multiple of eight.
  template <class T>
  void words(T& value) {
    auto* const bytes = reinterpret_cast<std::byte*>(&value);
    for (size_t at = 0; at + 4 <= sizeof value; at += 4) numbers_.push_back({bytes + at, 4});
    for (size_t at = 0; at + 8 <= sizeof value; at += 8) numbers_.push_back({bytes + at, 8});
    numbers_.push_back({bytes, 1});
  }
  template <class T>
  void list(std::vector<T>& items) {
    lists_.push_back([this, &items] { rearrange(items); });
  }
  template <class T>
  void structs(std::vector<T>& items) {
    list(items);
    for (T& item : items) words(item);
  }

  void collect(ProgramT& p) {
    structs(p.code), structs(p.bindings), structs(p.states), structs(p.constants);
    list(p.state_names), list(p.symbols), list(p.slots), list(p.tasks), list(p.kernels), list(p.inputs),
        list(p.outputs), list(p.updates), list(p.checks), list(p.spaces);
    for (auto& kernel : p.kernels) number(kernel->scratch), number(kernel->space);
    for (auto& symbol : p.symbols) number(symbol->low), number(symbol->high);
    for (auto& slot : p.slots) {
      number(slot->dtype), number(slot->kind), number(slot->root), number(slot->position), structs(slot->shape);
      number(slot->over), number(slot->space);
    }
    for (auto& task : p.tasks) collect(*task);
    for (auto& input : p.inputs) number(input->slot);
    for (auto& output : p.outputs) collect(*output);
    for (auto& update : p.updates) number(update->target), number(update->value);
    for (auto& check : p.checks) {
      number(check->slot);
      if (check->guard) words(*check->guard);
    }
  }
  void collect(format::ResultT& output) {
    number(output.slot);
    lists_.push_back([&output] { output.is_copied = !output.is_copied; });
  }
  void collect(format::TaskT& task) {
    number(task.kind), number(task.kernel), structs(task.inputs), structs(task.outputs), structs(task.sizes);
    structs(task.numbers);
    if (task.flops) words(*task.flops);
    lists_.push_back([this, &task] { task.function = kFunctions[below(std::size(kFunctions))]; });
  }
  void collect(KernelT& k) {
    number(k.sizes), number(k.symbols), number(k.inputs), number(k.outputs);
    structs(k.variables), structs(k.buffers), structs(k.loops), structs(k.steps), structs(k.sources);
    structs(k.lookups), structs(k.guards), structs(k.constants), structs(k.code);
    list(k.ops), list(k.nodes);
  }

  void change_one() {
    if (one_in(6))
      lists_[below(lists_.size())]();
    else
      change_number(numbers_[below(numbers_.size())]);
    numbers_.clear();
    lists_.clear();
  }

  void change_number(const Place& place) {
    uint64_t value = 0;
    std::memcpy(&value, place.memory, place.bytes);
    const Place& other = numbers_[below(numbers_.size())];
    switch (below(6)) {
      case 0:
        value = below(16);
        break;
      case 1:
        value += below(9) - 4;
        break;
      case 2:
        value ^= uint64_t{1} << below(place.bytes * 8);
        break;
      case 3:
        value = kExtremes[below(std::size(kExtremes))];
        break;
      case 4:
        std::memcpy(&value, other.memory, std::min(place.bytes, other.bytes));
        break;
      default:
        value *= 2;
    }
    if (place.bytes == 1) value %= 256;
    std::memcpy(place.memory, &value, place.bytes);
  }

  template <class T>
  void rearrange(std::vector<T>& items) {
    if (items.empty()) return;
    const size_t at = below(items.size());
    switch (below(3)) {
      case 0:
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        std::swap(items[at], items[below(items.size())]);
        break;
      default:
        items.push_back(copy_of(items[at]));
    }
  }
  template <class T>
  static std::unique_ptr<T> copy_of(const std::unique_ptr<T>& item) {
    return std::make_unique<T>(*item);
  }
  template <class T>
  static T copy_of(const T& item) {
    return item;
  }

  static constexpr uint64_t kExtremes[] = {~0ull,      ~0ull >> 1, 1ull << 63, 0xffffffff,
                                           0x80000000, 0x7fffffff, 1ull << 40};
  static constexpr const char* kFunctions[] = {"sort",     "topk",     "nonzero", "argsort",
                                               "kthvalue", "cholesky", "svd",     "lu"};

  std::mt19937_64 random_;
  std::vector<Place> numbers_;
  std::vector<std::function<void()>> lists_;
};

template <class T, class Pack>
std::vector<T> packed(Pack pack) {
  flatbuffers::FlatBufferBuilder builder;
  pack(builder);
  const auto* const bytes = reinterpret_cast<const T*>(builder.GetBufferPointer());
  return {bytes, bytes + builder.GetSize()};
}

void change_kernel(format::KernelCodeT& code, Mutator& mutator) {
  const std::unique_ptr<KernelT> kernel(format::portable::UnPackKernel(code.portable.data()));
  mutator.change(*kernel);
  code.portable =
      packed<uint8_t>([&](auto& builder) { builder.Finish(format::portable::CreateKernel(builder, kernel.get())); });
}

std::vector<std::byte> mutant(const ProgramT& original, Mutator& mutator) {
  ProgramT program(original);
  do {
    format::KernelCodeT* const kernel =
        program.kernels.empty() ? nullptr : program.kernels[mutator.below(program.kernels.size())].get();
    if (kernel != nullptr && !kernel->portable.empty() && mutator.one_in(4))
      change_kernel(*kernel, mutator);
    else
      mutator.change(program);
  } while (mutator.one_in(3));
  return packed<std::byte>(
      [&](auto& builder) { format::FinishProgramBuffer(builder, format::CreateProgram(builder, &program)); });
}

class Mutants : public testing::TestWithParam<std::string> {};

Piece& piece_of(std::vector<Piece>& pieces, format::SectionKind kind) {
  const auto found =
      std::ranges::find(pieces, static_cast<uint32_t>(kind), [](const Piece& each) { return each.section.kind; });
  EXPECT_NE(found, pieces.end());
  return *found;
}

// `piece` is the section of the program.
void try_mutants(std::vector<Piece>& pieces, Piece& piece, const ProgramT& program, uint64_t seed,
                 Outcome (*try_one)(std::span<const std::byte>)) {
  Mutator mutator(seed);
  int tried = 0, accepted = 0, ran = 0;
  const int wanted = kMutants / static_cast<int>(names().size()) + 1;
  for (; accepted < wanted; ++tried) {
    piece.bytes = mutant(program, mutator);
    const Outcome outcome = try_one(joined(pieces));
    accepted += outcome.is_accepted, ran += outcome.has_run;
  }
  std::printf("%d mutants, of which %d are accepted and %d run to the end\n", tried, accepted, ran);
  EXPECT_GT(ran, accepted / 10) << "the runs are not tested";
  EXPECT_LT(accepted, tried) << "nothing is refused";
}

TEST_P(Mutants, RunInMemoryOfTheirOwn) {
  std::vector<Piece> pieces = pieces_of(read(GetParam()).bytes);
  Piece& piece = piece_of(pieces, format::SectionKind::kProgram);
  const std::unique_ptr<ProgramT> program(format::UnPackProgram(piece.bytes.data()));
  try_mutants(pieces, piece, *program, GetParam().size(), try_file);
}

TEST(CallMutants, RunInMemoryOfTheirOwn) {
  load_scale_call();
  std::vector<Piece> pieces = pieces_of(read("1.2/calls").bytes);
  Piece& piece = piece_of(pieces, format::SectionKind::kProgram);
  const std::unique_ptr<ProgramT> program(format::UnPackProgram(piece.bytes.data()));
  try_mutants(pieces, piece, *program, 2, try_file);
}

TEST(DeviceMutants, RunInMemoryOfTheirOwn) {
  load_null_device();
  std::vector<Piece> pieces = pieces_of(read("1.2/devices").bytes);
  std::erase_if(pieces, [](const Piece& each) {  // only the program with devices, without machine code
    const auto kind = static_cast<format::SectionKind>(each.section.kind);
    return kind != format::SectionKind::kDeviceProgram && kind != format::SectionKind::kWeights;
  });
  Piece& piece = piece_of(pieces, format::SectionKind::kDeviceProgram);
  const std::unique_ptr<ProgramT> program(format::UnPackProgram(piece.bytes.data()));
  program->spaces[0]->device = "null";
  program->spaces[0]->identity = "null 1";
  try_mutants(pieces, piece, *program, 1, try_devices);
}

INSTANTIATE_TEST_SUITE_P(All, Mutants, testing::ValuesIn(names()), [](const auto& name) { return label(name.param); });

}  // namespace
}  // namespace tenon::golden
