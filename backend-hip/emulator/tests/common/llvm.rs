//! Running clang, llvm-mc and llvm-objdump of LLVM 22.

use std::path::Path;
use std::process::{Command, Stdio};

use lapidary_cdna::Arch;
use tempfile::TempPath;

/// The tools by the names Debian gives them.
pub const CLANG: &str = "clang-22";
pub const MC: &str = "llvm-mc-22";
pub const OBJDUMP: &str = "llvm-objdump-22";

/// The first of `tools` that cannot be run, if any.
pub fn missing(tools: &[&'static str]) -> Option<&'static str> {
    tools.iter().copied().find(|tool| {
        !Command::new(tool)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

/// A fresh file that is removed when its path is dropped.
pub fn scratch_file(suffix: &str) -> TempPath {
    tempfile::Builder::new()
        .suffix(suffix)
        .tempfile()
        .expect("the temporary directory is writable")
        .into_temp_path()
}

/// Runs a command to its end; its standard output and error.
fn run(command: &mut Command) -> (bool, String, String) {
    let output = command.output().expect("the tool was found before");
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Disassembles words line by line, `None` where LLVM finds no instruction. Every entry is at most 16 bytes.
pub fn disassemble_words(arch: Arch, entries: &[Vec<u32>]) -> Vec<String> {
    let mut text = String::new();
    for words in entries {
        for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
            text.push_str(&format!("0x{byte:02x} "));
        }
        text.push('\n');
    }
    let file = scratch_file(".txt");
    std::fs::write(&file, text).expect("the file is writable");
    let (_, out, _) = run(Command::new(MC)
        .args(["-triple=amdgcn-amd-amdhsa", "-disassemble"])
        .arg(format!("-mcpu={arch}"))
        .arg(&file));
    out.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('.'))
        .map(|line| line.split("//").next().unwrap_or(line).trim().to_owned())
        .collect()
}

/// Assembles lines into an object file, leaving out those the assembler refuses. Returns the file and the numbers of the
/// lines in it.
pub fn assemble_lines(arch: Arch, lines: &[String]) -> (TempPath, Vec<usize>) {
    let mut kept: Vec<usize> = (0..lines.len()).collect();
    let source = scratch_file(".s");
    let object = scratch_file(".o");
    for _ in 0..8 {
        let text: String = kept.iter().flat_map(|i| [lines[*i].as_str(), "\n"]).collect();
        std::fs::write(&source, text).expect("the file is writable");
        let (ok, _, errors) = run(Command::new(MC)
            .args(["-triple=amdgcn-amd-amdhsa", "-filetype=obj", "-o"])
            .arg(&object)
            .arg(format!("-mcpu={arch}"))
            .arg(&source));
        if ok {
            return (object, kept);
        }
        let refused: std::collections::HashSet<usize> = errors
            .lines()
            .filter(|line| line.contains(": error:"))
            .filter_map(|line| line.split(':').nth(1)?.parse::<usize>().ok())
            .collect();
        assert!(!refused.is_empty(), "llvm-mc failed without naming a line: {errors}");
        kept = kept
            .into_iter()
            .enumerate()
            .filter(|(i, _)| !refused.contains(&(i + 1)))
            .map(|(_, line)| line)
            .collect();
    }
    panic!("llvm-mc kept refusing lines");
}

/// Compiles a kernel source to a linked code object.
pub fn compile(source: &Path, arch: Arch, options: &[&str]) -> Result<TempPath, String> {
    let object = scratch_file(".co");
    let (ok, _, errors) = run(Command::new(CLANG)
        .args(["-x", "hip", "--offload-device-only", "-nogpuinc", "-nogpulib"])
        .args(["--no-gpu-bundle-output", "-fuse-ld=lld"])
        .arg(format!("--offload-arch={arch}"))
        .args(options)
        .arg("-o")
        .arg(&object)
        .arg(source));
    if ok { Ok(object) } else { Err(errors) }
}

/// Compiles a kernel source to assembly.
pub fn compile_to_text(source: &Path, arch: Arch, options: &[&str]) -> Result<String, String> {
    let file = compile(source, arch, &[options, &["-S"]].concat())?;
    std::fs::read_to_string(&file).map_err(|error| error.to_string())
}

/// Assembles and links a whole assembly file to a code object.
pub fn assemble(text: &str, arch: Arch) -> Result<TempPath, String> {
    let (source, object) = (scratch_file(".s"), scratch_file(".co"));
    std::fs::write(&source, text).map_err(|error| error.to_string())?;
    let (ok, _, errors) = run(Command::new(CLANG)
        .args(["--target=amdgcn-amd-amdhsa", "-nogpulib", "-fuse-ld=lld"])
        .arg(format!("-mcpu={arch}"))
        .arg("-o")
        .arg(&object)
        .arg(&source));
    if ok { Ok(object) } else { Err(errors) }
}

/// One line of a disassembly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub address: u64,
    pub text: String,
    pub bytes: Vec<u8>,
}

/// The instructions of an object file.
pub fn objdump(file: &Path) -> Vec<Line> {
    let (ok, out, errors) = run(Command::new(OBJDUMP).arg("-d").arg(file));
    assert!(ok, "llvm-objdump failed: {errors}");
    out.lines()
        .filter_map(|line| {
            let (text, comment) = line.strip_prefix('\t')?.rsplit_once("// ")?;
            let (address, words) = comment.split_once(": ")?;
            let mut bytes = Vec::new();
            for word in words.split_whitespace().take_while(|w| w.len() == 8) {
                bytes.extend(u32::from_str_radix(word, 16).ok()?.to_le_bytes());
            }
            Some(Line {
                address: u64::from_str_radix(address, 16).ok()?,
                text: text.trim_end().to_owned(),
                bytes,
            })
        })
        .collect()
}
