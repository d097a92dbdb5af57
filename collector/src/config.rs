//! The configuration of `contador serve`: raw TOML, then validated values.
