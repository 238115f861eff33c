//! A safe face of Tenon's C interface (tenon/tenon.h): programs, contexts, inputs and results.
//!
//! A `Program` is immutable and shared by threads. A `Context` runs a program and owns its inputs, because each run
//! reads them again; results are borrowed from the context, so they cannot outlive the next run.
use std::ffi::{c_char, CStr, CString};
use std::fmt;
use std::ptr::{null, null_mut};

/// The declarations of tenon/tenon.h that this file uses.
mod ffi {
    use std::ffi::{c_char, c_int, c_void};

    #[repr(C)]
    pub struct Program {
        _private: [u8; 0],
    }

    #[repr(C)]
    pub struct Context {
        _private: [u8; 0],
    }

    #[repr(C)]
    pub struct Tensor {
        pub data: *mut c_void,
        pub dtype: c_int,
        pub rank: i32,
        pub shape: *const i64,
        pub strides: *const i64,
    }

    #[repr(C)]
    pub struct Dim {
        pub size: i64,
        pub text: *const c_char,
    }

    #[repr(C)]
    pub struct TensorInfo {
        pub name: *const c_char,
        pub dtype: c_int,
        pub rank: i32,
        pub dims: *const Dim,
    }

    extern "C" {
        pub fn tenon_error() -> *const c_char;
        pub fn tenon_version() -> *const c_char;
        pub fn tenon_dtype_name(dtype: c_int) -> *const c_char;
        pub fn tenon_load_file(path: *const c_char, options: *const c_void, program: *mut *mut Program) -> c_int;
        pub fn tenon_program_free(program: *mut Program);
        pub fn tenon_program_name(program: *const Program) -> *const c_char;
        pub fn tenon_input_count(program: *const Program) -> usize;
        pub fn tenon_output_count(program: *const Program) -> usize;
        pub fn tenon_input_info(program: *const Program, input: usize, info: *mut TensorInfo) -> c_int;
        pub fn tenon_output_info(program: *const Program, output: usize, info: *mut TensorInfo) -> c_int;
        pub fn tenon_context_create(
            program: *const Program,
            options: *const c_void,
            context: *mut *mut Context,
        ) -> c_int;
        pub fn tenon_context_free(context: *mut Context);
        pub fn tenon_set_input(context: *mut Context, input: usize, tensor: *const Tensor) -> c_int;
        pub fn tenon_run(context: *mut Context) -> c_int;
        pub fn tenon_get_output(context: *const Context, output: usize, tensor: *mut Tensor) -> c_int;
    }
}

/// A call that failed: its `tenon_status`, and the library's text.
#[derive(Debug)]
pub struct Error {
    pub status: i32,
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} (status {})", self.text, self.status)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

const INVALID_ARGUMENT: i32 = 1;

fn check(status: i32) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: never null, and valid until this thread's next call that fails.
    Err(Error { status, text: text_of(unsafe { ffi::tenon_error() }) })
}

fn text_of(text: *const c_char) -> String {
    // SAFETY: every text of the library ends with a zero, and is copied here while its owner lives.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

pub fn version() -> String {
    text_of(unsafe { ffi::tenon_version() })
}

/// Elements of the caller: an input.
pub enum Values {
    F64(Vec<f64>),
    F32(Vec<f32>),
    I64(Vec<i64>),
}

/// Elements of a context: a result.
pub enum View<'a> {
    F64(&'a [f64]),
    F32(&'a [f32]),
    I64(&'a [i64]),
}

// Numbers of tenon_dtype.
const F64: i32 = 0;
const F32: i32 = 1;
const I64: i32 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dtype(i32);

impl Dtype {
    pub const F64: Dtype = Dtype(F64);
    pub const F32: Dtype = Dtype(F32);
    pub const I64: Dtype = Dtype(I64);
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&text_of(unsafe { ffi::tenon_dtype_name(self.0) }))
    }
}

/// What a program says of an input or an output. A size is None where only the run knows it.
pub struct TensorInfo {
    pub name: String,
    pub dtype: Dtype,
    pub sizes: Vec<Option<i64>>,
    dims: Vec<String>,
}

impl TensorInfo {
    fn copied(info: &ffi::TensorInfo) -> TensorInfo {
        let dims: &[ffi::Dim] = unsafe { slice_of(info.dims, info.rank as usize) };
        TensorInfo {
            name: text_of(info.name),
            dtype: Dtype(info.dtype),
            sizes: dims.iter().map(|dim| (dim.size >= 0).then_some(dim.size)).collect(),
            dims: dims.iter().map(|dim| text_of(dim.text)).collect(),
        }
    }
}

impl fmt::Display for TensorInfo {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}[{}]", self.name, self.dtype, self.dims.join(", "))
    }
}

