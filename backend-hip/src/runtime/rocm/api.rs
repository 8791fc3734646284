//! The table of HIP functions that the backend calls, and how it is filled.
//!
//! Types and numbers are those of `hip_runtime_api.h` and `driver_types.h` on Linux (HIP 5.2 to 7.14:
//! the functions listed here did not change between them, with the one exception that
//! [`PropertiesLayout`] describes). An error code is taken as an integer, not as a Rust enum: a newer
//! library may return one that no list of today has.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::ffi::CStr;

use super::error::{RocmError, code};
use crate::library::{self, LibraryError, Opened};

/// `hipError_t`.
pub(super) type Code = c_int;
/// `hipStream_t`, `hipEvent_t`, `hipModule_t`, `hipFunction_t`: pointers to what only HIP knows.
pub(super) type Handle = *mut c_void;

/// `hipMemcpyKind`.
pub(super) const HOST_TO_DEVICE: c_int = 1;
pub(super) const DEVICE_TO_HOST: c_int = 2;
/// `hipDeviceAttributeMultiprocessorCount`.
pub(super) const MULTIPROCESSOR_COUNT: c_int = 63;
/// `hipStreamNonBlocking`: does not wait for the null stream.
pub(super) const NON_BLOCKING: c_uint = 1;

/// Which of its two layouts the device properties have.
///
/// HIP 6.0 changed `hipDeviceProp_t` and gave the function that fills the new one a name of its own,
/// `hipGetDevicePropertiesR0600`; the old name still fills the old structure, so the name tells the
/// layout. Only the architecture's name is read from it; all else has functions of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PropertiesLayout {
    /// `hipDeviceProp_t` before HIP 6, later called `hipDeviceProp_tR0000`: 792 bytes.
    R0000,
    /// `hipDeviceProp_tR0600`: 1,472 bytes.
    R0600,
}

impl PropertiesLayout {
    /// Where the structure has `char gcnArchName[256]`, in bytes.
    ///
    /// In R0000 it follows `gcnArch`; in R0600 it is the first field of HIP's own behind
    /// `hipReserved[32]`.
    pub(super) const fn arch_name_offset(self) -> usize {
        match self {
            Self::R0000 => 396,
            Self::R0600 => 1160,
        }
    }
}

#[cfg(feature = "hip-runtime-sys")]
const _: () = assert!(
    core::mem::offset_of!(hip_runtime_sys::hipDeviceProp_t, gcnArchName)
        == PropertiesLayout::R0000.arch_name_offset(),
    "the crate's bindings have the old structure, and the functions it links fill that one"
);

/// Bytes of the buffer that the properties are written to: far more than either layout has, so that a
/// library whose structure grew at its end stays within it.
pub(super) const PROPERTIES_BYTES: usize = 8192;

/// `hipGetDeviceProperties`, the structure as bytes.
type GetProperties = unsafe extern "C" fn(*mut c_void, c_int) -> Code;

macro_rules! table {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty,)*) => {
        /// HIP's functions.
        #[derive(Clone, Copy, Debug)]
        #[allow(non_snake_case, reason = "the names are HIP's")]
        pub(super) struct Table {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            pub(super) properties: (PropertiesLayout, GetProperties),
        }

        impl Table {
            /// Takes every function from an open library.
            fn of_library(library: &Opened) -> Result<Self, LibraryError> {
                Ok(Self {
                    // SAFETY: the types are those of HIP's header.
                    $($name: unsafe { library.function(stringify!($name)) }?,)*
                    properties: properties_of(library)?,
                })
            }

            /// Takes every function from the linked library.
            #[cfg(feature = "hip-runtime-sys")]
            fn of_link() -> Self {
                use hip_runtime_sys as sys;
                Self {
                    $($name: {
                        let function = sys::$name as *const ();
                        // SAFETY: the same C function: that crate's type differs in names and in the
                        // error code, an enum of 32 bits there and an integer of 32 bits here.
                        unsafe {
                            core::mem::transmute::<
                                *const (),
                                unsafe extern "C" fn($($argument),*) -> $result,
                            >(function)
                        }
                    },)*
                    properties: {
                        let function = sys::hipGetDeviceProperties as *const ();
                        // SAFETY: as above; the structure is passed as bytes.
                        let function = unsafe {
                            core::mem::transmute::<*const (), GetProperties>(function)
                        };
                        (PropertiesLayout::R0000, function)
                    },
                }
            }
        }
    };
}

