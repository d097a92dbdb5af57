//! The header of what `sacct -P` prints, and a line of it to the fields that are used.
//!
//! `sacct` escapes nothing, and users choose the names and comments of their jobs. A delimiter in one of them would shift all that
//! comes after it, so it is understood only in the last column, and only if no other column can have one.

use super::super::lines::Faults;

/// A column that is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Column {
    JobIdRaw,
    JobId,
    Cluster,
    Account,
    User,
    State,
    Submit,
    Start,
    End,
    ElapsedRaw,
    Elapsed,
    Suspended,
    AllocTres,
    NodeList,
    JobName,
    WcKey,
    Comment,
}

/// Slurm's names of the columns that are used, in the order of [`Column`].
pub const USED: [&str; 17] = [
    "JobIDRaw",
    "JobID",
    "Cluster",
    "Account",
    "User",
    "State",
    "Submit",
    "Start",
    "End",
    "ElapsedRaw",
    "Elapsed",
    "Suspended",
    "AllocTRES",
    "NodeList",
    "JobName",
    "WCKey",
    "Comment",
];

/// Those that must be there; ElapsedRaw may be Elapsed.
const REQUIRED: [Column; 11] = [
    Column::JobIdRaw,
    Column::Cluster,
    Column::Account,
    Column::User,
    Column::State,
    Column::Submit,
    Column::Start,
    Column::End,
    Column::ElapsedRaw,
    Column::Suspended,
    Column::AllocTres,
];

/// Used ones that users choose, as free text; the last of [`USED`].
const FREE: [Column; 3] = [Column::JobName, Column::WcKey, Column::Comment];

/// Columns that are not used, and are no free text either.
const HARMLESS: [&str; 19] = [
    "AllocCPUS",
    "AllocNodes",
    "AssocID",
    "DBIndex",
    "Eligible",
    "ExitCode",
    "GID",
    "Group",
    "NCPUS",
    "NNodes",
    "Partition",
    "Priority",
    "QOS",
    "ReqCPUS",
    "ReqMem",
    "ReqNodes",
    "Restarts",
    "Timelimit",
    "UID",
];

/// Delimiters that are understood: that of `-P`, and those of `--delimiter` that names hardly contain.
const DELIMITERS: [char; 4] = ['|', '\t', '\u{1f}', '^'];

impl Column {
    /// Its name.
    pub const fn name(self) -> &'static str {
        USED[self as usize]
    }
}

/// Which columns a file has, and where.
#[derive(Debug)]
pub(super) struct Columns {
    header: String,
    delimiter: char,
    /// The used column that each one is.
    used: Vec<Option<usize>>,
    has: [bool; USED.len()],
    /// Whether the last one may contain the delimiter.
    last_is_open: bool,
}

/// The fields of a line that are used; empty ones if the file has no such column.
#[derive(Debug)]
pub(super) struct Record<'l>([&'l str; USED.len()]);

impl<'l> Record<'l> {
    /// What stands in a column.
    pub fn get(&self, column: Column) -> &'l str {
        self.0[column as usize]
    }
}

impl Columns {
    /// Reads the header; `experiment` is wanted too. Faults if a column is missing or comes twice.
    pub fn read(header: &str, experiment: Option<Column>, faults: &mut Faults) -> Self {
        let delimiter = DELIMITERS.into_iter().find(|delimiter| header.contains(*delimiter)).unwrap_or('|');
        let names: Vec<&str> = header.split(delimiter).collect();
        let place = |name: &str| USED.iter().position(|used| used.eq_ignore_ascii_case(name));
        let used: Vec<Option<usize>> = names.iter().map(|name| place(name)).collect();
        let mut has = [false; USED.len()];
        for (at, name) in used.iter().zip(&names) {
            if let Some(at) = *at
                && std::mem::replace(&mut has[at], true)
            {
                faults.add("header", name, "each column once");
            }
        }
        for column in REQUIRED.into_iter().chain(experiment) {
            let stands_in = column == Column::ElapsedRaw && has[Column::Elapsed as usize];
            if !has[column as usize] && !stands_in {
                faults.add("header", header, format!("the column {} too", column.name()));
            }
        }
        let last_is_open = names.iter().rev().skip(1).all(|name| !is_free(name));
        Self { header: header.to_owned(), delimiter, used, has, last_is_open }
    }

