//! The C functions of libchdb, loaded at run time, and a safe connection on top of them.
//!
//! The library has no header; the declarations below were written from the functions' known use and are exercised by
//! the tests. One process can open one data path; any number of connections to it can run at once, each from one
//! thread at a time. Opening a connection takes a fraction of a millisecond, so every request gets a fresh one and no
//! setting can leak from one request to the next.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null;

use super::error::{Error, Failure};

type Conn = *mut c_void;
type Raw = *mut c_void;
type Strings = *const *const c_char;

type QueryFn = unsafe extern "C" fn(
    Conn,
    *const c_char,
    usize,
    *const c_char,
    usize,
    Strings,
    *const usize,
    Strings,
    *const usize,
    usize,
) -> Raw;

/// The loaded library. It is never unloaded: its threads outlive every connection.
pub struct Library {
    connect: unsafe extern "C" fn(c_int, *const *const c_char) -> *mut Conn,
    close: unsafe extern "C" fn(*mut Conn),
    query: QueryFn,
    insert: QueryFn,
    insert_append: unsafe extern "C" fn(Raw, *const c_void, usize) -> c_int,
    insert_done: unsafe extern "C" fn(Raw) -> Raw,
    insert_cancel: unsafe extern "C" fn(Raw),
    insert_error: unsafe extern "C" fn(Raw) -> *const c_char,
    insert_destroy: unsafe extern "C" fn(Raw),
    buffer: unsafe extern "C" fn(Raw) -> *const c_char,
    length: unsafe extern "C" fn(Raw) -> usize,
    error: unsafe extern "C" fn(Raw) -> *const c_char,
    rows_read: unsafe extern "C" fn(Raw) -> u64,
    bytes_read: unsafe extern "C" fn(Raw) -> u64,
    storage_rows_read: unsafe extern "C" fn(Raw) -> u64,
    storage_bytes_read: unsafe extern "C" fn(Raw) -> u64,
    rows_written: unsafe extern "C" fn(Raw) -> u64,
    bytes_written: unsafe extern "C" fn(Raw) -> u64,
    destroy: unsafe extern "C" fn(Raw),
}

/// What a finished query counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Rows of the result.
    pub result_rows: u64,
    /// Bytes of the result.
    pub result_bytes: u64,
    /// Rows read from tables.
    pub read_rows: u64,
    /// Bytes read from tables.
    pub read_bytes: u64,
    /// Rows written to tables.
    pub written_rows: u64,
    /// Bytes written to tables.
    pub written_bytes: u64,
}

/// Query parameters: the name, and the value in the tab-separated escaping that ClickHouse expects.
pub type Params = Vec<(String, String)>;

