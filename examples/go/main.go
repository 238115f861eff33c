// Loads a compiled model, says what it takes and gives, runs it on made-up inputs and prints a summary of each result.
//
//	go run . model.tenon [SIZE]      SIZE: of every symbolic dimension; 4 unless told
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Small numbers that differ: 0, 0.25, 0.5, ... for floats, and 0, 1, 2 for integers, which are often indices.
func fill(values any) {
	switch values := values.(type) {
	case []float64:
		for i := range values {
			values[i] = float64(i%9) * 0.25
		}
	case []float32:
		for i := range values {
			values[i] = float32(i%9) * 0.25
		}
	case []int64:
		for i := range values {
			values[i] = int64(i % 3)
		}
	}
}

func add[T float32 | float64 | int64](values []T) (total float64) {
	for _, value := range values {
		total += float64(value)
	}
	return total
}

func sum(values any) float64 {
	switch values := values.(type) {
	case []float64:
		return add(values)
	case []float32:
		return add(values)
	case []int64:
		return add(values)
	}
	return 0
}

func setInputs(context *Context, program *Program, size int64) error {
	infos, err := program.Inputs()
	if err != nil {
		return err
	}
	for number, info := range infos {
		fmt.Println("input", info)
		shape := append([]int64{}, info.Sizes...)
		for i := range shape {
			if shape[i] < 0 {
				shape[i] = size
			}
		}
		values, err := context.SetInput(number, info.Dtype, shape)
		if err != nil {
			return err
		}
		fill(values)
	}
	return nil
}

func printOutputs(context *Context, program *Program) error {
	infos, err := program.Outputs()
	if err != nil {
		return err
	}
	for number, info := range infos {
		shape, values, err := context.Output(number)
		if err != nil {
			return err
		}
		fmt.Println("output", info)
		fmt.Printf("  shape %s, sum %.3f\n", strings.Trim(fmt.Sprint(shape), "[]"), sum(values))
	}
	return nil
}

func run(path string, size int64) error {
	program, err := Load(path)
	if err != nil {
		return err
	}
	defer program.Close()
	fmt.Printf("%s, by Tenon %s\n", program.Name(), Version())
	context, err := NewContext(program)
	if err != nil {
		return err
	}
	defer context.Close()
	if err := setInputs(context, program, size); err != nil {
		return err
	}
	if err := context.Run(); err != nil {
		return err
	}
	return printOutputs(context, program)
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: run_model model.tenon [SIZE]")
		os.Exit(2)
	}
	size := int64(4)
	if len(os.Args) > 2 {
		if told, err := strconv.ParseInt(os.Args[2], 10, 64); err == nil {
			size = told
		}
	}
	if err := run(os.Args[1], size); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
