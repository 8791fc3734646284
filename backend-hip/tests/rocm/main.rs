//! The ROCm runtime without a device: everything up to it with the real library where there is one, and
//! everything behind it against a stand-in over host memory.
#![cfg(target_os = "linux")]

#[cfg(feature = "emulator")]
mod forwarded;
mod hiprtc;
mod library;
mod mock;
mod stand_in;
