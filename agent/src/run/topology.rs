//! The thread that asks what GPUs reach each other by: one look at a time, and nobody waits for it.

use std::sync::{Arc, Weak};

use tokio::sync::oneshot::{self, Receiver, error::TryRecvError};

use crate::errors::chain;
use crate::sensors::NvmlLibrary;
use crate::sensors::nvml::topology::{self, Topology};

/// Asks for the topology when it is told to.
#[derive(Debug)]
pub(super) struct TopologyWatch {
    library: NvmlLibrary,
    under_way: Option<Receiver<Option<Topology>>>,
    begun: Option<Weak<()>>,
    wanted: bool,
}

impl TopologyWatch {
    /// By this library.
    pub(super) fn new(library: NvmlLibrary) -> Self {
        Self { library, under_way: None, begun: None, wanted: false }
    }

    /// Has it asked, as soon as the look before has come to its end.
    pub(super) fn ask(&mut self) {
        self.wanted = true;
    }

    /// The thread that was started since the last call: it has the driver open until it ends.
    pub(super) fn take_begun(&mut self) -> Option<Weak<()>> {
        self.begun.take()
    }

    /// What was found since the last call. Starts the next look, when one is wanted.
    pub(super) fn take(&mut self) -> Option<Topology> {
        let found = match self.under_way.as_mut().map(Receiver::try_recv) {
            // A call into the driver may never return: then no other look is begun.
            Some(Err(TryRecvError::Empty)) => return None,
            Some(Ok(found)) => found,
            Some(Err(TryRecvError::Closed)) | None => None,
        };
        self.under_way = None;
        if std::mem::take(&mut self.wanted) {
            self.start();
        }
        found
    }

    fn start(&mut self) {
        let (say, hear) = oneshot::channel();
        let library = self.library.clone();
        let token = Arc::new(());
        let running = Arc::downgrade(&token);
        let look = move || {
            let _running = token;
            let found = topology::read(&library)
                .inspect_err(|error| tracing::debug!(error = chain(error), "the topology of GPUs can't be read"));
            // Nobody may be left to hear it.
            let _ = say.send(found.ok());
        };
        match std::thread::Builder::new().name("topology".to_owned()).spawn(look) {
            Ok(_) => {
                self.under_way = Some(hear);
                self.begun = Some(running);
            }
            Err(error) => tracing::debug!(%error, "no thread for the topology of GPUs"),
        }
    }
}