    /// Whether the file has this column.
    pub fn has(&self, column: Column) -> bool {
        self.has[column as usize]
    }

    /// Whether the line is the header again, as in files that were put together.
    pub fn is_header(&self, line: &str) -> bool {
        line == self.header
    }

    /// The fields of a line.
    ///
    /// # Errors
    /// What was expected.
    pub fn cut<'l>(&self, line: &'l str) -> Result<Record<'l>, String> {
        let count = self.used.len();
        let found = line.split(self.delimiter).count();
        if found < count || (found > count && !self.last_is_open) {
            let hint = if found > count { "; put a column that may contain the delimiter last" } else { "" };
            return Err(format!("{count} fields, found {found}{hint}"));
        }
        let mut fields = [""; USED.len()];
        for (at, field) in self.used.iter().zip(line.splitn(count, self.delimiter)) {
            if let Some(at) = *at {
                fields[at] = field;
            }
        }
        Ok(Record(fields))
    }
}

/// Whether a column may have any text in it.
fn is_free(name: &str) -> bool {
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    let is_used = USED.into_iter().take(USED.len() - FREE.len()).any(is);
    !is_used && !HARMLESS.into_iter().any(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "JobIDRaw|Cluster|Account|User|State|Submit|Start|End|ElapsedRaw|Suspended|AllocTRES";

    fn read(header: &str, experiment: Option<Column>) -> Result<Columns, String> {
        let mut faults = Faults::default();
        faults.line = 1;
        let columns = Columns::read(header, experiment, &mut faults);
        if faults.is_empty() { Ok(columns) } else { Err(faults.refuse("jobs").to_string()) }
    }

    #[test]
    fn columns_are_found_by_name_in_any_order() {
        let columns = read(&format!("NodeList|{HEADER}|Partition"), None).unwrap();
        let record = columns.cut("n[1-2]|7|kiel|bio|ana|FAILED|s|a|b|5|00:00:00|cpu=1|long").unwrap();
        assert_eq!(record.get(Column::JobIdRaw), "7");
        assert_eq!(record.get(Column::NodeList), "n[1-2]");
        assert_eq!((record.get(Column::AllocTres), record.get(Column::Comment)), ("cpu=1", ""));
        assert!(columns.has(Column::NodeList) && !columns.has(Column::JobId));
        assert_eq!(USED.map(str::len).len(), Column::Comment as usize + 1);
    }

    #[test]
    fn missing_and_doubled_columns_are_told() {
        let text = read(&HEADER.replace("User|", ""), None).unwrap_err();
        assert!(text.contains("expected the column User too"), "{text}");
        let text = read(&format!("{HEADER}|User"), None).unwrap_err();
        assert!(text.contains("jobs:1: header: \"User\", expected each column once"), "{text}");
        let text = read(HEADER, Some(Column::WcKey)).unwrap_err();
        assert!(text.contains("expected the column WCKey too"), "{text}");
        assert!(read(&HEADER.replace("ElapsedRaw", "Elapsed"), None).is_ok());
        let text = read(&HEADER.replace("ElapsedRaw", "CPUTime"), None).unwrap_err();
        assert!(text.contains("expected the column ElapsedRaw too"), "{text}");
    }

    #[test]
    fn a_delimiter_in_a_name_is_understood_only_at_the_end() {
        let line = "7|kiel|bio|ana|FAILED|s|a|b|5|00:00:00|cpu=1|x|y|z";
        let columns = read(&format!("{HEADER}|JobName"), None).unwrap();
        assert_eq!(columns.cut(line).unwrap().get(Column::JobName), "x|y|z");
        for header in
            [format!("{HEADER}|Comment|JobName"), format!("JobName|{HEADER}"), format!("{HEADER}|WorkDir|JobName")]
        {
            let error = read(&header, None).unwrap().cut(line).unwrap_err();
            assert!(error.contains("put a column that may contain the delimiter last"), "{error}");
        }
        assert_eq!(columns.cut("7|kiel").unwrap_err(), "12 fields, found 2");
        let columns = read(&format!("{HEADER}|Comment|JobName").replace('|', "\u{1f}"), None).unwrap();
        let line = line.replace("x|y|z", "a|b|c|d").replacen('|', "\u{1f}", 12);
        let record = columns.cut(&line).unwrap();
        assert_eq!((record.get(Column::Comment), record.get(Column::JobName)), ("a", "b|c|d"));
    }
}
