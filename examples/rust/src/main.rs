//! Loads a compiled model, says what it takes and gives, runs it on made-up inputs and prints a summary of each result.
//!
//!     cargo run -- model.tenon [SIZE]      SIZE: of every symbolic dimension; 4 unless told
mod tenon;

use std::process::ExitCode;
use tenon::{Context, Dtype, Program, TensorInfo, Values, View};

/// Small numbers that differ: 0, 0.25, 0.5, ... for floats, and 0, 1, 2 for integers, which are often indices.
fn make_values(info: &TensorInfo, count: i64) -> Option<Values> {
    match info.dtype {
        Dtype::F64 => Some(Values::F64((0..count).map(|i| (i % 9) as f64 * 0.25).collect())),
        Dtype::F32 => Some(Values::F32((0..count).map(|i| (i % 9) as f32 * 0.25).collect())),
        Dtype::I64 => Some(Values::I64((0..count).map(|i| i % 3).collect())),
        _ => None,
    }
}

fn sum(view: &View) -> f64 {
    match view {
        View::F64(values) => values.iter().sum(),
        View::F32(values) => values.iter().map(|&value| f64::from(value)).sum(),
        View::I64(values) => values.iter().sum::<i64>() as f64,
    }
}

fn run(path: &str, size: i64) -> Result<(), Box<dyn std::error::Error>> {
    let program = Program::load(path)?;
    println!("{}, by Tenon {}", program.name(), tenon::version());
    let mut context = Context::new(&program)?;
    for (number, info) in program.inputs()?.iter().enumerate() {
        println!("input {info}");
        let shape: Vec<i64> = info.sizes.iter().map(|known| known.unwrap_or(size)).collect();
        let values = make_values(info, shape.iter().product())
            .ok_or_else(|| format!("this example makes no values of {}", info.dtype))?;
        context.set_input(number, values, &shape)?;
    }
    context.run()?;
    for (number, info) in program.outputs()?.iter().enumerate() {
        let (shape, view) = context.output(number)?;
        let shape: Vec<String> = shape.iter().map(i64::to_string).collect();
        println!("output {info}\n  shape {}, sum {:.3}", shape.join(" "), sum(&view));
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() < 2 {
        eprintln!("usage: run_model model.tenon [SIZE]");
        return ExitCode::from(2);
    }
    let size = arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(4);
    match run(&arguments[1], size) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
