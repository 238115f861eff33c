// Standard output, and how errors look.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "loops/ir.h"
#include "support/diagnostic.h"

namespace tenon::cli {

// Thrown when the reader of standard output has closed it (`tenon ... | head`). The command ends without an error.
struct ClosedPipe {};

void print(std::string_view text);        // to standard output; fails when it cannot be written
void print_error(std::string_view text);  // to standard error; never fails

std::string progress_bar(double part);  // "[####......]"

// How far a long command is: a line on standard error that is written over, and gone when the command is done. Nothing
// where that is no terminal.
class Progress {
 public:
  explicit Progress(size_t steps);
  ~Progress();
  Progress(const Progress&) = delete;

  void begin(std::string_view step);
  void show(double part, std::string_view text);
  void clear();  // for a line of results; the next call shows it again

 private:
  bool live_;
  size_t steps_;
  size_t begun_ = 0;
};

// An Error whose place is in a text that we have: it is reported with that line.
class SourceError : public Error {
 public:
  SourceError(Diagnostic diagnostic, std::string line) : Error(std::move(diagnostic)), line_(std::move(line)) {}
  const std::string& line() const { return line_; }

 private:
  std::string line_;
};

// "file:line:column: error: message", in colour on a terminal, with the line and a caret when there is one.
std::string render(const Diagnostic& diagnostic, std::string_view line = {});

// A graph's text; "-" is standard input. Throws a SourceError for a malformed one.
Graph read_graph(const std::string& path);
// A kernel's text, or a graph's, which is lowered.
loops::IR read_kernel(const std::string& path);

}  // namespace tenon::cli
