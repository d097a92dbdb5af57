//! Where ClickHouse is, who we are there, and the client made of both.

use std::path::PathBuf;

use clap::Args;
use clickhouse::Client;

use crate::failure::{Failure, usage};

/// How a command finds its store. Secrets come from the environment or a file, never from arguments.
#[derive(Args, Clone, Debug)]
pub struct StoreArgs {
    /// URL of ClickHouse's HTTP interface.
    #[arg(
        long = "clickhouse",
        value_name = "URL",
        env = "CONTADOR_CLICKHOUSE_URL",
        default_value = "http://127.0.0.1:8123"
    )]
    pub url: String,
    /// ClickHouse user; the password is read from CONTADOR_CLICKHOUSE_PASSWORD or from the file that
    /// CONTADOR_CLICKHOUSE_PASSWORD_FILE names.
    #[arg(long = "clickhouse-user", value_name = "USER", env = "CONTADOR_CLICKHOUSE_USER", default_value = "default")]
    pub user: String,
    /// Database that holds contador's tables.
    #[arg(
        long = "clickhouse-database",
        value_name = "NAME",
        env = "CONTADOR_CLICKHOUSE_DATABASE",
        default_value = "contador"
    )]
    pub database: String,
}

/// An opened store: a client bound to the database, and what it was made of.
#[derive(Clone)]
pub struct Store {
    /// The client, bound to [`Store::database`].
    pub client: Client,
    /// The URL that it talks to.
    pub url: String,
    /// The database that it reads and writes.
    pub database: String,
}

impl StoreArgs {
    /// Builds the client with the password of the environment; nothing is sent yet.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the URL, the database's name or the password file cannot be used.
    pub fn open(&self) -> Result<Store, Failure> {
        self.open_with(password()?)
    }

    /// Builds the client with this password, or none.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the URL or the database's name cannot be used.
    pub fn open_with(&self, password: Option<String>) -> Result<Store, Failure> {
        let parsed = url::Url::parse(&self.url).map_err(|error| {
            usage(format!("--clickhouse {:?}: {error}; expected a URL such as http://127.0.0.1:8123", self.url))
        })?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(usage(format!("--clickhouse {:?}: expected http:// or https://", self.url)));
        }
        if self.database.is_empty() || !self.database.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(usage(format!(
                "--clickhouse-database {:?}: expected letters, digits and underscores",
                self.database
            )));
        }
        let url = self.url.trim_end_matches('/').to_owned();
        let mut client = Client::default()
            .with_url(&url)
            .with_user(&self.user)
            .with_database(&self.database)
            .with_setting("async_insert", "0");
        if let Some(password) = password {
            client = client.with_password(password);
        }
        Ok(Store { client, url, database: self.database.clone() })
    }
}

fn password() -> Result<Option<String>, Failure> {
    if let Ok(password) = std::env::var("CONTADOR_CLICKHOUSE_PASSWORD") {
        return Ok(Some(password));
    }
    let Some(path) = std::env::var_os("CONTADOR_CLICKHOUSE_PASSWORD_FILE").map(PathBuf::from) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(&path)
        .map_err(|error| usage(format!("CONTADOR_CLICKHOUSE_PASSWORD_FILE {}: {error}", path.display())))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

impl Store {
    /// Where the store is, for people: the URL without user, password and query, and the database.
    pub fn place(&self) -> String {
        let Ok(url) = url::Url::parse(&self.url) else { return format!("database {}", self.database) };
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{}{port}{}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path(), self.database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_tells_no_secret() {
        let url = "http://someone:secret@ch.example:8123?password=secret".to_owned();
        let store = Store { client: Client::default(), url, database: "contador".to_owned() };
        assert_eq!(store.place(), "http://ch.example:8123/contador");
    }
}
