//! Who asks, and whether they may: the engine has no users, so the endpoint has one.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use super::error::Failure;

/// A name and a password, as a client gives them or as the endpoint was started with.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The password; empty when there is none.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Default for Credentials {
    fn default() -> Self {
        Self { user: "default".to_owned(), password: String::new() }
    }
}

impl Credentials {
    /// Takes the credentials out of exactly one place: `X-ClickHouse-User` and `-Key`, `Authorization: Basic`, or the
    /// URL; without any, the default user without a password.
    ///
    /// # Errors
    /// Several places at once, another kind of authorization, or one that cannot be read.
    pub fn of(user: Option<String>, password: Option<String>, headers: &HeaderMap) -> Result<Self, Failure> {
        let header = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let (header_user, key) = (header("x-clickhouse-user"), header("x-clickhouse-key"));
        let basic = header(header::AUTHORIZATION.as_str());
        let in_url = user.is_some() || password.is_some();
        let in_headers = header_user.is_some() || key.is_some();
        if [in_url, in_headers, basic.is_some()].into_iter().filter(|used| *used).count() > 1 {
            return Err(failed(
                "credentials were given in several places at once; expected one of the X-ClickHouse \
                headers, the Authorization header and the URL",
            ));
        }
        if let Some(basic) = basic {
            let (scheme, encoded) = basic.split_once(' ').unwrap_or((&basic, ""));
            if !scheme.eq_ignore_ascii_case("basic") {
                return Err(failed("'Authorization' in another scheme than 'Basic' is not supported by this endpoint"));
            }
            let decoded = BASE64_STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let Some((user, password)) = decoded.as_deref().and_then(|pair| pair.split_once(':')) else {
                return Err(failed(
                    "the 'Authorization' header cannot be read; expected 'Basic' and base64 of user:password",
                ));
            };
            return Ok(Self { user: user.to_owned(), password: password.to_owned() });
        }
        let default = Self::default();
        Ok(Self {
            user: user.or(header_user).unwrap_or(default.user),
            password: password.or(key).unwrap_or(default.password),
        })
    }

    /// Checks what a client gave against these; takes as long for any wrong password.
    ///
    /// # Errors
    /// ClickHouse's `AUTHENTICATION_FAILED`, which doesn't tell a wrong name from a wrong password.
    pub fn check(&self, given: &Self) -> Result<(), Failure> {
        let digest = |credentials: &Self| {
            let mut hash = Sha256::new();
            hash.update(credentials.user.as_bytes());
            hash.update([0]);
            hash.update(credentials.password.as_bytes());
            hash.finalize()
        };
        let differ = digest(self).iter().zip(digest(given).iter()).fold(0, |all, (a, b)| all | (a ^ b));
        if differ == 0 {
            return Ok(());
        }
        Err(failed(&format!(
            "{}: Authentication failed: password is incorrect, or there is no user with such name",
            given.user
        )))
    }
}

fn failed(message: &str) -> Failure {
    Failure::new(516, "AUTHENTICATION_FAILED", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().expect("a name"), value.parse().expect("a value"))).collect()
    }

    fn pair(user: &str, password: &str) -> Credentials {
        Credentials { user: user.to_owned(), password: password.to_owned() }
    }

    #[test]
    fn credentials_come_from_one_of_three_places() {
        let of = |pairs: &[(&'static str, &str)]| Credentials::of(None, None, &headers(pairs));
        assert_eq!(of(&[]), Ok(pair("default", "")));
        assert_eq!(of(&[("x-clickhouse-user", "u"), ("x-clickhouse-key", "p")]), Ok(pair("u", "p")));
        // printf 'u:p:q' | base64
        assert_eq!(of(&[("authorization", "Basic dTpwOnE=")]), Ok(pair("u", "p:q")));
        let url = Credentials::of(Some("u".to_owned()), Some("p".to_owned()), &headers(&[]));
        assert_eq!(url, Ok(pair("u", "p")));
    }

    #[test]
    fn other_schemes_and_several_places_are_refused() {
        let code = |pairs: &[(&'static str, &str)]| Credentials::of(None, None, &headers(pairs)).map_err(|f| f.code);
        assert_eq!(code(&[("authorization", "Bearer x")]), Err(516));
        assert_eq!(code(&[("authorization", "Basic !")]), Err(516));
        assert_eq!(code(&[("authorization", "Basic dTpw"), ("x-clickhouse-user", "u")]), Err(516));
    }

    #[test]
    fn a_wrong_name_reads_like_a_wrong_password() {
        let own = pair("u", "p");
        assert_eq!(own.check(&pair("u", "p")), Ok(()));
        let wrong = own.check(&pair("u", "x")).expect_err("a wrong password");
        let unknown = own.check(&pair("v", "p")).expect_err("a wrong name");
        assert_eq!(wrong.text.replace("u: ", ": "), unknown.text.replace("v: ", ": "));
        // The name and the password are not run together.
        assert!(pair("ab", "c").check(&pair("a", "bc")).is_err());
        assert!(!format!("{own:?}").contains("\"p\""));
    }
}