table! {
    hipInit: fn(c_uint) -> Code,
    hipRuntimeGetVersion: fn(*mut c_int) -> Code,
    hipGetErrorName: fn(Code) -> *const c_char,
    hipGetErrorString: fn(Code) -> *const c_char,
    hipGetDeviceCount: fn(*mut c_int) -> Code,
    hipGetDevice: fn(*mut c_int) -> Code,
    hipSetDevice: fn(c_int) -> Code,
    hipDeviceGetName: fn(*mut c_char, c_int, c_int) -> Code,
    hipDeviceGetPCIBusId: fn(*mut c_char, c_int, c_int) -> Code,
    hipDeviceGetAttribute: fn(*mut c_int, c_int, c_int) -> Code,
    hipDeviceTotalMem: fn(*mut usize, c_int) -> Code,
    hipMemGetInfo: fn(*mut usize, *mut usize) -> Code,
    hipMalloc: fn(*mut *mut c_void, usize) -> Code,
    hipFree: fn(*mut c_void) -> Code,
    hipMemcpyAsync: fn(*mut c_void, *const c_void, usize, c_int, Handle) -> Code,
    hipMemsetAsync: fn(*mut c_void, c_int, usize, Handle) -> Code,
    hipModuleLoadData: fn(*mut Handle, *const c_void) -> Code,
    hipModuleGetFunction: fn(*mut Handle, Handle, *const c_char) -> Code,
    hipModuleUnload: fn(Handle) -> Code,
    hipModuleLaunchKernel: fn(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint,
        Handle, *mut *mut c_void, *mut *mut c_void
    ) -> Code,
    hipStreamCreateWithFlags: fn(*mut Handle, c_uint) -> Code,
    hipStreamSynchronize: fn(Handle) -> Code,
    hipStreamDestroy: fn(Handle) -> Code,
    hipEventCreate: fn(*mut Handle) -> Code,
    hipEventRecord: fn(Handle, Handle) -> Code,
    hipEventSynchronize: fn(Handle) -> Code,
    hipEventElapsedTime: fn(*mut f32, Handle, Handle) -> Code,
    hipEventDestroy: fn(Handle) -> Code,
}

fn properties_of(library: &Opened) -> Result<(PropertiesLayout, GetProperties), LibraryError> {
    // SAFETY: the type is that of HIP's header, the structure passed as bytes.
    match unsafe { library.function("hipGetDevicePropertiesR0600") } {
        Ok(function) => Ok((PropertiesLayout::R0600, function)),
        // SAFETY: as above.
        Err(_) => unsafe { library.function("hipGetDeviceProperties") }
            .map(|function| (PropertiesLayout::R0000, function)),
    }
}

/// An initialised HIP library: every call through it comes back as a `Result`.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) table: Table,
    /// How the library was got: its path, or that it was linked.
    pub(super) library: String,
    /// `hipRuntimeGetVersion`: major · 10⁷ + minor · 10⁵ + patch.
    pub(super) version: c_int,
}

impl Api {
    /// Loads the library at run time, or takes the linked one with the feature `hip-runtime-sys`.
    pub(super) fn get() -> Result<Self, RocmError> {
        #[cfg(feature = "hip-runtime-sys")]
        let (table, library) = (Table::of_link(), "linked libamdhip64".to_owned());
        #[cfg(not(feature = "hip-runtime-sys"))]
        let (table, library) = Self::open(&library::HIP.environment())?;
        Self::start(table, library)
    }

    /// Loads the library at `path`, whatever the features.
    pub(super) fn at(path: &std::path::Path) -> Result<Self, RocmError> {
        let environment =
            library::Environment { named: Some(path.into()), ..library::Environment::default() };
        let (table, library) = Self::open(&environment)?;
        Self::start(table, library)
    }

    fn open(environment: &library::Environment) -> Result<(Table, String), LibraryError> {
        library::HIP
            .open(environment, |opened| Ok((Table::of_library(&opened)?, opened.path().to_owned())))
    }

    /// Asks for the version and initialises HIP. A missing device is found out later, by its count.
    fn start(table: Table, library: String) -> Result<Self, RocmError> {
        let mut api = Self { table, library, version: 0 };
        let mut version = 0;
        // SAFETY: the pointer is to a live integer.
        api.check("hipRuntimeGetVersion", "asking for the version", unsafe {
            (table.hipRuntimeGetVersion)(&raw mut version)
        })?;
        api.version = version;
        // SAFETY: hipInit takes any thread at any time; 0 is the only flag there is.
        match unsafe { (table.hipInit)(0) } {
            code::NO_DEVICE | code::INVALID_DEVICE => Ok(api),
            other => api.check("hipInit", "initialising HIP", other).map(|()| api),
        }
    }

    /// Turns what a function returned into a `Result` that says what was attempted.
    pub(super) fn check(
        &self,
        call: &'static str,
        attempted: impl Into<String>,
        code: Code,
    ) -> Result<(), RocmError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: both functions take any number.
        let (name, message) = unsafe {
            (text((self.table.hipGetErrorName)(code)), text((self.table.hipGetErrorString)(code)))
        };
        Err(RocmError::Call { call, attempted: attempted.into(), code, name, message })
    }

    /// The version as people write it.
    pub(super) fn version_text(&self) -> String {
        let (major, minor) = (self.version / 10_000_000, self.version / 100_000 % 100);
        format!("{major}.{minor}.{}", self.version % 100_000)
    }

    /// How many devices HIP sees.
    pub(super) fn device_count(&self) -> Result<c_int, RocmError> {
        let mut count = 0;
        // SAFETY: the pointer is to a live integer.
        match unsafe { (self.table.hipGetDeviceCount)(&raw mut count) } {
            code::NO_DEVICE | code::INVALID_DEVICE => Ok(0),
            other => {
                self.check("hipGetDeviceCount", "counting devices", other)?;
                Ok(count)
            }
        }
    }
}

/// A string that belongs to HIP, or a word for none.
///
/// # Safety
/// `pointer` is null or points to a string that lives as long as the process.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: the caller says so.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}
