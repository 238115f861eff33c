package main

// A face of Tenon's C interface (tenon/tenon.h): programs, contexts, inputs and results.
//
// A Program is immutable and shared by goroutines. A Context runs a program, in one goroutine at a time. Close frees
// both; a context goes on after its program is closed.

/*
#cgo pkg-config: tenon
#include <stdlib.h>
#include <tenon/tenon.h>

// The tensor is made here: cgo forbids a pointer of Go inside of what is passed to C.
static tenon_status set_input(tenon_context* context, size_t input, void* data, tenon_dtype dtype, int32_t rank,
                              const int64_t* shape) {
  const tenon_tensor tensor = {data, dtype, rank, shape, NULL};
  return tenon_set_input(context, input, &tensor);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// Error is a call that failed: its status, and the library's text.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (status %d)", e.Text, e.Status) }

// call runs a call of the library. A failure's text belongs to the thread, so the goroutine stays on one meanwhile.
func call(function func() C.tenon_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if status := function(); status != C.TENON_OK {
		return &Error{int(status), C.GoString(C.tenon_error())}
	}
	return nil
}

// Version is that of the library.
func Version() string { return C.GoString(C.tenon_version()) }

// TensorInfo is what a program says of an input or an output. A size is -1 where only the run knows it.
type TensorInfo struct {
	Name  string
	Dtype C.tenon_dtype
	Sizes []int64
	dims  []string
}

func (info TensorInfo) String() string {
	return fmt.Sprintf("%s: %s[%s]", info.Name, C.GoString(C.tenon_dtype_name(info.Dtype)), strings.Join(info.dims, ", "))
}

func copied(info C.tenon_tensor_info) TensorInfo {
	made := TensorInfo{Name: C.GoString(info.name), Dtype: info.dtype}
	for _, dim := range unsafe.Slice(info.dims, info.rank) {
		made.Sizes = append(made.Sizes, int64(dim.size))
		made.dims = append(made.dims, C.GoString(dim.text))
	}
	return made
}

// Program is a compiled model.
type Program struct{ handle *C.tenon_program }

// Load maps a file and verifies all of it.
func Load(path string) (*Program, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	program := &Program{}
	if err := call(func() C.tenon_status { return C.tenon_load_file(name, nil, &program.handle) }); err != nil {
		return nil, err
	}
	return program, nil
}

// Close frees the program.
func (p *Program) Close() { C.tenon_program_free(p.handle) }

// Name is that of the model.
func (p *Program) Name() string { return C.GoString(C.tenon_program_name(p.handle)) }

// Inputs describes what the program takes.
func (p *Program) Inputs() ([]TensorInfo, error) {
	return describe(C.tenon_input_count(p.handle), func(number C.size_t, info *C.tenon_tensor_info) C.tenon_status {
		return C.tenon_input_info(p.handle, number, info)
	})
}

// Outputs describes what the program gives.
func (p *Program) Outputs() ([]TensorInfo, error) {
	return describe(C.tenon_output_count(p.handle), func(number C.size_t, info *C.tenon_tensor_info) C.tenon_status {
		return C.tenon_output_info(p.handle, number, info)
	})
}

func describe(count C.size_t, get func(C.size_t, *C.tenon_tensor_info) C.tenon_status) ([]TensorInfo, error) {
	var all []TensorInfo
	for number := C.size_t(0); number < count; number++ {
		var info C.tenon_tensor_info
		if err := call(func() C.tenon_status { return get(number, &info) }); err != nil {
			return nil, err
		}
		all = append(all, copied(info))
	}
	return all, nil
}

// Context runs a program, in memory of its own.
type Context struct {
	handle *C.tenon_context
	inputs map[int]unsafe.Pointer
}

// NewContext makes a context with the options that are the default.
func NewContext(program *Program) (*Context, error) {
	context := &Context{inputs: map[int]unsafe.Pointer{}}
	if err := call(func() C.tenon_status {
		return C.tenon_context_create(program.handle, nil, &context.handle)
	}); err != nil {
		return nil, err
	}
	return context, nil
}

// Close frees the context and its inputs.
func (c *Context) Close() {
	C.tenon_context_free(c.handle)
	for _, data := range c.inputs {
		C.free(data)
	}
}

// SetInput gives an input memory of these sizes, row-major. The slice that it returns is to be filled; it is valid
// until the input is set again. The memory is C's, because the library reads it in each run, and Go's moves.
func (c *Context) SetInput(number int, dtype C.tenon_dtype, shape []int64) (any, error) {
	data := C.calloc(C.size_t(elements(shape))+1, C.tenon_dtype_size(dtype))
	values, err := valuesAt(data, dtype, elements(shape))
	if err == nil {
		err = call(func() C.tenon_status {
			sizes := append(shape[:len(shape):len(shape)], 0) // one more, because a scalar has none to point to
			return C.set_input(c.handle, C.size_t(number), data, dtype, C.int32_t(len(shape)), (*C.int64_t)(&sizes[0]))
		})
	}
	if err != nil {
		C.free(data)
		return nil, err
	}
	C.free(c.inputs[number])
	c.inputs[number] = data
	return values, nil
}

// Run runs the program once.
func (c *Context) Run() error {
	return call(func() C.tenon_status { return C.tenon_run(c.handle) })
}

// Output gives the shape and the values of a result of the last run, both valid until the next.
func (c *Context) Output(number int) ([]int64, any, error) {
	var tensor C.tenon_tensor
	err := call(func() C.tenon_status { return C.tenon_get_output(c.handle, C.size_t(number), &tensor) })
	if err != nil {
		return nil, nil, err
	}
	shape := unsafe.Slice((*int64)(tensor.shape), tensor.rank)
	values, err := valuesAt(tensor.data, tensor.dtype, elements(shape))
	return shape, values, err
}

func elements(shape []int64) int64 {
	count := int64(1)
	for _, size := range shape {
		count *= size
	}
	return count
}

func valuesAt(data unsafe.Pointer, dtype C.tenon_dtype, count int64) (any, error) {
	switch dtype {
	case C.TENON_F64:
		return unsafe.Slice((*float64)(data), count), nil
	case C.TENON_F32:
		return unsafe.Slice((*float32)(data), count), nil
	case C.TENON_I64:
		return unsafe.Slice((*int64)(data), count), nil
	}
	return nil, fmt.Errorf("this file has no values of %s", C.GoString(C.tenon_dtype_name(dtype)))
}
