//! Runs the command on files in a temporary folder, written and read by another implementation of
//! the formats.

#![allow(dead_code, reason = "each test file uses its part of the helpers")]
#![allow(clippy::unwrap_used, reason = "a helper fails its test by panicking")]

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::{Command, Output};

use npyz::WriterBuilder;
use safetensors::SafeTensors;

pub(crate) const LAYER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/minilm_layer0.safetensors");

/// A folder that goes away with its files.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The path as an argument of the command.
    pub(crate) fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.at(name)
    }

    /// Writes a C-order `.npy` file.
    pub(crate) fn npy<T: npyz::AutoSerialize + Copy>(
        &self,
        name: &str,
        shape: &[u64],
        values: &[T],
    ) -> String {
        self.npy_in(npyz::Order::C, name, shape, values)
    }

    /// Writes an `.npy` file whose elements lie in the order given.
    pub(crate) fn npy_in<T: npyz::AutoSerialize + Copy>(
        &self,
        order: npyz::Order,
        name: &str,
        shape: &[u64],
        values: &[T],
    ) -> String {
        let file = BufWriter::new(File::create(self.path(name)).unwrap());
        let options = npyz::WriteOptions::new().default_dtype().shape(shape).order(order);
        let mut writer = options.writer(file).begin_nd().unwrap();
        writer.extend(values.iter().copied()).unwrap();
        writer.finish().unwrap();
        self.at(name)
    }

    /// Reads a C-order `.npy` file: its shape and elements.
    pub(crate) fn read<T: npyz::Deserialize>(&self, name: &str) -> (Vec<u64>, Vec<T>) {
        let npy = npyz::NpyFile::new(File::open(self.path(name)).unwrap()).unwrap();
        assert_eq!(npy.order(), npyz::Order::C);
        (npy.shape().to_vec(), npy.into_vec::<T>().unwrap())
    }
}

/// `lapidary` with these arguments, undisturbed by the caller's environment.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lapidary"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

/// Runs `lapidary` with these arguments.
pub(crate) fn lapidary(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs the command and expects it to succeed; returns its standard output.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let output = lapidary(arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the command and expects exit code 2 and one line on standard error that holds all of
/// `expected`.
pub(crate) fn refuse(arguments: &[&str], expected: &[&str]) {
    let output = lapidary(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
    assert!(message.starts_with("error: ") && message.ends_with('\n'), "{message:?}");
    assert_eq!(message.lines().count(), 1, "{message}");
    for part in expected {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

/// One tensor of the transformer layer, as `f64`.
pub(crate) fn layer(name: &str) -> (Vec<usize>, Vec<f64>) {
    let bytes = fs::read(LAYER).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = tensors.tensor(name).unwrap();
    let values = match tensor.dtype() {
        safetensors::Dtype::F64 => bytemuck::pod_collect_to_vec::<u8, f64>(tensor.data()),
        safetensors::Dtype::F32 => bytemuck::pod_collect_to_vec::<u8, f32>(tensor.data())
            .into_iter()
            .map(f64::from)
            .collect(),
        other => panic!("{name} is {other}"),
    };
    (tensor.shape().to_vec(), values)
}

/// Whether the WGSL backend has a device here; prints the reason where it has none.
///
/// # Panics
/// If there is none although `LAPIDARY_REQUIRE_GPU` is 1.
pub(crate) fn has_wgsl_device() -> bool {
    let devices: serde_json::Value =
        serde_json::from_str(&succeed(&["devices", "--json"])).unwrap();
    let found = devices["devices"]
        .as_array()
        .unwrap()
        .iter()
        .any(|device| device["backend"] == "wgsl" && device["usable"] == true);
    if !found {
        let required = std::env::var("LAPIDARY_REQUIRE_GPU").is_ok_and(|value| value == "1");
        assert!(!required, "no WGSL device: {}", devices["wgsl_reason"]);
        println!("skipped: no WGSL device: {}", devices["wgsl_reason"]);
    }
    found
}
