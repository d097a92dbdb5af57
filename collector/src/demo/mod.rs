//! `contador demo`: every part on this machine, as processes of their own.
