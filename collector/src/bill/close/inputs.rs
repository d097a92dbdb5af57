//! What a month is rated with beside its facts: the price book, the agreements and the directory.

use contador_schemas::rows::InvoiceInput;
use sha2::{Digest, Sha256};

use super::{CloseError, document};
use crate::bill::StoreError;
use crate::bill::commitments::Agreements;
use crate::bill::directory::{self, Directory};
use crate::bill::facts::{self, Facts};
use crate::bill::period::Period;
use crate::bill::prices::{self, PriceBook, hex};
use crate::bill::statement::grain;
use crate::store::Store;

const KINDS: [&str; 3] = ["book", "agreements", "directory"];

/// What a month is rated with.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The price book.
    pub book: PriceBook,
    /// Commitments and budgets.
    pub agreements: Agreements,
    /// Departments of projects, if there are any.
    pub directory: Option<Directory>,
}

impl Inputs {
    /// What is in force now; `book` is used instead of the one in the store.
    ///
    /// # Errors
    /// [`CloseError::NoPrices`], [`CloseError::Store`].
    pub async fn in_force(store: &Store, book: Option<PriceBook>) -> Result<Self, CloseError> {
        let book = match book {
            Some(book) => book,
            None => prices::table::current(store).await?.ok_or(CloseError::NoPrices)?,
        };
        let directory = directory::table::current(store).await?;
        Ok(Self { book, agreements: Agreements::default(), directory })
    }

    /// The facts of a period, cut and given their departments as these inputs want it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn facts(&self, store: &Store, period: &Period) -> Result<Facts, StoreError> {
        let mut grain = grain(&self.book, &self.agreements, period);
        grain.cut(self.directory.iter().flat_map(|directory| directory.changes(period)));
        let mut facts = facts::fetch(store, period, &grain).await?;
        if let Some(directory) = &self.directory {
            directory.apply(&mut facts, period);
        }
        Ok(facts)
    }

    /// The inputs as documents; that of the directory has no text if there is none. Each reads back to what it was made of.
    ///
    /// # Errors
    /// What does not.
    pub fn documents(&self) -> Result<[InvoiceInput; 3], String> {
        let directory = self.directory.as_ref().map(document::of_directory).transpose();
        let texts = [
            document::of_book(&self.book),
            document::of_agreements(&self.agreements),
            directory.map_err(|error| error.to_string())?.unwrap_or_default(),
        ];
        let mut inputs = KINDS.map(|kind| InvoiceInput { kind: kind.to_owned(), ..InvoiceInput::default() });
        for (input, text) in inputs.iter_mut().zip(texts) {
            input.id = if text.is_empty() { String::new() } else { hex(&Sha256::digest(&text)) };
            input.document = text;
        }
        let ids = [0, 1, 2].map(|at: usize| inputs[at].id.as_str());
        let back = Self::read(&inputs, ids)?;
        let same =
            back.book.id() == self.book.id() && back.agreements == self.agreements && back.directory == self.directory;
        if same {
            Ok(inputs)
        } else {
            Err("its price book, commitments or directory cannot be kept as text".to_owned())
        }
    }

    /// Reads the documents of these ids: of a price book, of agreements, and of a directory (none if empty).
    ///
    /// # Errors
    /// Which is missing, is not what was stored, or cannot be read.
    pub fn read<T: AsRef<str>>(documents: &[InvoiceInput], ids: [T; 3]) -> Result<Self, String> {
        let [book, agreements, directory] = [0, 1, 2].map(|at| text(documents, KINDS[at], ids[at].as_ref()));
        let told = |kind: &str, error: String| format!("its {kind} cannot be read: {error}");
        let directory = match directory? {
            "" => None,
            text => Some(document::to_directory(text).map_err(|error| told(KINDS[2], error))?),
        };
        Ok(Self {
            book: document::to_book(book?).map_err(|error| told(KINDS[0], error))?,
            agreements: document::to_agreements(agreements?).map_err(|error| told(KINDS[1], error))?,
            directory,
        })
    }
}

fn text<'d>(documents: &'d [InvoiceInput], kind: &str, id: &str) -> Result<&'d str, String> {
    if id.is_empty() {
        return Ok("");
    }
    let found = documents.iter().find(|input| input.kind == kind && input.id == id);
    let text = &found.ok_or_else(|| format!("its {kind} {id} is not in the store"))?.document;
    let hash = hex(&Sha256::digest(text));
    if hash == id { Ok(text) } else { Err(format!("its {kind} {id} in the store has the hash {hash}")) }
}
