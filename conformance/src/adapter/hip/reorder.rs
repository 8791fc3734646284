//! An emulator whose waves and workgroups take turns in other orders.

use std::sync::{Arc, Mutex, PoisonError};

use lapidary_core::Error;
use lapidary_hip::runtime::{Emulated, Order as EmulatorOrder};
use lapidary_hip::{Hip, Target};

use super::no_device;
use crate::adapter::{Executed, Job, Order, execute_on};

/// Orders other than the emulator's own.
pub(super) const ORDERS: [Order; 2] = [Order::Reversed, Order::Shuffled(7)];

/// An emulator of its own; one order at a time.
#[derive(Debug)]
pub(super) struct Reordered {
    device: Hip,
    emulator: Mutex<Arc<Emulated>>,
}

impl Reordered {
    /// An emulator of `target`.
    pub(super) fn new(target: Target) -> Result<Self, Error> {
        let emulator = Arc::new(Emulated::new(target).map_err(no_device)?);
        let device = Hip::with_emulator(Arc::clone(&emulator))?;
        Ok(Self { device, emulator: Mutex::new(emulator) })
    }

    /// The device, whose memory is its own.
    pub(super) fn device(&self) -> &Hip {
        &self.device
    }

    /// Runs a job in its order.
    pub(super) fn execute(&self, job: &Job<'_>) -> Result<Executed, Error> {
        let emulator = self.emulator.lock().unwrap_or_else(PoisonError::into_inner);
        emulator.configure(|settings| {
            settings.order = match job.order {
                Order::Shuffled(seed) => EmulatorOrder::Random(seed),
                _ => EmulatorOrder::Reverse,
            };
        });
        execute_on(&self.device, job)
    }
}
