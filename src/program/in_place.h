// Inside of program: which results take the place of what they are computed of, so that no memory of their own is
// needed and nothing is copied.
//
//   - The new value of a buffer or an input is computed in its memory where the task that does so may write there
//     (loops/in_place.h), and everything else that reads the old value can come earlier. Tasks are put in an order in
//     which it does. Else the value is computed elsewhere and copied when all tasks are over. So it is where the old
//     value is needed until the end: as a result of the program, or as the new value of something else; and where the
//     new value is a result, which is memory of the caller's.
//   - A temporary lies where a temporary did that the same task is the last to read.
//
// Where that needs less memory, nothing is computed before an update or a result needs it, and those come first that
// need least: so what an update was computed of does not live longer than it must. But it happens after the
// external calls that can come before it, and, where that needs no more memory, after all tasks that can fail because
// of their data: nothing should have changed then.
#pragma once

#include "program/program.h"

namespace tenon {

// Sets Slot::over, and puts the tasks in order. The program has its results.
void compute_in_place(Program& program);

}  // namespace tenon