impl Library {
    /// Loads libchdb and switches its signal handlers off.
    ///
    /// # Errors
    /// [`Error::Load`] when the file is no library or lacks a function.
    pub fn load(path: &Path) -> Result<&'static Self, Error> {
        let failed = |source| Error::Load { path: path.to_owned(), source };
        // SAFETY: libchdb's initialisers only set up its allocator and its statics; it is loaded once and stays loaded.
        let library = Box::leak(Box::new(unsafe { libloading::Library::new(path) }.map_err(failed)?));
        // SAFETY (each `symbol!` below): the type is the function's declaration in libchdb 26.7, and the library is
        // leaked, so the function stays valid for as long as the process runs.
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: see above.
                *unsafe { library.get($name) }.map_err(failed)?
            };
        }
        let signal_handlers: unsafe extern "C" fn(c_int) = symbol!("chdb_set_signal_handlers_enabled");
        // SAFETY: called before the first connection, as the library asks.
        unsafe { signal_handlers(0) };
        Ok(Box::leak(Box::new(Self {
            connect: symbol!("chdb_connect"),
            close: symbol!("chdb_close_conn"),
            query: symbol!("chdb_query_with_params_n"),
            insert: symbol!("chdb_stream_insert_with_params_n"),
            insert_append: symbol!("chdb_stream_append"),
            insert_done: symbol!("chdb_stream_done"),
            insert_cancel: symbol!("chdb_stream_cancel_insert"),
            insert_error: symbol!("chdb_stream_insert_error"),
            insert_destroy: symbol!("chdb_destroy_insert_stream"),
            buffer: symbol!("chdb_result_buffer"),
            length: symbol!("chdb_result_length"),
            error: symbol!("chdb_result_error"),
            rows_read: symbol!("chdb_result_rows_read"),
            bytes_read: symbol!("chdb_result_bytes_read"),
            storage_rows_read: symbol!("chdb_result_storage_rows_read"),
            storage_bytes_read: symbol!("chdb_result_storage_bytes_read"),
            rows_written: symbol!("chdb_result_rows_written"),
            bytes_written: symbol!("chdb_result_bytes_written"),
            destroy: symbol!("chdb_destroy_query_result"),
        })))
    }

    /// Opens a connection; the first one of a process opens the data path. `None` when the engine refuses.
    pub fn connect(&'static self, arguments: &[String]) -> Option<Connection> {
        let owned: Vec<CString> = std::iter::once("clickhouse")
            .chain(arguments.iter().map(String::as_str))
            .map(CString::new)
            .collect::<Result<_, _>>()
            .ok()?;
        let argv: Vec<*const c_char> = owned.iter().map(|argument| argument.as_ptr()).collect();
        let argc = c_int::try_from(argv.len()).ok()?;
        // SAFETY: `argv` holds `argc` NUL-terminated strings that live over the call; the library copies them.
        let handle = unsafe { (self.connect)(argc, argv.as_ptr()) };
        // SAFETY: a handle that is not null points to the connection, which is null when opening failed.
        (!handle.is_null() && !unsafe { *handle }.is_null()).then_some(Connection { library: self, handle })
    }
}

/// An open connection. It may move between threads, but runs one statement at a time.
pub struct Connection {
    library: &'static Library,
    handle: *mut Conn,
}

// SAFETY: the library allows a connection to be used from any thread, one at a time; `&mut self` on every call that
// uses it makes it one at a time.
unsafe impl Send for Connection {}

impl Connection {
    /// Runs a statement and returns its whole result in `format`.
    ///
    /// # Errors
    /// The engine's failure.
    pub fn query(&mut self, sql: &[u8], format: &str, params: &Params) -> Result<(Vec<u8>, Stats), Failure> {
        let library = self.library;
        let raw = self.call(library.query, sql, format, params);
        Outcome { library, raw }.finish()
    }

    /// Opens an insert whose rows, in `format`, follow by [`Insert::append`].
    ///
    /// # Errors
    /// The engine's failure: a syntax error, an unknown table, an unknown format.
    pub fn insert(&mut self, sql: &[u8], format: &str, params: &Params) -> Result<Insert<'_>, Failure> {
        let library = self.library;
        let raw = self.call(library.insert, sql, format, params);
        let insert = Insert { library, raw, open: true, _connection: self };
        match insert.error() {
            Some(failure) => Err(failure),
            None => Ok(insert),
        }
    }

    fn call(&mut self, function: QueryFn, sql: &[u8], format: &str, params: &Params) -> Raw {
        let pointers = |part: fn(&(String, String)) -> &str| -> (Vec<*const c_char>, Vec<usize>) {
            params.iter().map(|pair| (part(pair).as_ptr().cast(), part(pair).len())).unzip()
        };
        let (names, name_lengths) = pointers(|pair| &pair.0);
        let (values, value_lengths) = pointers(|pair| &pair.1);
        let or_null = |list: &Vec<*const c_char>| if list.is_empty() { null() } else { list.as_ptr() };
        // SAFETY: every pointer comes with its length and lives over the call, which copies what it needs; the four
        // lists have `params.len()` entries; the connection is open and `&mut self` keeps other calls away.
        unsafe {
            function(
                *self.handle,
                sql.as_ptr().cast(),
                sql.len(),
                format.as_ptr().cast(),
                format.len(),
                or_null(&names),
                name_lengths.as_ptr(),
                or_null(&values),
                value_lengths.as_ptr(),
                params.len(),
            )
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the handle came from `chdb_connect` and is closed once.
        unsafe { (self.library.close)(self.handle) };
    }
}

