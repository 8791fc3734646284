//! Every kind of bad input ends with exit code 2 and one line that says what is wrong.

mod support;

use support::{Folder, LAYER, has_wgsl_device, refuse, succeed};

#[test]
fn inner_dimensions_that_differ() {
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[2, 3], &[1f32; 6]);
    let b = folder.npy("b.npy", &[2, 4], &[1f32; 8]);
    refuse(&["run", &a, &b], &["A has 3 columns", "B has 2 rows"]);
    // Transposition counts: 3×2 times 2×4 would do.
    succeed(&["run", &a, &b, "--trans-a", "--backend", "cpu"]);
}

#[test]
fn batches_that_differ() {
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[2, 3, 4], &[1f32; 24]);
    let b = folder.npy("b.npy", &[3, 4, 1], &[1f32; 12]);
    refuse(&["run", &a, &b], &["B is 3x4x1", "needs 2x4x1"]);
}

#[test]
fn a_shape_larger_than_its_file() {
    let folder = Folder::new();
    let b = folder.npy("b.npy", &[3, 4], &[1f32; 12]);
    let npy = std::fs::read(&b).unwrap();
    let needed = npy.len().to_string();
    let found = (npy.len() - 5).to_string();
    let a = folder.write("truncated.npy", &npy[..npy.len() - 5]);
    refuse(&["run", &a, &b], &["truncated.npy", "truncated", &needed, &found]);
    let a = folder.write("longer.npy", &[&npy[..], &[0; 7]].concat());
    refuse(&["run", &a, &b], &["longer.npy", "7 bytes after the end"]);
    let a = folder.write("empty.npy", &[]);
    refuse(&["run", &a, &b], &["empty.npy", "\\x93NUMPY"]);
}

#[test]
fn big_endian_numbers() {
    let folder = Folder::new();
    let b = folder.npy("b.npy", &[3, 4], &[1f64; 12]);
    let mut npy = std::fs::read(&b).unwrap();
    let at = npy.windows(3).position(|bytes| bytes == b"<f8").unwrap();
    npy[at] = b'>';
    let a = folder.write("a.npy", &npy);
    refuse(&["run", &a, &b], &["a.npy", "big-endian", ">f8", "<f8"]);
}

#[test]
fn types_the_library_does_not_multiply() {
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[2, 2], &[1u16; 4]);
    let b = folder.npy("b.npy", &[2, 2], &[1f32; 4]);
    refuse(&["run", &a, &b], &["a.npy", "<u2", "<f4"]);
    let a = folder.npy("a.npy", &[2, 2], &[1i32; 4]);
    refuse(&["run", &a, &a], &["i32 x i32", "operands are f64, f32, f16, bf16, i8"]);
    let a = folder.npy("a.npy", &[2, 2], &[1f64; 4]);
    refuse(&["run", &a, &b], &["f64 x f32", "--dtype"]);
}

#[test]
fn names_that_pick_nothing() {
    let weight = format!("{LAYER}:ffn.weight");
    refuse(
        &["run", &format!("{LAYER}:ffn.wait"), &weight],
        &["minilm_layer0", "no array \"ffn.wait\"", "ffn.weight"],
    );
    refuse(&["run", LAYER, &weight], &["holds 8 arrays", ":NAME", "ffn.weight"]);
    refuse(&["run", "/nonexistent/a.npy", &weight], &["/nonexistent/a.npy", "No such file"]);
    refuse(&["run", "a.csv", &weight], &["a.csv", "\"csv\"", ".npy"]);
}

#[test]
fn arrays_of_the_wrong_number_of_dimensions() {
    let folder = Folder::new();
    let matrix = folder.npy("m.npy", &[2, 2], &[1f32; 4]);
    let vector = folder.npy("v.npy", &[4], &[1f32; 4]);
    let scalar = folder.npy("s.npy", &[], &[1f32]);
    refuse(&["run", &vector, &matrix], &["A (", "v.npy", "1 dimensions"]);
    refuse(&["run", &matrix, &scalar], &["B (", "s.npy", "0 dimensions"]);
    refuse(&["run", &matrix, &matrix, "--bias", &matrix], &["bias (", "m.npy", "2 dimensions"]);
    let four = folder.npy("four.npy", &[1, 1, 2, 2], &[1f32; 4]);
    refuse(&["run", &four, &matrix], &["four.npy", "4 dimensions", "limit is 3"]);
}

