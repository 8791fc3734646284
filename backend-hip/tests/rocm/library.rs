//! The real HIP runtime, where it is installed, up to the answer that there is no device.

use lapidary_hip::LibraryError;
use lapidary_hip::prelude::{Error, Hip};
use lapidary_hip::runtime::rocm::{Rocm, RocmError};

/// Set where the library is known to be installed: then its absence is a failure.
const REQUIRED: &str = "LAPIDARY_REQUIRE_HIP_LIBRARY";

/// One test for both ways: without features the library is loaded at run time, with the feature
/// `hip-runtime-sys` it is linked.
#[test]
fn the_installed_library_answers_cleanly_without_a_device() {
    let linked = cfg!(feature = "hip-runtime-sys");
    let way = if linked { "linked" } else { "loaded at run time" };
    match Rocm::open(None) {
        Ok(rocm) => println!("{way}: {rocm:?}"),
        Err(error @ RocmError::NoDevice { .. }) => {
            println!("{way}: {error}");
            let message = error.to_string();
            assert_eq!(message.contains("linked"), linked, "{message}");
            assert!(message.contains("/dev/kfd"), "{message}");
            assert_eq!(Rocm::devices(), Ok(vec![]));
        }
        Err(error @ RocmError::Library(LibraryError::NotFound { .. })) if !linked => {
            assert!(std::env::var_os(REQUIRED).is_none(), "{REQUIRED} is set, but {error}");
            println!("skipped: libamdhip64 is not installed");
        }
        Err(error) => panic!("{way}: {error}"),
    }
}

#[test]
fn a_device_that_cannot_be_had_is_one_line_to_the_librarys_user() {
    let Err(reason) = Rocm::open(None) else {
        return println!("skipped: there is a HIP device");
    };
    match Hip::new() {
        Err(error @ Error::NoDevice { .. }) => {
            let message = error.to_string();
            assert!(message.contains(&reason.to_string()), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_library_that_is_not_hip_is_refused_by_the_function_it_lacks() {
    // The C library is there on every machine that runs this.
    let error = Rocm::open_with("libc.so.6", None).expect_err("no HIP");
    let message = error.to_string();
    assert!(matches!(error, RocmError::Library(LibraryError::SymbolMissing { .. })), "{message}");
    assert!(message.contains("libc.so.6") && message.contains("hipInit"), "{message}");
}

#[test]
fn a_missing_library_is_one_line_on_what_to_install() {
    let error = Rocm::open_with("/nonexistent/libamdhip64.so", None).expect_err("no file");
    let message = error.to_string();
    assert!(message.contains("/nonexistent/libamdhip64.so"), "{message}");
    assert!(message.contains("install ROCm 6.4 or newer"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}
