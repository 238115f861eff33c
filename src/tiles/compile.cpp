#include "tiles/compile.h"

#include "runtime/arena_plan.h"
#include "support/checked.h"
#include "support/is_in.h"
#include "support/runtime_call.h"
#include "tiles/emit.h"

namespace tenon {
namespace {

int64_t bytes_of(const TensorType& type) {
  int64_t bytes = size_of(type.dtype);
  for (const Expr& size : type.shape) bytes = checked_mul(bytes, size.constant());
  return bytes;
}

class SegmentTiler {
 public:
  SegmentTiler(const Graph& segment, const tenon_tile_machine& machine) : segment_(segment), machine_(machine) {}

  TileCode run() {
    for (const Node& node : segment_.nodes()) {
      const std::string reason = misfit(segment_, node, machine_);
      if (!reason.empty()) fail("a segment of a tile machine has a node that it does not run: {}", reason);
    }
    place_values();
    TileCode code{.scratch_bytes = scratch_bytes_};
    const size_t count = segment_.nodes().size();
    for (size_t i = 0; i < count; ++i) {
      const Node& node = segment_.nodes()[i];
      const auto place = [&](size_t operand) {
        return operand < node.operands.size() && node.operands[operand] ? places_[node.operands[operand].id]
                                                                        : TilePlace();
      };
      const LayerPlaces places{place(0), place(1), place(2), place(3), places_[node.results[0].id]};
      emit_layer(layer_of(segment_, node), machine_, places, static_cast<uint32_t>(i), i == 0, i + 1 == count,
                 code.actions);
    }
    for (const TilePlace& place : places_)
      code.scratch_offsets.push_back(place.buffer == TENON_SCRATCH ? place.offset : -1);
    return code;
  }

 private:
  // Buffers of the launch in the order of values; temporaries in scratch, where their lifetimes do not overlap.
  void place_values() {
    std::vector<uint32_t> temporaries;
    std::vector<runtime::Lifetime> lifetimes;
    const std::vector<std::vector<uint32_t>> users = users_of(segment_);
    uint32_t buffers = 0;
    for (uint32_t id = 0; id < segment_.value_count(); ++id) {
      places_.push_back({.buffer = buffers});
      const NodeRef producer = segment_.producer({id});
      if (!producer || is_in(segment_.outputs(), ValueRef{id})) {
        ++buffers;
        continue;
      }
      int64_t last = producer.id;
      for (uint32_t user : users[id]) last = std::max<int64_t>(last, user);
      places_[id].buffer = TENON_SCRATCH;
      temporaries.push_back(id);
      lifetimes.push_back({bytes_of(segment_.type({id})), producer.id, last});
    }
    const runtime::ArenaPlan plan = call_runtime([&] { return runtime::plan_arena(lifetimes); });
    for (size_t i = 0; i < temporaries.size(); ++i) places_[temporaries[i]].offset = plan.offsets[i];
    scratch_bytes_ = plan.bytes;
  }

  const Graph& segment_;
  const tenon_tile_machine& machine_;
  std::vector<TilePlace> places_;  // by value
  int64_t scratch_bytes_ = 0;
};

}  // namespace

Result<TileCode> compile_tiles(const Graph& segment, const tenon_tile_machine& machine) {
  return attempt([&] { return SegmentTiler(segment, machine).run(); });
}

}  // namespace tenon
