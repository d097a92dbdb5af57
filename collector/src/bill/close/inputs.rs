//! What a month is rated with beside its facts: the price book, the agreements and the directory. They are kept as texts, the first
//! two in their canonical form, that read back to equal ones: so a month can be rated again from them alone.

use contador_schemas::rows::InvoiceInput;
use sha2::{Digest, Sha256};

use crate::bill::StoreError;
use crate::bill::commitments::{self, Agreements};
use crate::bill::directory::{self, Directory, date};
use crate::bill::document::Refused;
use crate::bill::facts::{self, Facts};
use crate::bill::period::Period;
use crate::bill::prices::{self, PriceBook, hex};
use crate::bill::statement::{self, BillError, grain};
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
    /// What is in force now.
    ///
    /// # Errors
    /// [`BillError`]: nothing to price with, commitments in another currency, or the store.
    pub async fn in_force(store: &Store) -> Result<Self, BillError> {
        let book = statement::book_or_current(store, None).await?;
        let agreements = statement::agreements_or_current(store, None, &book).await?;
        Ok(Self { book, agreements, directory: directory::table::current(store).await? })
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

    /// The inputs as documents; that of agreements or of a directory has no text if there are none. Each reads back to what it was made
    /// of.
    ///
    /// # Errors
    /// What does not.
    pub fn documents(&self) -> Result<[InvoiceInput; 3], String> {
        let directory = self.directory.as_ref().map(of_directory).transpose();
        let has_agreements = self.agreements != Agreements::default();
        let texts = [
            self.book.canonical(),
            if has_agreements { self.agreements.canonical() } else { String::new() },
            directory.map_err(|error| error.to_string())?.unwrap_or_default(),
        ];
        let mut inputs = KINDS.map(|kind| InvoiceInput { kind: kind.to_owned(), ..InvoiceInput::default() });
        for (input, text) in inputs.iter_mut().zip(texts) {
            input.id = if text.is_empty() { String::new() } else { hex(&Sha256::digest(&text)) };
            input.document = text;
        }
        let ids = [0, 1, 2].map(|at: usize| inputs[at].id.as_str());
        let back = Self::read(&inputs, ids)?;
        let same = back.book.id() == self.book.id()
            && back.agreements.id() == self.agreements.id()
            && back.directory == self.directory;
        if same {
            Ok(inputs)
        } else {
            Err("its price book, commitments or directory cannot be kept as text".to_owned())
        }
    }

    /// Reads the documents of these ids: of a price book, of agreements, and of a directory (no agreements and no directory if empty).
    ///
    /// # Errors
    /// Which is missing, is not what was stored, or cannot be read.
    pub fn read<T: AsRef<str>>(documents: &[InvoiceInput], ids: [T; 3]) -> Result<Self, String> {
        let [book, agreements, directory] = [0, 1, 2].map(|at| text(documents, KINDS[at], ids[at].as_ref()));
        let agreements = match agreements? {
            "" => Agreements::default(),
            text => commitments::file::parse("its agreements", text).map_err(told)?,
        };
        let directory = match directory? {
            "" => None,
            text => Some(directory::file::parse("its directory", text.as_bytes()).map_err(|error| error.to_string())?),
        };
        Ok(Self { book: prices::file::parse("its book", book?).map_err(told)?, agreements, directory })
    }
}

fn told(refused: Refused) -> String {
    refused.to_string()
}

/// A directory as the CSV that is loaded.
fn of_directory(directory: &Directory) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(directory::file::HEADER)?;
    for (project, from, entry, _) in directory.entries() {
        let until = entry.until.map(|until| date(until).to_string()).unwrap_or_default();
        let from = date(from).to_string();
        writer.write_record([project, &entry.department, &entry.cost_centre, &from, &until])?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