#[test]
fn a_bias_of_the_wrong_length_or_type() {
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[2, 2], &[1f32; 4]);
    let bias = folder.npy("bias.npy", &[3], &[1f32; 3]);
    refuse(&["run", &a, &a, "--bias", &bias], &["bias has 3 values", "2 columns"]);
    let bias = folder.npy("wide.npy", &[2], &[1f64; 2]);
    refuse(&["run", &a, &a, "--bias", &bias], &["wide.npy", "f64", "f32", "--dtype"]);
    // No option converts to i32, so none is named for that.
    let bytes = folder.npy("bytes.npy", &[2, 2], &[1i8; 4]);
    let bias = folder.npy("half.npy", &[2], &[0.5f32; 2]);
    refuse(
        &["run", &bytes, &bytes, "--bias", &bias],
        &["half.npy", "f32", "i32", "--out-dtype f32"],
    );
}

#[test]
fn a_c_that_does_not_fit() {
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[2, 2], &[1f32; 4]);
    let c = folder.npy("c.npy", &[2, 3], &[1f32; 6]);
    refuse(&["run", &a, &a, "--beta", "1", "--c-in", &c], &["C is 1x2x3", "1x2x2"]);
    refuse(&["run", &a, &a, "--c-in", &c], &["--c-in", "--beta is 0"]);
    refuse(&["run", &a, &a, "--beta", "-2"], &["--beta is -2", "--c-in"]);
}

#[test]
fn integer_products_outside_their_range() {
    let folder = Folder::new();
    let long = 131_072;
    let a = folder.npy("a.npy", &[1, long], &vec![1i8; long as usize]);
    let b = folder.npy("b.npy", &[long, 1], &vec![1i8; long as usize]);
    refuse(&["run", &a, &b], &["131072", "131071", "--wrapping"]);
    succeed(&["run", &a, &b, "--wrapping", "--backend", "cpu", "--check"]);
    let a = folder.npy("a.npy", &[2, 2], &[1i8; 4]);
    refuse(&["run", &a, &a, "--alpha", "0.5"], &["alpha = 0.5", "integer"]);
    refuse(&["run", &a, &a, "--activation", "silu"], &["silu", "i32"]);
}

#[test]
fn outputs_that_cannot_be_written() {
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[2, 2], &[1f32; 4]);
    let output = |name: &str| folder.at(name);
    refuse(&["run", &a, &a, "-o", &output("c.npz")], &["c.npz", ".npz"]);
    refuse(&["run", &a, &a, "-o", &output("c.txt")], &["c.txt", "\"txt\""]);
    refuse(&["run", &a, &a, "-o", &output("no/c.npy")], &["no/c.npy", "No such file"]);
    let arguments = ["run", &a, &a, "--dtype", "bf16", "-o", &output("c.npy")];
    refuse(&arguments, &["c.npy", "bf16", ".safetensors"]);
    std::fs::create_dir(folder.path("d.npy")).unwrap();
    refuse(&["run", &a, &a, "-o", &output("d.npy")], &["d.npy", "regular file"]);
}

#[test]
fn arguments_that_make_no_sense() {
    refuse(&["run", "a.npy"], &["<B>"]);
    refuse(&["run", "a.npy", "b.npy", "--step", "8"], &["8 is not in 1..=7"]);
    refuse(&["run", "a.npy", "b.npy", "--activation", "tanh"], &["tanh", "gelu-tanh"]);
    refuse(&["run", "a.npy", "b.npy", "--dtype", "f99"], &["f99", "bf16"]);
    refuse(&["run", "a.npy", "b.npy", "--alpha", "one"], &["--alpha", "one"]);
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[2, 2], &[1f32; 4]);
    refuse(&["run", &a, &a, "--backend", "cpu", "--step", "3"], &["--step", "--backend cpu"]);
    refuse(&["run", &a, &a, "--backend", "cpu", "--device", "0"], &["--device", "--backend cpu"]);
}

#[test]
fn a_type_the_device_lacks() {
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[2, 2], &[1f64; 4]);
    if has_wgsl_device() {
        refuse(&["run", &a, &a, "--backend", "wgsl"], &["f64", "--dtype f32"]);
        refuse(&["run", &a, &a, "--step", "3"], &["f64"]);
        let a = folder.npy("b.npy", &[2, 2], &[1f32; 4]);
        let arguments = ["run", &a, &a, "--backend", "wgsl", "--device", "no such device"];
        refuse(&arguments, &["no such device"]);
    }
}
