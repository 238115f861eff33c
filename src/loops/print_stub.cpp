#include "loops/ir.h"
namespace tenon::loops {
std::string to_string(const Annotation& a) { return std::to_string((int)a.mark); }
std::string to_string(const IR& ir, NodeRef n) { return "%" + ir.node(n).name; }
}  // namespace tenon::loops