/// SAFETY: `data` is `count` elements that live for 'a, or the count is 0.
unsafe fn slice_of<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[]; // the library may say null, which a slice must not be
    }
    std::slice::from_raw_parts(data, count)
}

pub struct Program {
    handle: *mut ffi::Program,
}

// A program is immutable: tenon.h lets many threads use it at once.
unsafe impl Send for Program {}
unsafe impl Sync for Program {}

impl Program {
    pub fn load(path: &str) -> Result<Program> {
        let name = CString::new(path)
            .map_err(|_| Error { status: INVALID_ARGUMENT, text: format!("path {path:?} has a zero inside") })?;
        let mut handle = null_mut();
        check(unsafe { ffi::tenon_load_file(name.as_ptr(), null(), &mut handle) })?;
        Ok(Program { handle })
    }

    pub fn name(&self) -> String {
        text_of(unsafe { ffi::tenon_program_name(self.handle) })
    }

    pub fn inputs(&self) -> Result<Vec<TensorInfo>> {
        let count = unsafe { ffi::tenon_input_count(self.handle) };
        self.describe(count, ffi::tenon_input_info)
    }

    pub fn outputs(&self) -> Result<Vec<TensorInfo>> {
        let count = unsafe { ffi::tenon_output_count(self.handle) };
        self.describe(count, ffi::tenon_output_info)
    }

    fn describe(
        &self,
        count: usize,
        info_of: unsafe extern "C" fn(*const ffi::Program, usize, *mut ffi::TensorInfo) -> i32,
    ) -> Result<Vec<TensorInfo>> {
        (0..count)
            .map(|number| {
                let mut info = ffi::TensorInfo { name: null(), dtype: 0, rank: 0, dims: null() };
                check(unsafe { info_of(self.handle, number, &mut info) })?;
                Ok(TensorInfo::copied(&info))
            })
            .collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        unsafe { ffi::tenon_program_free(self.handle) } // contexts of the program go on
    }
}

pub struct Context {
    handle: *mut ffi::Context,
    inputs: Vec<Option<Values>>,
}

// One thread at a time: methods that change a context take it mutably.
unsafe impl Send for Context {}

impl Context {
    pub fn new(program: &Program) -> Result<Context> {
        let mut handle = null_mut();
        check(unsafe { ffi::tenon_context_create(program.handle, null(), &mut handle) })?;
        let count = unsafe { ffi::tenon_input_count(program.handle) };
        Ok(Context { handle, inputs: (0..count).map(|_| None).collect() })
    }

    /// Row-major values. The context keeps them, until it gets others.
    pub fn set_input(&mut self, number: usize, mut values: Values, shape: &[i64]) -> Result<()> {
        let (data, dtype, count) = match &mut values {
            Values::F64(all) => (all.as_mut_ptr().cast(), F64, all.len()),
            Values::F32(all) => (all.as_mut_ptr().cast(), F32, all.len()),
            Values::I64(all) => (all.as_mut_ptr().cast(), I64, all.len()),
        };
        if shape.iter().product::<i64>() != count as i64 {
            let text = format!("input {number}: {count} values do not fill the shape {shape:?}");
            return Err(Error { status: INVALID_ARGUMENT, text });
        }
        let tensor = ffi::Tensor { data, dtype, rank: shape.len() as i32, shape: shape.as_ptr(), strides: null() };
        check(unsafe { ffi::tenon_set_input(self.handle, number, &tensor) })?;
        self.inputs[number] = Some(values);
        Ok(())
    }

    pub fn run(&mut self) -> Result<()> {
        check(unsafe { ffi::tenon_run(self.handle) })
    }

    /// The shape and the values of a result of the last run.
    pub fn output(&self, number: usize) -> Result<(&[i64], View<'_>)> {
        let mut tensor = ffi::Tensor { data: null_mut(), dtype: 0, rank: 0, shape: null(), strides: null() };
        check(unsafe { ffi::tenon_get_output(self.handle, number, &mut tensor) })?;
        let shape = unsafe { slice_of(tensor.shape, tensor.rank as usize) };
        let count = shape.iter().product::<i64>() as usize;
        // SAFETY: row-major memory of the context, valid until the next run, which needs the context mutably.
        let view = unsafe {
            match tensor.dtype {
                F64 => View::F64(slice_of(tensor.data.cast(), count)),
                F32 => View::F32(slice_of(tensor.data.cast(), count)),
                I64 => View::I64(slice_of(tensor.data.cast(), count)),
                other => {
                    let text = format!("result {number} is of {}, which this file does not read", Dtype(other));
                    return Err(Error { status: INVALID_ARGUMENT, text });
                }
            }
        };
        Ok((shape, view))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        unsafe { ffi::tenon_context_free(self.handle) }
    }
}
