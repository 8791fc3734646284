//! What was loaded and made on a device: modules with their kernels, and events.
//!
//! Callers hold numbers, never HIP's pointers, so a wrong number is an error and not a crash.

use core::ptr::null_mut;
use std::collections::HashMap;
use std::ffi::CString;

use super::api::{Api, Handle};
use super::error::RocmError;
use crate::compile::CodeObject;
use crate::runtime::{Event, Function};

/// A handle of HIP's, which may be used from any thread.
#[derive(Clone, Copy, Debug)]
struct Shared(Handle);

// SAFETY: HIP's functions may be called from any thread, and take handles made on another.
unsafe impl Send for Shared {}

/// Modules by their code object's key, and the functions that were asked for.
#[derive(Debug, Default)]
pub(super) struct Modules {
    modules: HashMap<String, Module>,
    /// What a [`Function`]'s number is an index into.
    functions: Vec<Shared>,
}

#[derive(Debug)]
struct Module {
    handle: Shared,
    functions: HashMap<String, Function>,
    /// The code object: HIP may refer to it for as long as the module is loaded.
    _image: Box<[u8]>,
}

impl Modules {
    /// The kernel of that name, its code object loaded before or now.
    pub(super) fn load(
        &mut self,
        api: &Api,
        object: &CodeObject,
        kernel: &str,
    ) -> Result<Function, RocmError> {
        if !self.modules.contains_key(&object.key) {
            let module = Module::load(api, object)?;
            self.modules.insert(object.key.clone(), module);
        }
        let Some(module) = self.modules.get_mut(&object.key) else {
            return Err(RocmError::Handle { what: "module", handle: 0 });
        };
        if let Some(function) = module.functions.get(kernel) {
            return Ok(*function);
        }
        let name = CString::new(kernel)
            .map_err(|_| RocmError::KernelName { kernel: kernel.to_owned() })?;
        let mut handle = null_mut();
        // SAFETY: the module is loaded, the name ends in zero, the pointer is to a live handle.
        let code = unsafe {
            (api.table.hipModuleGetFunction)(&raw mut handle, module.handle.0, name.as_ptr())
        };
        api.check("hipModuleGetFunction", format!("looking up the kernel {kernel}"), code)?;
        let function = Function(self.functions.len() as u64);
        self.functions.push(Shared(handle));
        module.functions.insert(kernel.to_owned(), function);
        Ok(function)
    }

    /// HIP's handle of a function.
    pub(super) fn function(&self, function: Function) -> Result<Handle, RocmError> {
        usize::try_from(function.0)
            .ok()
            .and_then(|index| self.functions.get(index))
            .map(|shared| shared.0)
            .ok_or(RocmError::Handle { what: "function", handle: function.0 })
    }

    /// Unloads everything; functions are none of this table's any more.
    pub(super) fn unload(&mut self, api: &Api) {
        self.functions.clear();
        for (key, module) in self.modules.drain() {
            // SAFETY: loaded by hipModuleLoadData, and not unloaded before.
            let code = unsafe { (api.table.hipModuleUnload)(module.handle.0) };
            if let Err(error) = api.check("hipModuleUnload", "unloading a module", code) {
                tracing::warn!(key, %error, "a module was not unloaded");
            }
        }
    }
}

impl Module {
    fn load(api: &Api, object: &CodeObject) -> Result<Self, RocmError> {
        let image: Box<[u8]> = object.bytes.as_slice().into();
        let mut handle = null_mut();
        // SAFETY: HIP reads the image as far as the sizes in its ELF header go. They are those that a
        // compiler wrote, or that a cache returned with the right hash.
        let code = unsafe { (api.table.hipModuleLoadData)(&raw mut handle, image.as_ptr().cast()) };
        let attempted = format!("loading a code object of {} bytes ({})", image.len(), object.key);
        api.check("hipModuleLoadData", attempted, code)?;
        Ok(Self { handle: Shared(handle), functions: HashMap::new(), _image: image })
    }
}

/// Events that were made; those given back are used again.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// What an [`Event`]'s number is an index into, and whether it is given out.
    made: Vec<(Shared, bool)>,
}

impl Events {
    /// Takes a free event, or makes one, and records it on the stream.
    pub(super) fn record(&mut self, api: &Api, stream: Handle) -> Result<Event, RocmError> {
        let index = match self.made.iter().position(|(_, given)| !given) {
            Some(index) => index,
            None => {
                let mut handle = null_mut();
                // SAFETY: the pointer is to a live handle.
                api.check("hipEventCreate", "making an event", unsafe {
                    (api.table.hipEventCreate)(&raw mut handle)
                })?;
                self.made.push((Shared(handle), false));
                self.made.len() - 1
            }
        };
        let (handle, given) = &mut self.made[index];
        // SAFETY: the event is of this table; the stream is HIP's.
        api.check("hipEventRecord", "recording an event", unsafe {
            (api.table.hipEventRecord)(handle.0, stream)
        })?;
        *given = true;
        Ok(Event(index as u64))
    }

    /// HIP's handles of two events.
    pub(super) fn pair(&self, from: Event, to: Event) -> Result<(Handle, Handle), RocmError> {
        let handle = |event: Event| {
            let entry = usize::try_from(event.0).ok().and_then(|index| self.made.get(index));
            match entry {
                Some((handle, true)) => Ok(handle.0),
                Some((_, false)) | None => {
                    Err(RocmError::Handle { what: "event", handle: event.0 })
                }
            }
        };
        Ok((handle(from)?, handle(to)?))
    }

    /// Takes an event back; one that is not given out is left alone.
    pub(super) fn release(&mut self, event: Event) {
        let entry = usize::try_from(event.0).ok().and_then(|index| self.made.get_mut(index));
        if let Some((_, given)) = entry {
            *given = false;
        }
    }

    /// Destroys every event.
    pub(super) fn destroy(&mut self, api: &Api) {
        for (handle, _) in self.made.drain(..) {
            // SAFETY: made by hipEventCreate, and not destroyed before.
            let code = unsafe { (api.table.hipEventDestroy)(handle.0) };
            if let Err(error) = api.check("hipEventDestroy", "destroying an event", code) {
                tracing::warn!(%error, "an event was not destroyed");
            }
        }
    }
}