/// An insert that is being fed. Dropped before [`Insert::finish`], it is cancelled.
pub struct Insert<'a> {
    library: &'static Library,
    raw: Raw,
    open: bool,
    _connection: &'a mut Connection,
}

impl Insert<'_> {
    fn error(&self) -> Option<Failure> {
        // SAFETY: the stream is alive; the text, if any, is NUL-terminated and lives as long as the stream.
        let text = unsafe { (self.library.insert_error)(self.raw) };
        // SAFETY: as above.
        (!text.is_null()).then(|| Failure::engine(&unsafe { CStr::from_ptr(text) }.to_string_lossy()))
    }

    /// Hands over more bytes, cut anywhere; blocks while the engine is behind.
    ///
    /// # Errors
    /// The engine's failure: rows that cannot be parsed or written.
    pub fn append(&mut self, data: &[u8]) -> Result<(), Failure> {
        // SAFETY: the stream is alive and the library copies the bytes.
        if unsafe { (self.library.insert_append)(self.raw, data.as_ptr().cast(), data.len()) } == 0 {
            return Ok(());
        }
        Err(self.error().unwrap_or_else(|| Failure::engine("the insert was refused without a reason")))
    }

    /// Ends the insert; when this returns, the engine has the rows.
    ///
    /// # Errors
    /// The engine's failure.
    pub fn finish(mut self) -> Result<Stats, Failure> {
        self.open = false;
        // SAFETY: the stream is alive and is finished once.
        let raw = unsafe { (self.library.insert_done)(self.raw) };
        if raw.is_null() {
            return Err(self.error().unwrap_or_else(|| Failure::engine("the insert ended without a result")));
        }
        Outcome { library: self.library, raw }.finish().map(|(_, stats)| stats)
    }
}

impl Drop for Insert<'_> {
    fn drop(&mut self) {
        if self.open {
            // SAFETY: the stream is alive and was not finished.
            unsafe { (self.library.insert_cancel)(self.raw) };
        }
        // SAFETY: the stream is destroyed once, finished or not.
        unsafe { (self.library.insert_destroy)(self.raw) };
    }
}

/// A result of the library's, freed when dropped.
struct Outcome {
    library: &'static Library,
    raw: Raw,
}

impl Outcome {
    fn finish(self) -> Result<(Vec<u8>, Stats), Failure> {
        if self.raw.is_null() {
            return Err(Failure::engine("the engine gave no result"));
        }
        // SAFETY: the result is alive; the text, if any, is NUL-terminated and lives as long as the result.
        let text = unsafe { (self.library.error)(self.raw) };
        if !text.is_null() {
            // SAFETY: as above.
            return Err(Failure::engine(&unsafe { CStr::from_ptr(text) }.to_string_lossy()));
        }
        // SAFETY: the result is alive; `buffer` points to `length` bytes that live as long as the result.
        let (buffer, length) = unsafe { ((self.library.buffer)(self.raw), (self.library.length)(self.raw)) };
        let body = if buffer.is_null() || length == 0 {
            Vec::new()
        } else {
            // SAFETY: as above.
            unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), length) }.to_vec()
        };
        let count = |counter: unsafe extern "C" fn(Raw) -> u64| {
            // SAFETY: the result is alive and this only reads one of its counters.
            unsafe { counter(self.raw) }
        };
        let library = self.library;
        let stats = Stats {
            result_rows: count(library.rows_read),
            result_bytes: count(library.bytes_read),
            read_rows: count(library.storage_rows_read),
            read_bytes: count(library.storage_bytes_read),
            written_rows: count(library.rows_written),
            written_bytes: count(library.bytes_written),
        };
        Ok((body, stats))
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the result is freed once.
            unsafe { (self.library.destroy)(self.raw) };
        }
    }
}
