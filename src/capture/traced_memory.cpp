#include "capture/traced_memory.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace tenon {
namespace {

using Order = std::vector<int64_t>;  // dimensions, from the outermost in memory to the innermost

constexpr std::string_view kScatter = "aten.as_strided_scatter.default";
constexpr std::array<std::string_view, 3> kMemoryCalls = {"aten.as_strided.default", "aten.as_strided_copy.default",
                                                          kScatter};

// Calls whose result always shares the memory of their first operand.
constexpr std::array<std::string_view, 23> kViews = {
    "aten.alias.default",     "aten.as_strided.default", "aten.chunk.default",  "aten.detach.default",
    "aten.diagonal.default",  "aten.expand.default",     "aten.narrow.default", "aten.permute.default",
    "aten.select.int",        "aten.slice.Tensor",       "aten.split.Tensor",   "aten.split_with_sizes.default",
    "aten.squeeze.default",   "aten.squeeze.dim",        "aten.squeeze.dims",   "aten.t.default",
    "aten.transpose.int",     "aten.unbind.int",         "aten.unflatten.int",  "aten.unfold.default",
    "aten.unsqueeze.default", "aten.view.default",       "aten.view_as.default"};

// Calls whose result has the elements of their first operand in the same order. They share the operand's memory where
// that is in order, and may copy where it is not.
constexpr std::array<std::string_view, 3> kReshapes = {"aten._unsafe_view.default", "aten.flatten.using_ints",
                                                       "aten.reshape.default"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Whether the tensor has all elements of its memory. A view may have fewer.
bool owns_memory(const TracedTensor& tensor) {
  bool writes_self = false;
  const AtenEntry* entry = aten_table().find(tensor.target, writes_self);
  return entry == nullptr || !entry->is_view || entry->signature.name != tensor.target;
}

Order in_order(const TracedTensor& tensor) {
  Order order(tensor.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Whether this is the stride of the next dimension outwards, after one of this size and stride. PyTorch computes
// strides with max(1, size); that differs where a size is 0, and no element has a place.
bool is_next_stride(const Expr& next, const Expr& stride, const Expr& size, const Facts& facts) {
  return facts.equal(next, stride * size) || facts.equal(next, stride * facts.max(1, size));
}

// The order in which the elements fill memory; none if they have gaps or overlap, or might for some sizes.
std::optional<Order> memory_order(const TracedTensor& tensor, const Facts& facts) {
  if (tensor.sizes.size() != tensor.strides.size()) return std::nullopt;
  const auto size = [&](int64_t dim) -> const Expr& { return tensor.sizes[static_cast<size_t>(dim)]; };
  const auto stride = [&](int64_t dim) -> const Expr& { return tensor.strides[static_cast<size_t>(dim)]; };
  const Order dims = in_order(tensor);
  const auto is_one = [&](int64_t dim) { return size(dim).is_constant(1); };
  Order order;  // first the dimensions of size 1: their place does not matter
  std::ranges::copy_if(dims, std::back_inserter(order), is_one);
  const auto ones = std::ssize(order);
  std::ranges::copy_if(dims, std::back_inserter(order), std::not_fn(is_one));
  const std::ranges::subrange moved(order.begin() + ones, order.end());
  for (auto end = moved.end(); end != moved.begin(); --end) {
    const bool is_innermost = end == moved.end();
    const auto found = std::find_if(std::reverse_iterator(end), std::reverse_iterator(moved.begin()), [&](int64_t dim) {
      return is_innermost ? facts.equal(stride(dim), 1) : is_next_stride(stride(dim), stride(*end), size(*end), facts);
    });
    if (found.base() == moved.begin()) return std::nullopt;
    std::rotate(std::prev(found.base()), found.base(), end);
  }
  return std::ranges::is_sorted(moved) ? dims : order;
}

// The places that a call reads or writes.
struct CountedPlaces {
  Shape sizes;
  std::vector<Expr> strides;
  std::optional<Expr> offset;  // None: that of the operand

  bool are_none() const { return element_count(sizes).is_constant(0); }

  bool lie_in(const TracedTensor& tensor, const Facts& facts) const {
    Expr end = *offset + 1;
    for (size_t dim = 0; dim < sizes.size(); ++dim) end += (sizes[dim] - 1) * strides[dim];
    return facts.less_equal(tensor.offset, *offset) &&
           facts.less_equal(end, tensor.offset + element_count(tensor.sizes));
  }
};

struct FoundMemory {
  TracedTensor tensor;  // has the elements at the places
  Order order;          // of its dimensions
};

std::optional<FoundMemory> find_memory(CountedPlaces& places, const TracedOperands& operands, const Facts& facts) {
  bool may_be_copy = false;
  while (std::optional<TracedTensor> tensor = operands()) {
    if (!places.offset) places.offset = tensor->offset;
    if (places.are_none()) return FoundMemory{*tensor, in_order(*tensor)};
    const std::optional<Order> order = memory_order(*tensor, facts);
    const bool is_usable = order && (!may_be_copy || std::ranges::is_sorted(*order));
    if (is_usable && (owns_memory(*tensor) || places.lie_in(*tensor, facts))) return FoundMemory{*tensor, *order};
    may_be_copy = may_be_copy || contains(kReshapes, tensor->target);
    if (!contains(kViews, tensor->target) && !contains(kReshapes, tensor->target)) break;
  }
  return std::nullopt;
}

TracedOperands first_of(const TracedOperands& operands) {
  return [first = operands()]() mutable { return std::exchange(first, std::nullopt); };
}

// ---- the call -------------------------------------------------------------------------------------------------------

Expr number(const AtenArg& argument) {
  const auto* number = argument.get<Expr>();
  if (number == nullptr) fail("as_strided takes {}, where it needs a number that sizes determine", to_string(argument));
  return *number;
}

std::vector<Expr> numbers(const AtenArg& argument) {
  const auto* list = argument.get<AtenArg::List>();
  if (list == nullptr) return {number(argument)};
  std::vector<Expr> result;
  for (const AtenArg& item : *list) result.push_back(number(item));
  return result;
}

AtenArg permuted(Importer& importer, const AtenArg& tensor, const Order& order) {
  if (std::ranges::is_sorted(order)) return tensor;
  const AtenArg::List dims(order.begin(), order.end());
  return importer.call({.target = "aten.permute.default", .positional = {tensor, dims}});
}

Order inverse(const Order& order) {
  Order result(order.size());
  for (size_t i = 0; i < order.size(); ++i) result[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return result;
}

}  // namespace

bool counts_places(std::string_view target) { return contains(kMemoryCalls, target); }

bool lies_in_order(const TracedTensor& tensor) {
  const std::optional<Order> order = memory_order(tensor, Facts());
  return order && std::ranges::is_sorted(*order) && tensor.offset.is_constant(0);
}

AtenArg call_on_memory(Importer& importer, AtenRequest request, const TracedOperands& operands) {
  bool writes_self = false;
  const AtenEntry* entry = aten_table().find(request.target, writes_self);
  if (entry == nullptr) fail_at(request.location, "{} is not in the registry", request.target);
  std::vector<AtenArg> arguments =
      bind_arguments(entry->signature, std::move(request.positional), std::exchange(request.named, {}));
  const size_t first = arguments.size() - 3;  // size, stride, storage_offset
  CountedPlaces places{numbers(arguments[first]), numbers(arguments[first + 1]), std::nullopt};
  if (!arguments.back().is_none()) places.offset = number(arguments.back());
  if (places.sizes.size() != places.strides.size()) {
    fail_at(request.location, "{} takes {} sizes and {} strides", request.target, places.sizes.size(),
            places.strides.size());
  }
  // A scatter gives a tensor like its operand: it cannot write to another.
  const bool is_scatter = request.target == kScatter;
  const auto memory =
      find_memory(places, is_scatter ? first_of(operands) : operands, Facts(importer.graph().symbols()));
  if (!memory) {
    fail_at(request.location,
            "{} reads memory beside its operand, or an operand with gaps between its elements: Tenon does not know "
            "which tensor PyTorch has there",
            request.target);
  }
  arguments[0] = permuted(importer, memory->tensor.tensor, memory->order);
  arguments.back() = places.are_none() ? Expr(0) : *places.offset - memory->tensor.offset;
  request.positional = std::move(arguments);
  request.results = std::nullopt;  // an external call would look at other memory
  const AtenArg result = importer.call(request);
  return is_scatter ? permuted(importer, result, inverse(memory->order)) : result;
}

}  // namespace tenon
