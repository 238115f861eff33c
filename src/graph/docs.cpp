#include "graph/docs.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/text.h"

namespace tenon {
namespace {

// ---- describing -----------------------------------------------------------------------------------------------------

std::string dtypes_text(DTypeSet set) { return set == kAny ? "any" : to_string(set, " "); }

constexpr std::string_view kArities[] = {"", "optional", "any number", "any number, each optional"};  // by Arity

std::string operand_in_signature(const OperandDef& operand) {
  const bool is_optional = may_be_none(operand.arity);
  return std::string(operand.name) + (is_optional ? "?" : "") + (is_variadic(operand.arity) ? "..." : "");
}

std::string attr_in_signature(const AttrDef& attr) {
  const std::string name(attr.name);
  return attr.fallback.required ? name : name + "=" + to_string(attr.fallback.value);
}

std::string signature(const OpDef& op) {
  std::string text = std::string(op.name.get()) + "(" + join(op.operands.get(), ", ", operand_in_signature) + ")";
  if (!op.attrs.empty()) text += " {" + join(op.attrs, ", ", attr_in_signature) + "}";
  return text + fmt::format(" -> {}", fmt::join(op.results, ", "));
}

// A full stop that a blank or the end follows, but not that of "e.g." or "...".
size_t end_of_sentence(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const bool ends = text[i] == '.' && (i + 1 == text.size() || text[i + 1] == ' ' || text[i + 1] == '\n');
    const std::string_view before = text.substr(0, i);
    const bool abbreviates = before.ends_with("e.g") || before.ends_with("i.e") || before.ends_with('.');
    if (ends && (!abbreviates || i + 1 == text.size())) return i + 1;
  }
  return text.size();
}

std::string summary(std::string_view doc) {
  std::string text(doc.substr(0, end_of_sentence(doc)));
  std::erase(text, '`');
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string gradient_text(const Gradient& gradient) {
  if (std::holds_alternative<NotDifferentiable>(gradient)) return "no";
  return std::holds_alternative<ByExpansion>(gradient) ? "by expansion" : "yes";
}

// ---- Markdown -------------------------------------------------------------------------------------------------------

std::vector<std::string> families_of(const std::vector<OpDoc>& docs) {
  std::vector<std::string> families;
  for (const OpDoc& doc : docs) {
    if (std::ranges::find(families, doc.family) == families.end()) families.push_back(doc.family);
  }
  return families;
}

// A bar would end a cell of a table.
std::string cell(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

std::string operands_markdown(const std::vector<OperandDoc>& operands) {
  if (operands.empty()) return "";
  std::string text = "| operand | dtypes | |\n|---|---|---|\n";
  for (const OperandDoc& operand : operands) {
    text += fmt::format("| `{}` | {} | {} |\n", operand.name, operand.dtypes, operand.arity);
  }
  return text + "\n";
}

std::string attrs_markdown(const std::vector<AttrDoc>& attrs) {
  if (attrs.empty()) return "";
  std::string text = "| attribute | kind | default | |\n|---|---|---|---|\n";
  for (const AttrDoc& attr : attrs) {
    const std::string fallback = attr.fallback.empty() ? "required" : "`" + cell(attr.fallback) + "`";
    text += fmt::format("| `{}` | {} | {} | {} |\n", attr.name, attr.kind, fallback, cell(attr.doc));
  }
  return text + "\n";
}

std::string op_markdown(const OpDoc& op) {
  std::string text = fmt::format("### {}\n\n`{}`\n\n{}\n\n", op.name, op.signature, op.doc);
  text += operands_markdown(op.operands) + attrs_markdown(op.attrs);
  text += fmt::format("- results: `{}`\n", fmt::join(op.results, "`, `"));
  text += fmt::format("- {}; gradient: {}\n", op.composite ? "composite" : "primitive", op.gradient);
  return text + (op.torch.empty() ? "- no PyTorch peer: " + op.no_torch : "- PyTorch: `" + op.torch + "`") + "\n\n";
}

std::string contents_markdown(const std::vector<OpDoc>& docs) {
  std::string text = "| family | ops |\n|---|---|\n";
  for (const std::string& family : families_of(docs)) {
    std::vector<std::string> links;
    for (const OpDoc& doc : docs) {
      if (doc.family == family) links.push_back(fmt::format("[{}](#{})", doc.name, doc.name));
    }
    text += fmt::format("| [{}](#{}-ops) | {} |\n", family, family, fmt::join(links, " "));
  }
  return text + "\n";
}

constexpr std::string_view kPreface = R"(# The op table

Every operation of the graph IR. `tenon ops --markdown` writes this file from the records in `src/ops/`; edit those,
then run `make docs`. The rules that hold for all ops (broadcasting, promotion, overflow, NaN) stand at the top of
`src/graph/op.h`.

A signature reads `op(operands) {attributes} -> results`. `x?` may be `none`, `x...` is any number of operands, and an
attribute with `=` may be left out. A composite op is defined by the ops that it expands to; `by expansion` means that its
gradient follows from theirs.

)";

}  // namespace

OpDoc document(const OpDef& op) {
  OpDoc doc{.name = std::string(op.name.get()),
            .family = std::string(op.family.get()),
            .signature = signature(op),
            .summary = summary(op.doc.get()),
            .doc = std::string(op.doc.get()),
            .operands = {},
            .attrs = {},
            .results = {op.results.begin(), op.results.end()},
            .composite = op.is_composite(),
            .gradient = gradient_text(op.gradient),
            .torch = std::string(op.peer.get().torch),
            .no_torch = std::string(op.peer.get().why_none)};
  for (const OperandDef& operand : op.operands.get()) {
    doc.operands.push_back({std::string(operand.name), dtypes_text(operand.dtypes),
                            std::string(kArities[static_cast<size_t>(operand.arity)])});
  }
  for (const AttrDef& attr : op.attrs) {
    doc.attrs.push_back({std::string(attr.name), std::string(name_of(attr.kind)),
                         attr.fallback.required ? "" : to_string(attr.fallback.value), std::string(attr.doc)});
  }
  return doc;
}

std::string ops_markdown(std::span<const OpDef* const> ops) {
  std::vector<OpDoc> docs;
  for (const OpDef* op : ops) docs.push_back(document(*op));
  std::string text = std::string(kPreface) + contents_markdown(docs);
  for (const std::string& family : families_of(docs)) {
    text += fmt::format("## {} ops\n\n", family);
    for (const OpDoc& doc : docs) {
      if (doc.family == family) text += op_markdown(doc);
    }
  }
  text.pop_back();  // one newline ends the file
  return text;
}

}  // namespace tenon
