#include "capture/aten/families.h"

namespace tenon {

std::vector<std::function<void(AtenTable&)>> aten_families() {
  return {add_factory_entries,     add_pointwise_entries, add_special_entries, add_activation_entries,
          add_reduction_entries,   add_product_entries,   add_linalg_entries,  add_view_entries,
          add_arrangement_entries, add_index_entries,     add_window_entries,  add_normalization_entries,
          add_loss_entries,        add_random_entries,    add_symbolic_entries};
}

}  // namespace tenon
