//! `serve` as a library call: starts every listener, waits for the shutdown, drains.
